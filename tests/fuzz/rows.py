"""Harnesses of what is computed from rows: hashes, digests, orders, topic partitions.

Runs in the processes that fuzz. Here an input is not a hostile value, because rows come from Spark. It
chooses the rows: lengths, nulls, offsets of the arrays. Python computes the same again, or each row alone
gives the same.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.codec import KAFKA_RECORDS, RecordColumns
from penstock.codec._digest import digest_records
from penstock.codec._memory import Block
from penstock.codec._partitioning import group_rows, murmur2_partitions
from penstock.state._hash import hash_bytes, hash_rows
from penstock.state._order import order_into
from tests.fuzz.harness import mutated
from tests.fuzz.memory import exact_array, exact_values

SEEDS = (b"", b"\0", b"abc", bytes(range(256)), b"\1\xff\x80" * 20)


class Rows:
    """Everything that is computed from rows."""

    covers = (
        *("codec/_partitioning.pyx", "codec/_digest.pyx", "codec/_record_columns.pyx", "codec/_memory.pyx"),
        *("state/_hash.pyx", "state/_order.pyx"),
    )

    def __init__(self, seed: int) -> None:
        del seed

    def seeds(self) -> Sequence[bytes]:
        return SEEDS

    def mutated(self, chance: random.Random, data: bytes, other: bytes) -> bytes:
        return mutated(chance, data, other)

    def check(self, data: bytes) -> None:
        values = _divided(data)
        keys = exact_values(values)
        _check_partitions(keys, values, 1 + len(data) % 7)
        _check_hashes(keys, values)
        _check_digest(keys, data)
        _check_order(data)
        memory = Block(len(data))
        memoryview(memory)[:] = data
        assert bytes(memory) == data


def _divided(data: bytes) -> list[bytes | None]:
    """Divide an input into values, whose lengths are its first bytes. 255 is a null."""
    values: list[bytes | None] = []
    count = 1 + len(data) // 8
    at = count
    for length in data[:count]:
        values.append(None if length == 255 else data[at : at + length % 24])
        at += length % 24
    return values


def _check_partitions(keys: pa.Array, values: list[bytes | None], count: int) -> None:
    found = murmur2_partitions(keys, count)
    assert found.to_pylist() == [
        -1 if one is None else (_murmur2(one) & 0x7FFFFFFF) % count for one in values
    ]
    groups = exact_array(pa.array([max(one, 0) for one in found.to_pylist()], pa.int32()))
    grouped = [each.to_pylist() for each in group_rows(groups, count)]
    numbers = list(enumerate(groups.to_pylist()))
    assert grouped == [[at for at, one in numbers if one == each] for each in range(count)]


def _murmur2(data: bytes) -> int:
    """Compute Kafka's hash of a key as Java does."""
    value, m = 0x9747B28C ^ len(data), 0x5BD1E995
    whole = len(data) // 4 * 4
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        mixed = word * m & 0xFFFFFFFF
        mixed = (mixed ^ mixed >> 24) * m & 0xFFFFFFFF
        value = value * m & 0xFFFFFFFF ^ mixed
    rest = data[whole:]
    if rest:
        value = (value ^ int.from_bytes(rest, "little")) * m & 0xFFFFFFFF
    value = (value ^ value >> 13) * m & 0xFFFFFFFF
    return value ^ value >> 15


def _hashes(arrays: list[pa.Array]) -> list[tuple[int, int]]:
    count = len(arrays[0])
    high, low = np.zeros(count, np.uint64), np.zeros(count, np.uint64)
    hash_rows(arrays, high, low)
    return list(zip(high.tolist(), low.tolist(), strict=True))


def _check_hashes(keys: pa.Array, values: list[bytes | None]) -> None:
    numbers = exact_array(pa.array([None if one is None else len(one) for one in values], pa.int64()))
    arrays = [keys, numbers, keys.cast(pa.large_binary())]
    together = _hashes(arrays)
    for at, one in enumerate(values):
        assert together[at : at + 1] == _hashes([each.slice(at, 1) for each in arrays])
        text = b"\0" if one is None else b"\1" + struct.pack("=q", len(one)) + one
        number = b"\0" if one is None else b"\1" + struct.pack("=q", len(one))
        assert together[at] == tuple(hash_bytes(text + number + text))


def _check_digest(keys: pa.Array, data: bytes) -> None:
    headers = [
        None if one % 3 == 0 else [{"key": "k", "value": data[:one]}] * (one % 3) for one in data[: len(keys)]
    ]
    headers += [None] * (len(keys) - len(headers))
    rows = pa.record_batch(
        {"key": keys, "value": keys, "headers": pa.array(headers, KAFKA_RECORDS.field("headers").type)}
    )
    partitions = pa.array([None if one % 5 == 0 else one for one in range(len(keys))], pa.int32())
    first, second = digest_records(RecordColumns(rows), b"t", partitions)
    parts = [(rows.slice(at, 1), partitions.slice(at, 1)) for at in range(len(keys))]
    alone = [digest_records(RecordColumns(row), b"t", partition) for row, partition in parts]
    assert first == sum(one for one, _ in alone) % 2**64
    assert second == sum(one for _, one in alone) % 2**64


def _check_order(data: bytes) -> None:
    count = len(data) // 8
    numbers = np.frombuffer(data[: 8 * count], np.uint64).copy()
    indices = np.empty(count, np.int64)
    order_into(numbers, indices)
    assert indices.tolist() == np.argsort(numbers, kind="stable").tolist()
