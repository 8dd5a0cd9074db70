"""`over`: aggregates of the rows before each row, in the order of their times.

    operator.py  the operator: rows wait for the watermark, and each key keeps what later rows need
    calls.py     the texts of aggregates
    parts.py     the columns that aggregates are made of
    frames.py    the rows that each row sees, and folds over them

They run on executors. Invariant: none of them imports Spark or Kafka.
"""
