"""Upsert tables through a real broker. tests/unit/table/test_upsert.py has the rules."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from penstock.options.parse import parse_read, parse_write
from penstock.options.table_spec import TableSpec
from penstock.sink.writer import write_rows
from penstock.source.split_reader import read_split
from penstock.source.splits import Split
from penstock.table import BadRecords, make_table
from penstock.table.read import TableRowMaker
from penstock.table.upsert_decode import UpsertDecoder
from penstock.table.upsert_encode import UpsertEncoder
from penstock.types import OffsetRange, TopicPartition
from tests import judge
from tests.fix_broker import MakeTopic

SCHEMA = pa.schema(
    [("shop", pa.string()), ("id", pa.int64()), ("name", pa.string()), ("row_kind", pa.string())]
)
UPSERT = {
    "connector": "upsert-kafka",
    "primary-key": "id; shop",
    "key.format": "json",
    "value.format": "json",
    "value.fields-include": "EXCEPT_KEY",
}
PARTITIONS = 3
ROUNDS = 12


def history() -> list[tuple[Any, ...]]:
    """Twelve rows that are inserted, updated many times, and half of them deleted at the end."""
    keys = [(f"s{i % 2}", i) for i in range(12)]
    rows = [(*key, "0", "+I") for key in keys]
    for update in range(1, ROUNDS):
        for key in keys:
            rows += [(*key, str(update - 1), "-U"), (*key, str(update), "+U")]
    return rows + [(*key, str(ROUNDS - 1), "-D") for key in keys[::2]]


@pytest.mark.promise
def test_a_changelog_is_written_by_key_in_order_and_read_as_the_same_table(
    bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(PARTITIONS)
    options = {"properties.bootstrap.servers": bootstrap, "topic": topic, **UPSERT}
    rows = pa.Table.from_pylist(
        [dict(zip(SCHEMA.names, row, strict=True)) for row in history()], schema=SCHEMA
    )
    config = parse_write(options | {"properties.batch.size": "2000"})
    assert config.table is not None
    encoder = UpsertEncoder(make_table(SCHEMA, config.table), topic)
    write_rows(config.sink, encoder.records(rows.to_batches(max_chunksize=7)))

    records = judge.consume_all(bootstrap, topic)
    assert len(records) == 12 * ROUNDS + 6
    assert {one.partition for one in records if one.key == b'{"id":3,"shop":"s1"}'} != set()
    by_key: dict[bytes | None, list[bytes | None]] = {}
    for one in sorted(records, key=lambda record: (record.partition, record.offset)):
        by_key.setdefault(one.key, []).append(one.value)
    assert by_key[b'{"id":3,"shop":"s1"}'] == [b'{"name":"%d"}' % update for update in range(ROUNDS)]
    assert by_key[b'{"id":4,"shop":"s0"}'][-1] is None

    read = parse_read(options, streaming=False)
    assert isinstance(read.table, TableSpec)
    maker = TableRowMaker(
        UpsertDecoder(make_table(SCHEMA, read.table)),
        BadRecords(read.table.bad_records.policy),
        lambda _: None,
    )
    table: dict[tuple[str, int], str] = {}
    for partition in range(PARTITIONS):
        count = sum(one.partition == partition for one in records)
        split = Split.of(OffsetRange(TopicPartition(topic, partition), 0, count))
        for batch in read_split(read.source, split, maker.columns):
            for shop, key, name, kind in (row.values() for row in maker.rows(batch).to_pylist()):
                if kind == "-D":
                    del table[shop, key]
                else:
                    table[shop, key] = name
    assert table == {(f"s{i % 2}", i): str(ROUNDS - 1) for i in range(1, 12, 2)}
