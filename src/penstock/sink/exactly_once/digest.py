"""Digest what a task wrote in 128 bits that do not depend on the order, to compare a replay with it.

Runs on the executor. Pure. Definition 1 is stored in decision logs, so it never changes:

    mix(x)     = murmur3's 64-bit finaliser
    bytes(b)   = mix(sum over 8-byte little-endian words w[i], the last padded with zeros,
                     of mix(w[i] + (i + 1) * G)  +  mix(seed + length))
    null       = mix(seed ^ N)
    integer(n) = mix(mix(n + G) + seed)
    headers    = mix(sum over headers j of mix(mix(name) + value + (j + 1) * G)  +  mix(seed + count))
    record     = mix of topic, key, value, headers, timestamp, partition, folded: r = mix(r) + next
    digest     = (sum of record, sum of mix(record ^ H)), both modulo 2^64

It covers what a replay brings again: topic, key, value and headers (null and no headers are the same to
Kafka), and timestamp in ms and partition *if the row has them*. It does not cover what the sink adds: the
time of writing, and the partition chosen by hash or in turn. The codec computes it: `codec/_digest.pyx`, with
the constants in `codec/native/digest.h`.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from penstock.codec import RecordColumns, digest_records
from penstock.sink.rows import column_of

DEFINITION = 1

_RECORD_COLUMNS = ("key", "value", "headers", "timestamp")
_MODULUS = 1 << 64
_DIGIT_COUNT = 32


@dataclass(frozen=True, slots=True)
class RecordDigest:
    """Count and digest of a set of records. The digest of two sets together is the sum of both."""

    record_count: int = 0
    first_sum: int = 0
    second_sum: int = 0

    def __add__(self, other: RecordDigest) -> RecordDigest:
        return RecordDigest(
            self.record_count + other.record_count,
            (self.first_sum + other.first_sum) % _MODULUS,
            (self.second_sum + other.second_sum) % _MODULUS,
        )

    def __str__(self) -> str:
        return f"{DEFINITION}:{self.first_sum:016x}{self.second_sum:016x}"

    @classmethod
    def from_text(cls, record_count: int, text: str) -> RecordDigest:
        """Read the text of `str`; ValueError for anything else, or for another definition."""
        definition, _, digits = text.partition(":")
        if definition != str(DEFINITION) or len(digits) != _DIGIT_COUNT:
            msg = f"expected a digest of definition {DEFINITION}, got {text!r}"
            raise ValueError(msg)
        first, second = digits[: _DIGIT_COUNT // 2], digits[_DIGIT_COUNT // 2 :]
        return cls(record_count, int(first, 16), int(second, 16))


NO_RECORDS = RecordDigest()


def digest_rows(batch: pa.RecordBatch, topic: str | None = None) -> RecordDigest:
    """Return the digest of rows on their way to Kafka.

    Args:
        batch: with any of the columns topic, key, value, headers, timestamp, partition; others are ignored.
        topic: of all rows; overrides the column.
    """
    columns = RecordColumns(batch.select([name for name in _RECORD_COLUMNS if name in batch.schema.names]))
    topics = column_of(batch, "topic", None) if topic is None else topic.encode()
    partitions = column_of(batch, "partition", None)
    if partitions is not None and partitions.type != pa.int32():
        partitions = partitions.cast(pa.int32())
    return RecordDigest(batch.num_rows, *digest_records(columns, topics, partitions))


def form_of(batch: pa.RecordBatch) -> str | None:
    """Return how a log can be digested again to compare it with rows: a text of "t" and "p", or neither.

    "t": the rows have timestamps; "p": they name partitions. None: only some rows have one, so the log, in
    which each record has both, cannot tell what to digest.
    """
    form = ""
    for name, letter in (("timestamp", "t"), ("partition", "p")):
        column = column_of(batch, name, None)
        if column is None or column.null_count == batch.num_rows:
            continue
        if column.null_count:
            return None
        form += letter
    return form
