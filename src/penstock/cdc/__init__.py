"""A whole database as tables, from its changes in Kafka.

docs/database-to-lake.md is the guide.

Inside:

    messages.py   which columns the messages of Debezium have, and their rows
    columns.py    the columns of a table after its source has changed them: `evolve`
    gather.py     the changes of many tables in one Spark job
    batch.py      the steps of one batch; journal.py what is written down between them
    commits.py    gives the tables their rows

Runs on the driver and on executors; knows neither Kafka nor Spark. `replicate` is in `penstock.spark`, and
loads when it is first used.
"""

from penstock._lazy import names_of_stub

__all__, __getattr__, __dir__ = names_of_stub(__name__, __file__, needs_sources=True)
