"""What a task wrote, in 128 bits that do not depend on the order: how a replay is held to what was lost.

Runs on the executor. Pure. Definition 1, which is stored in decision logs and therefore never changes:

    mix(x)     = murmur3's 64-bit finaliser
    bytes(b)   = mix(sum over 8-byte little-endian words w[i], the last padded with zeros,
                     of mix(w[i] + (i + 1) * G)  +  mix(seed + length))
    null       = mix(seed ^ N)
    integer(n) = mix(mix(n + G) + seed)
    headers    = mix(sum over headers j of mix(mix(name) + value + (j + 1) * G)  +  mix(seed + count))
    record     = mix of topic, key, value, headers, timestamp, partition, folded: r = mix(r) + next
    digest     = (sum of record, sum of mix(record ^ H)), both modulo 2^64

It holds what a replay brings again: topic, key, value, headers (null and none are the same to Kafka), the
timestamp in ms and the partition *where a row gives them*. What the sink adds (the time of writing, the
partition chosen by hash or in turn) is not in it. The codec may compute the same faster; this is the
reference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Hashes = npt.NDArray[np.uint64]

DEFINITION = 1

_G = np.uint64(0x9E3779B97F4A7C15)
_N = np.uint64(0xD6E8FEB86659FD93)
_H = np.uint64(0xA0761D6478BD642F)
_MIX_1 = np.uint64(0xFF51AFD7ED558CCD)
_MIX_2 = np.uint64(0xC4CEB9FE1A85EC53)
_SHIFT = np.uint64(33)
_SEEDS = {
    name: np.uint64(seed)
    for seed, name in enumerate(
        ("topic", "key", "value", "header_name", "header_value", "headers", "timestamp", "partition"), start=1
    )
}
_MODULUS = 1 << 64


@dataclass(frozen=True, slots=True)
class RecordDigest:
    """Count and digest of a set of records; the digest of two sets together is their sum."""

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


def digest_rows(batch: pa.RecordBatch, topic: str | None = None) -> RecordDigest:
    """The digest of rows on their way to Kafka.

    Args:
        batch: with any of the columns topic, key, value, headers, timestamp, partition; others count for
            nothing.
        topic: of all rows; overrides the column.
    """
    row_count = batch.num_rows
    if not row_count:
        return RecordDigest()
    with np.errstate(over="ignore"):
        if topic is not None:
            topics = np.repeat(_hash_bytes(pa.array([topic]), _SEEDS["topic"]), row_count)
        else:
            topics = _hash_column(batch, "topic")
        hashes = topics
        for name in ("key", "value", "headers", "timestamp", "partition"):
            hashes = _mix(hashes) + _hash_column(batch, name)
        hashes = _mix(hashes)
        return RecordDigest(row_count, int(np.sum(hashes)), int(np.sum(_mix(hashes ^ _H))))


def _hash_column(batch: pa.RecordBatch, name: str) -> Hashes:
    seed = _SEEDS[name]
    index = batch.schema.get_field_index(name)
    if name == "headers":
        column = batch.column(index) if index >= 0 else pa.nulls(batch.num_rows)
        return _hash_headers(column, seed)
    if index < 0:
        return np.full(batch.num_rows, _mix(seed ^ _N), np.uint64)
    column = batch.column(index)
    if name == "timestamp" and not pa.types.is_null(column.type):
        # As Kafka keeps it: milliseconds, rounded down.
        column = pc.floor_temporal(column, unit="millisecond").cast(pa.timestamp("ms", column.type.tz))
    is_integer = name in ("timestamp", "partition")
    hashed = _hash_integers(column, seed) if is_integer else _hash_bytes(column, seed)
    return _where_null(column, hashed, seed)


def _mix(values: Any) -> Any:
    values = (values ^ (values >> _SHIFT)) * _MIX_1
    values = (values ^ (values >> _SHIFT)) * _MIX_2
    return values ^ (values >> _SHIFT)


def _where_null(column: pa.Array, hashed: Hashes, seed: np.uint64) -> Hashes:
    if column.null_count == 0:
        return hashed
    is_null = column.is_null().to_numpy(zero_copy_only=False)
    return np.where(is_null, _mix(seed ^ _N), hashed)


def _hash_integers(column: pa.Array, seed: np.uint64) -> Hashes:
    if pa.types.is_null(column.type):
        return np.zeros(len(column), np.uint64)
    numbers = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False).astype(np.uint64)
    hashed: Hashes = _mix(_mix(numbers + _G) + seed)
    return hashed


def _hash_bytes(column: pa.Array, seed: np.uint64) -> Hashes:
    """Hash each value of a binary or string column; what stands at null rows is of no account."""
    if pa.types.is_null(column.type):
        return np.zeros(len(column), np.uint64)
    starts, lengths, words = _values(column)
    word_counts = (lengths + 7) >> 3
    last_words = np.cumsum(word_counts)
    first_words = last_words - word_counts
    places = np.arange(word_counts.sum(), dtype=np.int64) - np.repeat(first_words, word_counts)
    loaded = words[np.repeat(starts, word_counts) + (places << 3)]
    bytes_left = np.repeat(lengths, word_counts) - (places << 3)
    unused_bits = (np.clip(8 - bytes_left, 0, 7) << 3).astype(np.uint64)
    loaded = (loaded << unused_bits) >> unused_bits
    mixed = _mix(loaded + (places + 1).astype(np.uint64) * _G)
    hashed: Hashes = _mix(_sums(mixed, first_words, last_words) + _mix(seed + lengths.astype(np.uint64)))
    return hashed


def _values(column: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Hashes]:
    """Start and length of each value, and the 8-byte word that begins at each byte."""
    is_large = pa.types.is_large_binary(column.type) or pa.types.is_large_string(column.type)
    _, offset_buffer, data_buffer = column.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64 if is_large else np.int32)
    offsets = offsets[column.offset : column.offset + len(column) + 1].astype(np.int64)
    first, end = int(offsets[0]), int(offsets[-1])
    padded = np.zeros(end - first + 8, np.uint8)
    if end > first:
        padded[: end - first] = np.frombuffer(data_buffer, np.uint8)[first:end]
    words: Hashes = np.ndarray((len(padded) - 7,), "<u8", padded, strides=(1,))
    return offsets[:-1] - first, np.diff(offsets), words


def _hash_headers(column: pa.Array, seed: np.uint64) -> Hashes:
    if pa.types.is_null(column.type):
        return np.full(len(column), _mix(_mix(seed)), np.uint64)
    counts = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    headers = column.flatten()
    names, values = headers.field("key"), headers.field("value")
    name_hashes = _where_null(names, _hash_bytes(names, _SEEDS["header_name"]), _SEEDS["header_name"])
    value_hashes = _where_null(values, _hash_bytes(values, _SEEDS["header_value"]), _SEEDS["header_value"])
    ends = np.cumsum(counts)
    firsts = ends - counts
    places = np.arange(counts.sum(), dtype=np.int64) - np.repeat(firsts, counts)
    mixed = _mix(_mix(name_hashes) + value_hashes + (places + 1).astype(np.uint64) * _G)
    hashed: Hashes = _mix(_sums(mixed, firsts, ends) + _mix(seed + counts.astype(np.uint64)))
    return hashed


def _sums(values: Hashes, firsts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> Hashes:
    """The sum of `values[first:end]` for each pair, modulo 2^64."""
    running = np.concatenate((np.zeros(1, np.uint64), np.cumsum(values, dtype=np.uint64)))
    sums: Hashes = running[ends] - running[firsts]
    return sums
