"""What a Kafka topic means as a table: keys, metadata, bad records. Arrow in, Arrow out; no Kafka, no Spark.

On the driver: `make_table(schema, spec)` with the specification that `penstock.options` has parsed. The
driver makes a `TableDecoder` or `TableEncoder` too, to find mistakes in the schema. The `Table` pickles. The
executors make their own decoder or encoder.
"""

from penstock.table._bad_records import DEAD_LETTERS, BadRecords
from penstock.table._decode import RecordFailure, TableDecoder, TableRows
from penstock.table._encode import TableEncoder
from penstock.table._fields import Table, make_table

__all__ = [
    "DEAD_LETTERS",
    "BadRecords",
    "RecordFailure",
    "Table",
    "TableDecoder",
    "TableEncoder",
    "TableRows",
    "make_table",
]
