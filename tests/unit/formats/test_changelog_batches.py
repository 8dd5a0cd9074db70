"""What a message or record gives does not depend on those beside it, good or bad."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.formats import ROW_KIND, Decoder, metadata_column
from penstock.table import make_table
from penstock.table.upsert_decode import UpsertDecoder
from tests.examples import examples
from tests.judges.cdc.corpus import READS, UPSERTS
from tests.judges.cdc.tables import Read, plain_column, schema_of
from tests.table_specs import format_for, table_spec
from tests.unit.formats.test_flink_judge import ANY_RECORD, of_upsert, options_of

KIND = metadata_column(ROW_KIND)


def decoded(decoder: Decoder, values: Sequence[bytes | None]) -> tuple[list[Any], int]:
    """Return the rows or the reason of each value, and how many were ignored."""
    beside = pa.array([b"{", None, *values, b"}"], pa.binary())
    found = decoder.decode(beside.slice(2, len(values)))
    found.rows.validate(full=True)
    answers: list[Any] = [[] for _ in values]
    rows = zip(*map(plain_column, found.rows.columns), strict=True)
    for index, row in zip(found.indices().to_pylist(), rows, strict=True):
        answers[index].append(row)
    for one in found.failures:
        assert answers[one.value_index] == []
        answers[one.value_index] = (one.reason, one.excerpt)
    return answers, found.ignored_count


@pytest.mark.parametrize("case", READS, ids=lambda case: case.name)
@settings(max_examples=examples(10))
@given(data=st.data())
def test_a_message_gives_the_same_rows_in_every_batch(case: Read, data: st.DataObject) -> None:
    schema = schema_of(case.columns)
    columns = [KIND, *schema.names, *(metadata_column(key) for key in case.metadata().values())]
    picked = data.draw(st.lists(st.sampled_from(list(case.messages.values())), min_size=1, max_size=30))
    with options_of(case) as (options, _):
        decoder = format_for(case.format, options).decoder(schema, columns)
        found, ignored = decoded(decoder, picked)
        alone = [decoded(decoder, [one]) for one in picked]
    assert found == [rows for [rows], _ in alone]
    assert ignored == sum(count for _, count in alone)


RECORDS = [record for case in UPSERTS if case.columns == {"id": "INT NOT NULL", "name": "STRING"}
           and "EXCEPT_KEY" not in case.options.values() for record in case.records]  # fmt: skip


@pytest.mark.parametrize("ignores", ["false", "true"])
@settings(max_examples=examples(60))
@given(picked=st.lists(st.sampled_from(RECORDS), min_size=1, max_size=20))
def test_a_record_of_an_upsert_table_gives_the_same_row_in_every_batch(
    ignores: str, picked: list[tuple[bytes | None, bytes | None]]
) -> None:
    case = next(one for one in UPSERTS if one.name == "upsert, null key")
    options = of_upsert(case) | {f"{part}.json.ignore-parse-errors": ignores for part in ("key", "value")}
    columns = pa.schema([*schema_of(case.columns), ("row_kind", pa.string())])
    decoder = UpsertDecoder(make_table(columns, table_spec(options)))

    def decode(records: Sequence[tuple[bytes | None, bytes | None]]) -> tuple[list[Any], int]:
        rows = [
            {"topic": "t", "partition": 0, "offset": i, "key": key, "value": value}
            for i, (key, value) in enumerate(records)
        ]
        found = decoder.decode(pa.RecordBatch.from_pylist(rows, schema=ANY_RECORD))
        answers: list[Any] = [[] for _ in records]
        assert found.record_indices is not None
        for index, row in zip(found.record_indices.to_pylist(), found.rows.to_pylist(), strict=True):
            answers[index].append(row)
        for one in found.failures:
            assert answers[one.record_index] == []
            answers[one.record_index] = (one.part, one.reason)
        return answers, found.dropped_count

    found, dropped = decode(picked)
    alone = [decode([one]) for one in picked]
    assert found == [rows for [rows], _ in alone]
    assert dropped == sum(count for _, count in alone)
