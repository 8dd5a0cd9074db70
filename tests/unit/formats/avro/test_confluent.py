"""Avro behind the Schema Registry's header."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from penstock.errors import MissingOptionError, OptionError, SchemaRegistryError
from penstock.formats import Format
from penstock.formats.avro.schema import schema_of
from penstock.formats.confluent import LOOKUPS_PER_BATCH_MAX
from tests.registry_server import Registry, running_registry
from tests.table_specs import format_for
from tests.unit.formats.avro.values import logical, record, written

V1 = record(("id", "long"), ("name", "string"))
V2 = record(("name", ["null", "string"]), ("extra", "double"), ("id", "int"))
COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string()), ("extra", pa.float64())])


@pytest.fixture
def registry() -> Iterator[Registry]:
    with running_registry() as running:
        yield running


def confluent(registry: Registry, **options: str) -> Format:
    named = {f"avro-confluent.{name.replace('_', '-')}": text for name, text in options.items()}
    return format_for("avro-confluent", {"avro-confluent.url": registry.url, "topic": "orders", **named})


def behind(schema_id: int, value: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + value


def test_a_writers_decimal_becomes_the_columns_scale(registry: Registry) -> None:
    schema = record(("d", logical("bytes", "decimal", precision=10, scale=2)))
    value = behind(registry.register("s", schema), written(schema, {"d": Decimal("1.25")})[0])
    found = confluent(registry).decoder(pa.schema([("d", pa.decimal128(20, 4))]))
    assert found.decode(pa.array([value], pa.binary())).rows["d"][0].as_py() == Decimal("1.2500")


def test_schemas_may_change_within_a_batch(registry: Registry) -> None:
    first = registry.register("orders-value", V1)
    second = registry.register("orders-value", V2)
    values = [
        behind(first, written(V1, {"id": 1, "name": "a"})[0]),
        behind(second, written(V2, {"id": 2, "name": None, "extra": 0.5})[0]),
        None,
        b"no header",
        behind(99, b"\2\2a"),
        behind(first, b"\2"),
        behind(first, written(V1, {"id": 3, "name": "c"})[0]),
    ]
    decoder = confluent(registry).decoder(COLUMNS)
    for _ in range(3):
        found = decoder.decode(pa.array(values, pa.binary()))
        assert found.indices().to_pylist() == [0, 1, 6]
        assert [list(row.values()) for row in found.rows.to_pylist()] == [
            [1, "a", None],
            [2, None, 0.5],
            [3, "c", None],
        ]
        assert [failure.value_index for failure in found.failures] == [3, 4, 5]
        assert "does not know schema id 99" in found.failures[1].reason
    assert sorted(registry.requests) == [f"GET /schemas/ids/{i}" for i in (first, second, 99)]


def test_rows_are_written_under_the_topics_subject(registry: Registry) -> None:
    rows = pa.RecordBatch.from_pylist([{"id": 1, "name": "a", "extra": None}] * 2, schema=COLUMNS)
    made = confluent(registry)
    values = made.encoder(COLUMNS).encode(rows)
    assert registry.requests == ["POST /subjects/orders-value/versions"]
    assert made.decoder(COLUMNS).decode(values).rows.equals(rows)
    schema_id = int.from_bytes(values[0].as_py()[1:5], "big")
    parsed = fastavro.parse_schema(json.loads(registry.schemas[schema_id]["schema"]))
    read = fastavro.schemaless_reader(io.BytesIO(values[0].as_py()[5:]), parsed, None)
    assert read == {"id": 1, "name": "a", "extra": None}


def test_without_registering_the_schema_must_be_there(registry: Registry) -> None:
    rows = pa.RecordBatch.from_pylist([{"id": 1, "name": "a", "extra": None}], schema=COLUMNS)
    made = confluent(registry, **{"auto.register.schemas": "false", "subject": "s/1"})
    with pytest.raises(SchemaRegistryError, match="no such schema under subject 's/1'"):
        made.encoder(COLUMNS).encode(rows)
    registry.register("s/1", schema_of(COLUMNS))
    assert len(made.encoder(COLUMNS).encode(rows)) == 1


def test_a_writers_type_that_does_not_fit_is_told_beside_the_columns(registry: Registry) -> None:
    text = record(("id", "string"), ("name", "string"))
    number = record(("id", "long"), ("name", ["null", "long"]))
    values = [
        behind(registry.register("s", text), written(text, {"id": "x", "name": "y"})[0]),
        behind(registry.register("s", number), written(number, {"id": 1, "name": 5})[0]),
        behind(registry.register("s", number), written(number, {"id": 2, "name": None})[0]),
    ]
    found = confluent(registry).decoder(COLUMNS).decode(pa.array(values, pa.binary()))
    assert [one.reason.partition(": ")[2] for one in found.failures] == [
        "int64 in the table, string in the writer's schema",
        "string in the table, long in the writer's schema",
    ]
    assert found.indices().to_pylist() == [2]


def test_made_up_ids_cost_a_bounded_number_of_questions(registry: Registry) -> None:
    values = pa.array([behind(1000 + i, b"\0") for i in range(5_000)], pa.binary())
    found = confluent(registry).decoder(COLUMNS).decode(values)
    assert len(found.failures) == 5_000
    assert len(registry.requests) == LOOKUPS_PER_BATCH_MAX


def test_schemas_of_other_kinds_are_bad_records_not_crashes(registry: Registry) -> None:
    ids = [
        registry.register("s", "{}", "JSON"),
        registry.register("s", "not avro"),
        registry.register("s", '"string"'),
    ]
    found = (
        confluent(registry).decoder(COLUMNS).decode(pa.array([behind(i, b"\0") for i in ids], pa.binary()))
    )
    assert [failure.value_index for failure in found.failures] == [0, 1, 2]


def referring(registry: Registry, schema: Any, *names: str) -> int:
    """Register a schema that refers to version 1 of the subjects of other names."""
    references = [{"name": name, "subject": name, "version": 1} for name in names]
    return registry.register("orders-value", schema, references=references)


def test_schemas_that_refer_to_others_are_read_with_them(registry: Registry) -> None:
    code = {"type": "enum", "name": "Code", "namespace": "shop", "symbols": ["A", "B"]}
    sub = record(("s", "int"), ("code", "Code"), name="Sub") | {"namespace": "shop"}
    root = record(("a", "int"), ("s", ["null", "shop.Sub"]), ("code", "shop.Code"), name="R")
    registry.register("shop.Code", code)
    registry.register(
        "shop.Sub", sub, references=[{"name": "shop.Code", "subject": "shop.Code", "version": 1}]
    )
    schema_id = referring(registry, root, "shop.Sub", "shop.Code")
    inlined = json.loads(
        json.dumps(root).replace('"shop.Sub"', json.dumps(sub).replace('"Code"', json.dumps(code), 1))
    )
    values = written(
        inlined, {"a": 5, "s": {"s": 7, "code": "B"}, "code": "A"}, {"a": 6, "s": None, "code": "B"}
    )
    columns = pa.schema(
        [
            ("a", pa.int32()),
            ("s", pa.struct([("s", pa.int64()), ("code", pa.string())])),
            ("code", pa.string()),
        ]
    )
    decoder = confluent(registry).decoder(columns)
    for _ in range(2):
        found = decoder.decode(pa.array([behind(schema_id, value) for value in values], pa.binary()))
        assert found.rows.to_pylist() == [
            {"a": 5, "s": {"s": 7, "code": "B"}, "code": "A"},
            {"a": 6, "s": None, "code": "B"},
        ]
    asked = [f"/schemas/ids/{schema_id}", "/subjects/shop.Sub/versions/1", "/subjects/shop.Code/versions/1"]
    assert registry.requests == [f"GET {path}" for path in asked]


def test_a_schema_that_is_another_ones_name_is_read_as_that(registry: Registry) -> None:
    registry.register("Sub", record(("s", "int"), name="Sub"))
    schema_id = referring(registry, '"Sub"', "Sub")
    found = confluent(registry).decoder(pa.schema([("s", pa.int32())]))
    assert found.decode(pa.array([behind(schema_id, b"\x0e")], pa.binary())).rows.to_pylist() == [{"s": 7}]


def test_schemas_that_refer_to_each_other_end(registry: Registry) -> None:
    fields = ("v", "int"), ("next", ["null", "B"])
    references = [{"name": "B", "subject": "B", "version": 1}]
    registry.register("A", record(*fields, name="A"), references=references)
    back = [{"name": "A", "subject": "A", "version": 1}]
    registry.register("B", record(("back", ["null", "A"]), name="B"), references=back)
    value = behind(1, b"\2\2\2\4\0")
    found = confluent(registry).decoder(pa.schema([("v", pa.int32())])).decode(pa.array([value], pa.binary()))
    assert found.rows.to_pylist() == [{"v": 1}]
    assert len(registry.requests) == 3


@pytest.mark.parametrize(
    "what", ["missing", "missing version", "other kind", "no such name", "two meanings", "too many"]
)
def test_schemas_whose_references_cannot_be_had_stop_the_query(registry: Registry, what: str) -> None:
    names = ["Sub"]
    if what == "missing version":
        registry.register("Sub", '"int"')
        registry.subjects["Sub"] = []
    if what == "other kind":
        registry.register("Sub", "{}", "JSON")
    if what == "no such name":
        registry.register("Sub", '"int"')
    if what == "two meanings":
        names = ["Sub", "Sub2"]
        registry.register("Sub", record(("s", "int"), name="Sub"))
        registry.register("Sub2", record(("s", "long"), name="Sub"))
    if what == "too many":
        for number in range(102):
            below = [{"name": f"N{number + 1}", "subject": f"N{number + 1}", "version": 1}]
            registry.register(f"N{number}", record(("v", "int"), name=f"N{number}"), references=below)
        names = ["N0"]
    schema_id = referring(registry, record(("a", "int"), ("s", "Sub")), *names)
    decoder = confluent(registry).decoder(pa.schema([("a", pa.int32())]))
    with pytest.raises(SchemaRegistryError) as caught:
        decoder.decode(pa.array([behind(schema_id, b"\0\0")], pa.binary()))
    text = str(caught.value)
    assert "No record was decoded with it" in text
    assert {
        "missing": "no version 1 of subject 'Sub'",
        "missing version": "no version 1 of subject 'Sub'",
        "other kind": "'Sub', which is of type JSON",
        "no such name": "there is no type 'Sub' (field 's')",
        "two meanings": "type 'Sub' is defined twice",
        "too many": "over more than 100 levels",
    }[what] in text


def test_a_server_that_fails_is_asked_again_and_one_that_is_gone_stops_the_query(registry: Registry) -> None:
    schema_id = registry.register("s", V1)
    values = pa.array([behind(schema_id, written(V1, {"id": 1, "name": "a"})[0])], pa.binary())
    registry.failures_to_come = 2
    assert confluent(registry).decoder(COLUMNS).decode(values).row_count == 1
    with running_registry() as gone:
        made = confluent(gone)
    with pytest.raises(SchemaRegistryError, match="cannot be reached"):
        made.decoder(COLUMNS).decode(values)


def test_a_wrong_url_is_not_taken_for_unknown_schemas(registry: Registry) -> None:
    made = format_for("avro-confluent", {"avro-confluent.url": registry.url + "/wrong"})
    with pytest.raises(SchemaRegistryError, match="is not a Schema Registry"):
        made.decoder(COLUMNS).decode(pa.array([behind(1, b"\0")], pa.binary()))


def test_servers_stand_in_for_each_other(registry: Registry) -> None:
    with running_registry() as gone:
        urls = f"{gone.url}, {registry.url}"
    schema_id = registry.register("s", V1)
    made = format_for("avro-confluent", {"avro-confluent.url": urls})
    value = behind(schema_id, written(V1, {"id": 1, "name": "a"})[0])
    assert made.decoder(COLUMNS).decode(pa.array([value], pa.binary())).row_count == 1


@pytest.mark.parametrize(
    ("server", "options"),
    [
        (
            {"user_info": "me:s3cret"},
            {"basic-auth.user-info": "me:s3cret", "basic-auth.credentials-source": "USER_INFO"},
        ),
        (
            {"bearer_token": "s3cret"},
            {"bearer-auth.token": "s3cret", "bearer-auth.credentials-source": "STATIC_TOKEN"},
        ),
    ],
)
def test_credentials_are_sent_and_never_shown(server: dict[str, Any], options: dict[str, str]) -> None:
    with running_registry(**server) as registry:
        schema_id = registry.register("s", V1)
        value = pa.array([behind(schema_id, written(V1, {"id": 1, "name": "a"})[0])], pa.binary())
        made = confluent(registry, **options)
        assert made.decoder(COLUMNS).decode(value).row_count == 1
        assert "s3cret" not in repr(made)
        with pytest.raises(SchemaRegistryError, match=r"401: Unauthorized\. Check 'basic-auth"):
            confluent(registry).decoder(COLUMNS).decode(value)


def test_credentials_in_the_url_are_sent_and_never_shown() -> None:
    with running_registry(user_info="me:s3:cret") as registry:
        url = registry.url.replace("http://", "http://me:s3%3Acret@")
        made = format_for("avro-confluent", {"avro-confluent.url": url})
        schema_id = registry.register("s", V1)
        value = pa.array([behind(schema_id, written(V1, {"id": 1, "name": "a"})[0])], pa.binary())
        assert made.decoder(COLUMNS).decode(value).row_count == 1
        assert "cret" not in repr(made)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, MissingOptionError),
        ({"url": "registry:8081"}, OptionError),
        ({"url": "http://x", "basic-auth.credentials-source": "USER_INFO"}, OptionError),
        ({"url": "http://x", "nope": "1"}, OptionError),
    ],
)
def test_wrong_options_are_refused(options: dict[str, str], error: type[OptionError]) -> None:
    with pytest.raises(error):
        format_for("avro-confluent", {f"avro-confluent.{name}": text for name, text in options.items()})


def test_a_sink_without_one_topic_needs_a_subject() -> None:
    made = format_for("avro-confluent", {"avro-confluent.url": "http://x", "topic": "a;b"})
    with pytest.raises(MissingOptionError, match=r"avro-confluent\.subject"):
        made.encoder(COLUMNS)
