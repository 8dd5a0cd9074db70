"""What `replicate` writes down for each batch, and what it refuses to repeat."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.cdc.journal import Decided, Journal, TableColumns, TableState, rest_mark
from penstock.errors import MaterializeError, StateError
from penstock.state.files import TEMPORARY

QUERY = "4f5c1d3e-query"


def columns(batch_id: int = 0, *names: str) -> TableColumns:
    schema = pa.schema(
        [("id", pa.int64()), ("price", pa.decimal128(12, 3)), *((name, pa.string()) for name in names)]
    )
    return TableColumns(batch_id, schema, ("id",), "shop.goods", frozenset({"a1", f"b{batch_id}"}))


def decided(*, number: int = 0, digest: str | None = "1-aa", table: TableColumns | None = None) -> Decided:
    return Decided({"goods": TableState(table or columns(), number, digest)})


_ARROW = base64.b64encode(columns().columns.serialize().to_pybytes()).decode()


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(str(tmp_path / "state"))


def test_a_batch_begins_with_what_the_batch_before_has_decided(journal: Journal) -> None:
    assert journal.before(QUERY, 0) == Decided()
    journal.decide_columns(0, {"goods": columns()})
    journal.decide(0, decided())
    found = journal.before(QUERY, 1)
    assert found == decided()
    assert found.tables["goods"].columns.columns.field("price").type == pa.decimal128(12, 3)


def test_columns_that_a_batch_has_decided_are_there_when_it_is_repeated(journal: Journal) -> None:
    journal.before(QUERY, 0)
    assert journal.columns_of(0) == {}
    journal.decide_columns(0, {"goods": columns(0, "name")})
    assert journal.columns_of(0) == {"goods": columns(0, "name")}


def test_the_name_of_the_rest_stands_among_the_schemas(journal: Journal) -> None:
    """A journal of before has none, and the files of an older version stay readable."""
    table = columns(0, "more")
    table = replace(table, schemas=table.schemas | rest_mark("more"))
    journal.before(QUERY, 0)
    journal.decide_columns(0, {"goods": table, "others": columns()})
    written = json.loads(Path(journal.location, "columns", "0.json").read_text())
    assert written["format"] == 1
    assert written["tables"]["goods"]["schemas"] == ["a1", "b0", "rest:more"]
    assert {topic: one.rest for topic, one in journal.columns_of(0).items()} == {
        "goods": "more",
        "others": None,
    }


def test_a_repeated_batch_gives_the_same_or_fails(journal: Journal) -> None:
    journal.before(QUERY, 0)
    journal.decide_columns(0, {"goods": columns()})
    journal.decide(0, decided())
    journal.decide(0, decided())
    for other in (decided(digest="1-bb"), decided(number=1), decided(digest=None), Decided()):
        with pytest.raises(MaterializeError, match=r"decided before with other rows of the topics goods"):
            journal.decide(0, other)


def test_a_table_that_was_left_out_may_lack_its_rows_when_the_batch_is_repeated(journal: Journal) -> None:
    journal.before(QUERY, 0)
    journal.decide_columns(0, {"goods": columns()})
    journal.decide(0, decided())
    journal.leave_out(0, {"goods": "no column"})
    journal.decide(0, Decided({"goods": TableState(columns())}, {"goods": "no column"}))
    found = journal.before(QUERY, 1)
    assert found.left_out == {"goods": "no column"}
    assert found.tables["goods"].digest == "1-aa"


def test_a_topic_without_a_table_stays_left_out(journal: Journal) -> None:
    journal.before(QUERY, 0)
    journal.decide(0, Decided({}, {"orders": "no key"}))
    assert journal.before(QUERY, 1) == Decided({}, {"orders": "no key"})


def test_a_state_of_another_query_is_refused(journal: Journal) -> None:
    journal.before(QUERY, 0)
    journal.decide(0, Decided())
    for batch_id in (0, 1):
        with pytest.raises(
            StateError, match=rf"Batch {batch_id} is of query other, and .* is of query {QUERY}"
        ):
            journal.before("other", batch_id)


def test_a_state_that_has_gone_back_in_time_is_refused(journal: Journal) -> None:
    with pytest.raises(StateError, match="is of no query"):
        journal.before(QUERY, 3)
    journal.before(QUERY, 0)
    journal.decide(0, Decided())
    with pytest.raises(StateError, match="has no batch 2"):
        journal.before(QUERY, 3)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"format": 1'])
def test_a_torn_file_is_an_error(journal: Journal, content: bytes) -> None:
    journal.before(QUERY, 0)
    Path(journal.location, "batches").mkdir()
    Path(journal.location, "batches", "0.json").write_bytes(content)
    with pytest.raises(StateError, match=r"batches/0\.json cannot be read"):
        journal.before(QUERY, 1)


TABLE = {"name": "shop.goods", "keys": ["id"], "arrow": _ARROW, "schemas": []}
STATE = {"columns": 0, "number": 0, "digest": None, "applied": None}


@pytest.mark.parametrize(
    ("path", "content", "what"),
    [
        ("query.json", {}, "the field 'query_id' is missing"),
        ("query.json", {"query_id": 1}, "expected str as 'query_id', got int"),
        ("batches/0.json", {}, "the field 'tables' is missing"),
        ("batches/0.json", {"tables": {}}, "the field 'left_out' is missing"),
        ("batches/0.json", {"tables": [], "left_out": {}}, "expected dict as 'tables', got list"),
        ("batches/0.json", {"tables": {"goods": 1}, "left_out": {}}, "the field 'columns', got int"),
        *(
            (
                "batches/0.json",
                {"tables": {"goods": {**STATE, name: [True]}}, "left_out": {}},
                f"as '{name}', got",
            )
            for name in STATE
        ),
        (
            "batches/0.json",
            {"tables": {"goods": {**STATE, "number": True}}, "left_out": {}},
            "expected int as",
        ),
        ("columns/0.json", {}, "the field 'tables' is missing"),
        *(
            ("columns/0.json", {"tables": {"goods": {**TABLE, name: 1}}}, f"as '{name}', got int")
            for name in TABLE
        ),
        ("columns/0.json", {"tables": {"goods": {**TABLE, "arrow": "YWJj"}}}, "Corrupted message"),
        ("columns/0.json", {"tables": {"goods": {**TABLE, "arrow": "a"}}}, "base64"),
        ("columns/0.json", {"tables": {"goods": {"arrow": _ARROW}}}, "the field 'keys' is missing"),
        ("columns/0.json", {"tables": {"goods": {"arrow": _ARROW, "keys": [1]}}}, "expected texts as 'keys'"),
    ],
)
def test_a_file_without_its_fields_is_an_error_that_names_it(
    journal: Journal, path: str, content: dict[str, object], what: str
) -> None:
    journal.before(QUERY, 0)
    journal.decide_columns(0, {"goods": columns()})
    journal.decide(0, decided())
    assert journal.before(QUERY, 1) == decided()
    Path(journal.location, path).write_text(json.dumps({"format": 1, **content}))
    with pytest.raises(StateError) as raised:
        journal.before(QUERY, 1)
    assert str(raised.value).startswith(f"{path} cannot be read (the state of replicate in ")
    assert what in str(raised.value)
    assert str(raised.value).endswith("Nothing was written. Restore the state together with the checkpoint.")


def test_a_file_that_cannot_be_read_at_the_end_of_a_batch_is_told_so(journal: Journal) -> None:
    journal.before(QUERY, 0)
    journal.decide_columns(0, {"goods": columns()})
    for batch_id in (0, 1):
        journal.decide(batch_id, decided(number=batch_id))
    for content in ('{"format": 1', '{"format": 1}'):
        Path(journal.location, "batches", "0.json").write_text(content)
        with pytest.raises(
            StateError, match=r"batches/0\.json cannot be read .*\. The tables have batch 1\. "
        ):
            journal.sweep(1)


def test_a_newer_format_is_refused(journal: Journal) -> None:
    journal.before(QUERY, 0)
    Path(journal.location, "batches").mkdir()
    Path(journal.location, "batches", "0.json").write_text('{"format": 2}')
    with pytest.raises(StateError, match="has format 2, and this version of penstock reads 1"):
        journal.before(QUERY, 1)


def test_missing_columns_are_an_error(journal: Journal) -> None:
    journal.before(QUERY, 0)
    journal.decide(0, decided())
    with pytest.raises(StateError, match=r"columns/0\.json has no columns of topic goods"):
        journal.before(QUERY, 1)


def test_old_files_go_but_each_kept_batch_can_be_repeated(journal: Journal) -> None:
    journal.before(QUERY, 0)
    tables = {0: columns(0), 9: columns(9, "name")}
    now = tables[0]
    for batch_id in range(12):
        if batch_id in tables:
            now = tables[batch_id]
            journal.decide_columns(batch_id, {"goods": now})
        journal.decide(batch_id, decided(number=batch_id, table=now))
        journal.sweep(batch_id)
        if batch_id:
            assert journal.before(QUERY, batch_id).tables["goods"].number == batch_id - 1
        assert journal.before(QUERY, batch_id + 1).tables["goods"].columns == now
    assert sorted(one.name for one in Path(journal.location, "batches").iterdir()) == [
        "10.json",
        "11.json",
        "8.json",
        "9.json",
    ]
    for batch_id in (12, 13):
        journal.decide(batch_id, decided(number=batch_id, table=now))
        journal.sweep(batch_id)
    assert [one.name for one in Path(journal.location, "columns").iterdir()] == ["9.json"]


def test_a_file_that_a_dead_driver_has_begun_stops_no_batch(journal: Journal, tmp_path: Path) -> None:
    journal.before(QUERY, 0)
    journal.decide_columns(0, {"goods": columns()})
    batches = tmp_path / "state" / "batches"
    batches.mkdir()
    begun = [batches / f"{name}{TEMPORARY}0a1b2c3d" for name in ("0.json", "9.json")]
    for file, content in zip(begun, (b"", b'{"format": 1, "tab'), strict=True):
        file.write_bytes(content)
    for batch_id in range(9):
        journal.before(QUERY, batch_id)
        journal.decide(batch_id, decided(number=batch_id))
        journal.sweep(batch_id)
    assert [file.exists() for file in begun] == [False, True]


def test_a_table_that_was_left_out_keeps_its_columns(journal: Journal) -> None:
    journal.before(QUERY, 0)
    journal.decide_columns(0, {"goods": columns()})
    for batch_id in range(8):
        journal.decide(batch_id, Decided({"goods": TableState(columns())}, {"goods": "gone"}))
        journal.sweep(batch_id)
    assert journal.before(QUERY, 8).left_out == {"goods": "gone"}
