"""What a Kafka topic means as a table: keys, metadata, bad records. Arrow in, Arrow out; no Kafka, no Spark.

On the driver: `parse_table_options(options)`, `make_table(schema, options)`, then a `TableDecoder` or
`TableEncoder` to find what does not fit. The `Table` pickles; the executors make their own decoder or
encoder.
"""

from penstock.table.bad_records import DEAD_LETTERS, BadRecords
from penstock.table.decode import RecordFailure, TableDecoder, TableRows
from penstock.table.encode import TableEncoder
from penstock.table.fields import Table, make_table
from penstock.table.options import (
    DeserializerOptions,
    OnDecodeError,
    TableOptions,
    has_table_options,
    parse_deserializer_options,
    parse_table_options,
)

__all__ = [
    "DEAD_LETTERS",
    "BadRecords",
    "DeserializerOptions",
    "OnDecodeError",
    "RecordFailure",
    "Table",
    "TableDecoder",
    "TableEncoder",
    "TableOptions",
    "TableRows",
    "has_table_options",
    "make_table",
    "parse_deserializer_options",
    "parse_table_options",
]
