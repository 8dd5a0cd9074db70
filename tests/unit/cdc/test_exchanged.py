"""Rows that exchange their keys: found where the messages prove it, and nowhere else."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest

from penstock.cdc._exchanged import Origin, first_exchanged, origin_of
from penstock.cdc.gather import Known, Reader, digest_of_schema
from penstock.cdc.messages import MessageFormat, message_format
from tests.registry_server import Registry, running_registry
from tests.unit.cdc import test_messages_avro as avro
from tests.unit.cdc.debezium_messages import ID, envelope, field, value
from tests.unit.cdc.test_gather import RAW_SCHEMA

TOPIC = "shop.public.goods"
COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("name", pa.string()),
        ("state", pa.string()),
        ("note", pa.string()),
        ("kind", pa.string()),
    ]
)
FIELDS = [ID, field("name", "string"), field("state", "string", optional=False, default="new")]
NOTE = field("note", "string")
"""A column that a transaction has added. Messages before that do not have it."""
KIND = field("kind", "string", default="usual")
"""May be null, and has a default."""
Row = Mapping[str, Any]


def at(transaction: int | None, lsn: int | None) -> dict[str, Any]:
    return {"txId": transaction, "lsn": lsn}


def row(name: str | None, state: str = "paid") -> dict[str, Any]:
    return {"id": 2, "name": name, "state": state}


Change = tuple[Row | None, Row | None, Mapping[str, Any]]
"""The new row, the old row, and the source."""
NEW: Change = (row("of 1"), None, at(5, 10))
END: Change = (None, row("of 2"), at(5, 11))


@pytest.fixture(params=["json", "avro"])
def failure_of(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Give a function that returns why changes of one key give no rows."""
    if request.param == "json":
        options = {"format": "debezium-json", "debezium-json.schema-include": "true"}
        yield lambda changes: _failure(message_format(options), [_json(one) for one in changes])
        return
    with running_registry() as registry:
        yield lambda changes: _failure(avro.made(registry), [_avro(registry, one) for one in changes])


def _json(change: Change) -> bytes:
    after, before, source = change
    more = [one for one in (NOTE, KIND) if _has(change, one["field"])]
    return value([*FIELDS, *more], after, before, source=source)


def _avro(registry: Registry, change: Change) -> bytes:
    after, before, source = change
    state = {"name": "state", "type": "string", "default": "new"}
    more = [avro.column("note", "string")] if _has(change, "note") else []
    usual = {"type": "string", "connect.default": "usual"}
    more += [{"name": "kind", "type": [usual, "null"], "default": "usual"}] if _has(change, "kind") else []
    return avro.message(registry, avro.envelope(avro.ID, avro.NAME, state, *more), after, before, source)


def _has(change: Change, name: str) -> bool:
    return name in (change[0] or change[1] or {})


def _failure(messages: MessageFormat, values: list[bytes]) -> str | None:
    found = messages.of_topic(TOPIC).schemas(
        pa.nulls(len(values), pa.binary()), pa.array(values, pa.binary())
    )
    digests = frozenset(digest_of_schema(text) for text in found.texts)
    reader = Reader(messages, {TOPIC: Known(COLUMNS, ("id",), digests)})
    records = [
        {"key": None, "value": one, "topic": TOPIC, "partition": 0, "offset": 100 + number}
        for number, one in enumerate(values)
    ]
    [receipt] = reader.run([pa.RecordBatch.from_pylist(records, RAW_SCHEMA)])
    [told] = receipt.to_pylist()
    assert (told["failure"] is None) == (told["rows"] is not None)
    return told["failure"] if told["failure"] is None else str(told["failure"])


def test_the_end_of_an_old_row_after_the_new_row_of_its_key_is_an_error(failure_of: Any) -> None:
    found = failure_of([NEW, END])
    assert found.startswith(
        "partition 0: Offset 101 has the end of the old row of a key, and offset 100 before"
    )


def test_a_row_that_was_updated_within_the_transaction_is_recognised(failure_of: Any) -> None:
    update: Change = (row("of 1, later"), row("of 1"), at(5, 11))
    assert failure_of([NEW, update, (None, row("of 2"), at(5, 12))]) is not None


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param([NEW, (None, row("of 1"), at(5, 11))], id="the row that is new ends"),
        pytest.param([NEW, (None, {"id": 2, "name": None, "state": "new"}, at(5, 11))], id="no old row"),
        pytest.param([NEW, (None, row("of 2"), at(6, 11))], id="another transaction"),
        pytest.param([NEW, (None, row("of 2"), at(5, 9))], id="sent again"),
        pytest.param([NEW, (None, row("of 2"), at(None, None))], id="unknown transaction"),
        pytest.param([NEW, (None, row("of 2"), at(5, None))], id="unknown position"),
        pytest.param([NEW, END, (row("of 3"), None, at(7, 20))], id="a later row counts"),
        pytest.param([(None, row("of 2"), at(5, 9)), NEW], id="the new row comes last"),
        pytest.param([NEW], id="no end"),
        pytest.param([END], id="no new row"),
    ],
)
def test_what_proves_no_exchange_is_none(failure_of: Any, changes: list[Change]) -> None:
    assert failure_of(changes) is None


def test_a_row_that_gets_a_value_from_an_added_column_is_not_another_row(failure_of: Any) -> None:
    """ADD COLUMN note DEFAULT 'x' gives the new row of the transaction a note, before the row is deleted."""
    with_note = {**row("of 1"), "note": "x"}
    assert failure_of([NEW, (None, with_note, at(5, 11))]) is None
    assert failure_of([(with_note, None, at(5, 10)), (None, {**row("of 2"), "note": None}, at(5, 11))])


def test_a_default_in_place_of_an_old_row_that_the_database_does_not_send_proves_nothing(
    failure_of: Any,
) -> None:
    """Converters write the default of a column in place of NULL, as Apicurio's for Avro."""
    new: Change = ({**row("of 1"), "kind": "rare"}, None, at(5, 10))
    assert (
        failure_of([new, (None, {"id": 2, "name": None, "state": "new", "kind": "usual"}, at(5, 11))]) is None
    )
    assert failure_of([new, (None, {**row("of 2"), "kind": "usual"}, at(5, 11))]) is not None


def test_values_of_any_type_are_compared() -> None:
    rows = pa.RecordBatch.from_pydict(
        {
            "id": [1, 1, 2, 2, 3, 3],
            "x": [1.5, 1.5, float("nan"), float("nan"), None, None],
            "many": [[1], [1], None, [2], [3], [4]],
        }
    )
    kinds = pa.array(["+I", "-D"] * 3)

    def found(proves: str) -> Any:
        return first_exchanged(rows, kinds, ["id"], lambda row: Origin(1, row, frozenset({proves})))

    assert found("many") == (2, 3)
    assert found("x") is None


def test_messages_that_are_no_changes_prove_nothing() -> None:
    assert origin_of(at(5, 1), {"fields": []}) == Origin()


@pytest.mark.parametrize("source", [None, "text", 5, [1], {"txId": "5", "lsn": [1]}])
def test_a_source_of_an_unexpected_form_says_nothing(source: Any) -> None:
    found = origin_of(source, envelope(FIELDS))
    assert (found.transaction, found.position) == (None, None)
    as_json = {"after": row("a"), "before": None, "source": source, "op": "c", "ts_ms": 1}
    message = json.dumps({"schema": envelope(FIELDS), "payload": as_json}).encode()
    options = {"format": "debezium-json", "debezium-json.schema-include": "true"}
    assert message_format(options).origin(message) == found
