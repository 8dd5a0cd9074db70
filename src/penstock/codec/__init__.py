"""Kafka's record batches to and from Arrow: the compiled heart of penstock.

Runs on executors (the driver uses only `schema`). Invariant: bytes from the wire are never trusted, records
are never Python objects, and any fault in either is raised as a PenstockError.

    RecordBatchDecoder   bytes of a Fetch response -> KafkaRecords
    scan_batches, BatchHeaders   headers of record batches, without their records
    RecordColumns        rows of a DataFrame, checked once, ready for
    RecordBatchBuilder   -> bytes of a Produce request, one builder per topic partition
    murmur2_partitions, group_rows   the partition of each row
    digest_records       a digest of rows, in 128 bits
    Block                memory that is used again, for frames and columns

`tests/parity/codec_reference.py` does the same slowly, with kafka-python's record classes; tests compare
both. Only magic 2 is compiled; `legacy` reads the older formats.
"""

from __future__ import annotations

from penstock.codec._decode import RecordBatchDecoder
from penstock.codec._digest import digest_records
from penstock.codec._encode import RecordBatchBuilder
from penstock.codec._headers import BatchHeader, BatchHeaders, ScannedBatches, scan_batches
from penstock.codec._memory import Block
from penstock.codec._partitioning import group_rows, murmur2_partitions
from penstock.codec._record_columns import RecordColumns
from penstock.codec.schema import HEADERS_TYPE, KAFKA_RECORDS

__all__ = [
    "HEADERS_TYPE",
    "KAFKA_RECORDS",
    "BatchHeader",
    "BatchHeaders",
    "Block",
    "RecordBatchBuilder",
    "RecordBatchDecoder",
    "RecordColumns",
    "ScannedBatches",
    "digest_records",
    "group_rows",
    "murmur2_partitions",
    "scan_batches",
]
