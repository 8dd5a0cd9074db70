"""Dates and times in JSON: the two standards of Flink, and what a message advises."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from penstock.formats.json.format import JsonFormat
from tests.table_specs import from_options
from tests.unit.formats.json.fields import ISO, field_of, refused

ZONED = pa.timestamp("us", "UTC")
NAIVE = pa.timestamp("us")


@pytest.mark.parametrize(
    ("text", "kind", "options", "advice"),
    [
        (
            '"2026-05-01T12:00:00"',
            ZONED,
            {},
            "'2026-05-01T12:00:00': it has a 'T' between date and time: set "
            "'json.timestamp-format.standard' = 'ISO-8601'; it has no zone: declare TIMESTAMP_NTZ",
        ),
        ('"2026-05-01 12:00:00"', ZONED, {}, "'2026-05-01 12:00:00': it has no zone: declare TIMESTAMP_NTZ"),
        ('"2026-05-01 12:00:00Z"', NAIVE, {}, "'2026-05-01 12:00:00Z': it has a zone: declare TIMESTAMP"),
        (
            '"2026-05-01 12:00:00+02:00"',
            NAIVE,
            ISO,
            "it has a blank between date and time: set 'json.timestamp-format.standard' = 'SQL'; "
            "it has a zone: declare TIMESTAMP",
        ),
        ('"2026-05-01 12:00:00+0200"', ZONED, {}, "expected a zone (Z or +hh:mm) after the time: declare"),
        ('"2026-05-01 12:00"', NAIVE, {}, "it has no seconds: declare STRING"),
        ('"2026-05-01"', NAIVE, {}, "'2026-05-01': it has no time: declare DATE"),
        ("1767323045", ZONED, {}, "'1767323045': it is a number: declare BIGINT"),
        ("1767323045123456", NAIVE, {}, "(timestamp_seconds, timestamp_millis, timestamp_micros)"),
        ('"1767323045"', NAIVE, {}, "'1767323045': it is a number: declare BIGINT"),
        ('"2026-05-01T12:00:00"', pa.date32(), {}, "it has a time after the date: declare a timestamp type"),
        ("20574", pa.date32(), {}, "'20574': it is a number: declare INT"),
    ],
)
def test_a_time_that_fails_says_what_to_set_or_declare(
    text: str, kind: pa.DataType, options: dict[str, str], advice: str
) -> None:
    reason = field_of(text, kind, options)
    assert "(field 'v', byte " in reason
    assert advice in reason


@pytest.mark.parametrize(
    "text", ['"soon"', '"2026-02-30 10:00:00"', '"\\u001b[31m"', "true", '"' + "9" * 99 + 'x"']
)
def test_a_time_that_nothing_would_help_gets_no_advice(text: str) -> None:
    reason = field_of(text, NAIVE)
    assert "declare" not in reason
    assert reason.isprintable()


def test_the_option_of_times_is_named_as_the_user_writes_it() -> None:
    made = from_options(JsonFormat, {}, "value.")
    found = made.decoder(pa.schema([("v", NAIVE)])).decode(
        pa.array([b'{"v":"2026-05-01T12:00:00"}'], pa.binary())
    )
    assert "set 'value.json.timestamp-format.standard' = 'ISO-8601'" in found.failures[0].reason


def test_iso_timestamps() -> None:
    zoned = pa.timestamp("ms", "UTC")
    assert field_of('"2020-01-02T03:04"', pa.timestamp("ms"), ISO) == datetime(2020, 1, 2, 3, 4)  # noqa: DTZ001 - no zone
    assert field_of('"2020-01-02T03:04:05.678Z"', zoned, ISO) == datetime(2020, 1, 2, 3, 4, 5, 678000, UTC)
    assert refused('"2020-01-02 03:04:05Z"', zoned, ISO)
