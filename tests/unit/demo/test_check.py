"""The demo's judge: it must find what a wrong stream would give."""

from __future__ import annotations

import datetime as dt
import json

import pyarrow as pa

from penstock.demo.check import Key, Numbers, compare, expected_delays

DAY = dt.timedelta(days=1)
EXPECTED: dict[Key, Numbers] = {("2013-01-01", "UA"): (2, 1, 20, 1), ("2013-01-02", "UA"): (1, 1, -3, 0)}


def flights(*rows: tuple[str, str, int | None]) -> pa.Table:
    return pa.table(
        {
            "event_time": pa.array(
                [dt.datetime.fromisoformat(row[0]).replace(tzinfo=dt.UTC) for row in rows],
                pa.timestamp("us", tz="UTC"),
            ),
            "carrier": [row[1] for row in rows],
            "dep_delay": pa.array([row[2] for row in rows], pa.int64()),
        }
    )


def output(rows: dict[Key, Numbers]) -> list[bytes]:
    names = ("flights", "departed", "delay_minutes", "late")
    return [
        json.dumps({"day": day, "carrier": carrier, **dict(zip(names, numbers, strict=True))}).encode()
        for (day, carrier), numbers in rows.items()
    ]


def test_a_day_counts_once_the_watermark_has_passed_its_end() -> None:
    table = flights(
        ("2013-01-01T08:00", "UA", 20),
        ("2013-01-01T09:00", "UA", None),
        ("2013-01-02T08:00", "UA", -3),
        ("2013-01-03T00:00", "AA", 0),
        ("2013-01-04T00:00", "AA", 0),
    )
    assert expected_delays(table, DAY) == EXPECTED


def test_the_same_rows_in_any_order_are_right() -> None:
    assert compare(reversed(output(EXPECTED)), EXPECTED).is_right


def test_a_missing_row_is_found() -> None:
    verdict = compare(output(EXPECTED)[1:], EXPECTED)
    assert verdict.missing == (("2013-01-01", "UA"),)
    assert not verdict.is_right


def test_a_repeated_row_is_found() -> None:
    verdict = compare(output(EXPECTED) + output(EXPECTED)[:1], EXPECTED)
    assert verdict.repeated == (("2013-01-01", "UA"),)
    assert not verdict.is_right


def test_other_numbers_and_unexpected_rows_are_found() -> None:
    wrong = {**EXPECTED, ("2013-01-02", "UA"): (1, 1, -4, 0), ("2013-01-03", "AA"): (1, 1, 0, 0)}
    verdict = compare(output(wrong), EXPECTED)
    assert verdict.different == (("2013-01-02", "UA"), ("2013-01-03", "AA"))
    assert not verdict.is_right
