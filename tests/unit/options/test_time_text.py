"""Times as people write them: milliseconds, ISO 8601 with a zone, and before now."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import MissingOptionError, OptionError
from penstock.options.config import OffsetsSpec
from penstock.options.parse import parse_read
from penstock.options.time_text import BeforeNow, parse_moment, render_moment
from penstock.types import LogEnd, Time

FLINK = {"topic": "orders", "properties.bootstrap.servers": "a:1"}
SPARK = {"subscribe": "orders", "kafka.bootstrap.servers": "a:1"}
NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("1700000000000", Time(1_700_000_000_000)),
        (" 0 ", Time(0)),
        ("1970-01-01T00:00:01Z", Time(1_000)),
        ("1970-01-01 01:00:00.5+01:00", Time(500)),
        ("1970-01-01t05:30z", Time(19_800_000)),
        ("1970-01-01T00:00:00-0130", Time(5_400_000)),
        ("1970-01-01T01:00:00+01", Time(0)),
        ("1970-01-01T00:00:00,0000001Z", Time(1)),
        ("2026-11-22T18:00:00+01:00", Time(1_795_366_800_000)),
        ("-10 min", BeforeNow(600_000)),
        ("- 90s", BeforeNow(90_000)),
        ("-1 D", BeforeNow(86_400_000)),
        ("-0 ms", BeforeNow(0)),
    ],
)
def test_a_time_is_read(text: str, moment: Time | BeforeNow) -> None:
    assert parse_moment(text) == moment


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-1",
        "-10",
        "10 min",
        "+10 min",
        "-10 fortnights",
        "-5 \u00b5s",
        "--10 min",
        "1700000000.5",
        "2026-11-22",
        "2026-11-22T18:00:00",
        "2026-11-22T18:00:00 Europe/Berlin",
        "2026-13-22T18:00:00Z",
        "2026-11-22T25:00:00Z",
        "1969-12-31T23:59:59Z",
        "99999999999999999999",
        "now",
    ],
)
def test_another_text_is_refused_and_the_error_says_what_is_allowed(text: str) -> None:
    with pytest.raises(ValueError, match=r"ISO 8601 with a zone .*'-10 min'"):
        parse_moment(text)


@given(since_us=st.integers(0, 10**17), zone_minutes=st.integers(-14 * 60, 14 * 60))
def test_iso_is_read_as_python_writes_it(since_us: int, zone_minutes: int) -> None:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=since_us)
    text = moment.astimezone(timezone(timedelta(minutes=zone_minutes))).isoformat()
    assert parse_moment(text) == Time(-(-since_us // 1000))


@given(st.one_of(st.integers(0, 2**63 - 1).map(Time), st.integers(0, 2**63 - 1).map(BeforeNow)))
def test_a_rendered_time_is_read_back(moment: Time | BeforeNow) -> None:
    assert parse_moment(render_moment(moment)) == moment


@pytest.mark.parametrize("form", ["timestamp", "timestamp-millis"])
def test_both_options_of_flinks_dialect_set_both_ends(form: str) -> None:
    options = {
        "scan.startup.mode": "timestamp",
        f"scan.startup.{form}": "5",
        "scan.bounded.mode": "timestamp",
        f"scan.bounded.{form}": "7",
    }
    source = parse_read(FLINK | options, streaming=True).source
    assert (source.starting, source.stopping) == (OffsetsSpec(Time(5)), OffsetsSpec(Time(7)))


@pytest.mark.parametrize(
    "options",
    [
        FLINK
        | {
            "scan.startup.mode": "timestamp",
            "scan.startup.timestamp": "-10 min",
            "scan.bounded.mode": "timestamp",
            "scan.bounded.timestamp": "-1 min",
        },
        SPARK
        | {
            "startingTimestamp": "-10 min",
            "startingOffsetsByTimestampStrategy": "latest",
            "endingTimestamp": "-1 min",
        },
    ],
)
def test_both_ends_before_now_use_one_reading_of_the_clock(options: dict[str, str]) -> None:
    source = parse_read(options, streaming=False).source
    assert source.starting == OffsetsSpec(before_now_ms=600_000)
    resolved = source.at(NOW_MS)
    assert resolved.starting == OffsetsSpec(Time(NOW_MS - 600_000))
    assert resolved.stopping == OffsetsSpec(Time(NOW_MS - 60_000))
    assert resolved.at(NOW_MS + 1) == resolved


def test_sparks_error_strategy_counts_for_a_time_before_now() -> None:
    starting = parse_read(SPARK | {"startingTimestamp": "-1 h"}, streaming=True).source.starting
    assert starting == OffsetsSpec(before_now_ms=3_600_000, needs_match=True)
    assert starting.at(NOW_MS) == OffsetsSpec(Time(NOW_MS - 3_600_000), needs_match=True)


def test_a_time_long_before_1970_is_the_beginning_of_time() -> None:
    assert OffsetsSpec(before_now_ms=10 * NOW_MS).at(NOW_MS) == OffsetsSpec(Time(0))


def test_other_starts_do_not_change_with_the_clock() -> None:
    assert OffsetsSpec(LogEnd.LATEST).at(NOW_MS) == OffsetsSpec(LogEnd.LATEST)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"scan.startup.timestamp": "5"},
            OptionError,
            "needs 'scan.startup.mode' = 'timestamp', which is not set",
        ),
        (
            {"scan.startup.mode": "timestamp"},
            MissingOptionError,
            "'scan.startup.timestamp-millis' or 'scan.startup.timestamp' is required",
        ),
        (
            {
                "scan.startup.mode": "timestamp",
                "scan.startup.timestamp": "5",
                "scan.startup.timestamp-millis": "5",
            },
            OptionError,
            "exclude each other",
        ),
        (
            {"scan.startup.mode": "timestamp", "scan.startup.timestamp": "yesterday"},
            OptionError,
            "'scan.startup.timestamp' cannot be 'yesterday'. Allowed: milliseconds since 1970, ISO 8601",
        ),
        (
            {"scan.startup.mode": "timestamp", "scan.startup.timestamp-millis": "-10 min"},
            OptionError,
            "a whole number, at least 0",
        ),
    ],
)
def test_what_does_not_fit_is_an_error(
    options: dict[str, str], error: type[OptionError], message: str
) -> None:
    with pytest.raises(error, match=message):
        parse_read(FLINK | options, streaming=True)
