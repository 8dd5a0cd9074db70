"""Tables outside of Kafka that are kept equal to a changelog: each batch is applied once, as a whole.

`penstock.changelog.materialize` is the function for DataFrames. docs/materialize.md is the guide.

Inside:

    batch.py     the last row of each key of a batch, and a digest of the batch
    marker.py    what a target remembers of the last batch, and what that means for the next one
    sql.py       a table of PostgreSQL or SQLite
    parquet.py   a folder of Parquet files in versions
    delta.py     a Delta table, with the extra `delta`
    iceberg.py   an Iceberg table, with the extra `iceberg`
    spark_tables.py  tables that Spark changes by MERGE
    history.py   the versions of each row, or all changes, in one of these tables
    all_rows.py  a batch with all changes, and its digest; staged_changes.py has one in files
    forget.py    frees a table of a database from its query: `penstock table forget`
    hand_over.py, kept.py, compare.py  hand a table over, and compare two: `penstock table promote`, `compare`

Runs on the driver; only the last row of each key is chosen on executors, and `staging`
lets them write files. Knows neither Kafka nor Spark.
Invariant: a target changes its rows and its marker in one step.
"""

from penstock.targets.delta import DeltaTable
from penstock.targets.history import ChangeLogTable, HistoryTable
from penstock.targets.iceberg import IcebergTable
from penstock.targets.parquet import ParquetTable
from penstock.targets.spark_tables import SparkDeltaTable, SparkIcebergTable
from penstock.targets.sql import SqlTable

__all__ = [
    "ChangeLogTable",
    "DeltaTable",
    "HistoryTable",
    "IcebergTable",
    "ParquetTable",
    "SparkDeltaTable",
    "SparkIcebergTable",
    "SqlTable",
]
