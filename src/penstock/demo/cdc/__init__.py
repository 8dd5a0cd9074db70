"""`penstock demo cdc`: a table of PostgreSQL, as Debezium's messages, is kept in SQLite and in Parquet.

    history.py    the real flights as a history of changes, and Debezium's messages of it
    pipeline.py   the streaming queries, as a user would write them
    check.py      the true tables, computed from the flights alone
    run.py        the whole demo

Runs on the driver. Invariant: it leaves nothing running, and says so if a table is wrong.
"""
