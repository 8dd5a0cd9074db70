"""The options of upsert tables (`connector` = `upsert-kafka`)."""

from __future__ import annotations

import pytest

from penstock.errors import MissingOptionError, OptionError
from penstock.options.config import OffsetsSpec
from penstock.options.parse import parse_read
from penstock.options.table_spec import Connector, TableSpec, UpsertSpec
from penstock.types import LogEnd
from tests.table_specs import read_spec, table_spec, write_spec

UPSERT = {
    "connector": "upsert-kafka",
    "primary-key": "a; b",
    "key.format": "json",
    "value.format": "json",
}
BUFFER = {"sink.buffer-flush.max-rows": "100", "sink.buffer-flush.interval": "2 s"}


def test_the_primary_key_is_the_key_of_the_record() -> None:
    found = table_spec(
        {**UPSERT, **BUFFER, "scan.startup.mode": "earliest-offset", "scan.bounded.mode": "latest-offset"}
    )
    assert found.connector is Connector.UPSERT_KAFKA
    assert found.key_fields == ("a", "b")
    assert found.upsert == UpsertSpec()
    written = write_spec({**UPSERT, **BUFFER, "scan.startup.mode": "latest-offset"})
    assert written is not None
    assert written.upsert == UpsertSpec(100)


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"properties.group.id": "g"},
        {"properties.group.id": "g", "properties.auto.offset.reset": "latest"},
        {"scan.startup.mode": "earliest-offset", "properties.auto.offset.reset": "none"},
    ],
)
def test_a_read_begins_at_the_first_record_whatever_the_group_has(
    more: dict[str, str], streaming: bool
) -> None:
    given = {"properties.bootstrap.servers": "h:1", "topic": "t", **UPSERT, **more}
    assert parse_read(given, streaming=streaming).source.starting == OffsetsSpec(LogEnd.EARLIEST)


def test_an_upsert_table_has_no_options_of_sparks_dialect() -> None:
    given = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", "startingOffsets": "latest", **UPSERT}
    with pytest.raises(OptionError, match="Options of two dialects are mixed"):
        parse_read(given, streaming=True)


@pytest.mark.parametrize("key", sorted(UPSERT.keys() - {"connector"}))
def test_what_every_upsert_table_needs(key: str) -> None:
    given = {one: text for one, text in UPSERT.items() if one != key}
    for parse in (read_spec, write_spec):
        with pytest.raises(
            MissingOptionError, match=f"'{key}' is required with 'connector' = 'upsert-kafka'"
        ):
            parse(given)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("key.fields", "a"),
        ("scan.startup.mode", "latest-offset"),
        ("scan.startup.timestamp-millis", "5"),
        ("scan.startup.specific-offsets", "partition:0,offset:1"),
        ("scan.deserializer", "python:x"),
    ],
)
def test_reads_that_would_not_give_the_table_are_refused(key: str, text: str) -> None:
    with pytest.raises(OptionError, match=f"'{key}' cannot be set with 'connector' = 'upsert-kafka'"):
        read_spec({**UPSERT, key: text})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key.fields": "a"}, r"'key.fields' cannot be set"),
        ({"sink.partitioner": "fixed"}, r"'sink.partitioner' cannot be set"),
        ({"sink.delivery-guarantee": "none"}, r"'properties.enable.idempotence' = 'true'"),
        ({"properties.enable.idempotence": "false"}, r"keeps the order of records"),
        ({"sink.buffer-flush.max-rows": "5"}, r"set both greater than 0.*Got 5 rows and 0 ms"),
        ({"sink.buffer-flush.interval": "5 s"}, r"Got 0 rows and 5000 ms"),
        ({"sink.buffer-flush.max-rows": "-1"}, r"'sink.buffer-flush.max-rows' cannot be '-1'"),
        (
            {
                **BUFFER,
                "sink.delivery-guarantee": "exactly-once",
                "sink.transactional-id-prefix": "p",
            },
            r"'sink.buffer-flush.max-rows' cannot be set with 'sink.delivery-guarantee' = 'exactly-once'",
        ),
        ({"sink.parallelism": "2"}, r"'sink.parallelism' is not supported"),
    ],
)
def test_writes_that_would_break_the_table_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        write_spec({**UPSERT, **options})


def test_a_producer_with_one_request_in_flight_keeps_the_order() -> None:
    one_in_flight = {"properties.max.in.flight.requests.per.connection": "1", "sink.partitioner": "Default"}
    assert isinstance(write_spec({**UPSERT, **one_in_flight, "sink.delivery-guarantee": "none"}), TableSpec)


@pytest.mark.parametrize("options", [{"primary-key": "a"}, *({key: text} for key, text in BUFFER.items())])
@pytest.mark.parametrize("others", [{}, {"format": "json"}, {"format": "debezium-json"}])
def test_other_tables_have_no_primary_key_and_no_buffer(
    options: dict[str, str], others: dict[str, str]
) -> None:
    with pytest.raises(OptionError, match=rf"'{next(iter(options))}' needs 'connector' = 'upsert-kafka'"):
        write_spec({**others, **options})
