"""Bad records are counted by reason, and a task with too many of them stops before it drains a topic."""

from __future__ import annotations

import logging
import re
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import DecodeError, OptionError
from penstock.flink._pickling import to_text
from penstock.observe.lineage.run import brief_error
from penstock.options.python_objects import DESERIALIZER
from penstock.options.table_spec import OnDecodeError
from penstock.table import (
    BadRecords,
    RecordFailure,
    TableDecoder,
    make_table,
)
from penstock.table._bad_records import ENDLESS_RECORDS, LEAST_RECORDS, by_reason, summarise
from tests.table_specs import read_spec, table_spec
from tests.unit.table.test_table import record, records

SKIP, FAIL, DEAD_LETTER = OnDecodeError.SKIP, OnDecodeError.FAIL, OnDecodeError.DEAD_LETTER
JSON = {"format": "json"}
DECODED = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us", tz="UTC"))])
WRONG_SCHEMA = "This looks like a wrong schema or format"


def some(count: int) -> pa.RecordBatch:
    return records(*[record(b"v")] * count)


def failing(count: int, reason: str = "no", first: int = 0) -> list[RecordFailure]:
    return [RecordFailure(first + i, "value", reason, "v") for i in range(count)]


def json_failures(*values: bytes) -> tuple[pa.RecordBatch, list[RecordFailure]]:
    given = records(*[record(value) for value in values])
    return given, list(TableDecoder(make_table(DECODED, table_spec(JSON))).decode(given).failures)


def message_of(policy: BadRecords, given: pa.RecordBatch, failures: list[RecordFailure]) -> str:
    with pytest.raises(DecodeError) as caught:
        policy.handle(given, failures)
    return str(caught.value)


def test_lineage_does_not_tell_the_record_that_the_error_shows() -> None:
    message = message_of(BadRecords(FAIL), *json_failures(b'{"id":"Jane Roe"}'))
    assert "Jane Roe" in message.splitlines()[0]
    told = brief_error(f"penstock.errors.DecodeError: {message}\nat line 1", None)
    assert told == "penstock.errors.DecodeError: its text may hold values of records. Spark's log has it"


# -- reasons -------------------------------------------------------------------------------------------------


def test_ordinary_times_do_not_hide_behind_the_one_bad_record() -> None:
    times = [b'{"id":%d,"ts":"2026-05-01T12:00:%02d"}' % (10**n, n) for n in range(39)]
    given, failures = json_failures(b'{"id":"oops","ts":"2026-05-01T12:00:00"}', *times[:18])
    assert len(failures) == 19
    message = message_of(BadRecords(FAIL), given, failures)
    assert message.startswith(
        "19 of 19 records cannot be decoded: 18 times: topic t, partition 3, offset 101: "
    )
    assert "(field 'ts'" in message
    assert "Once: topic t, partition 3, offset 100: value: " in message
    assert "(field 'id'" in message
    assert WRONG_SCHEMA in message
    assert "skip" not in message
    assert "dead-letter" not in message


def test_a_few_bad_records_may_be_skipped() -> None:
    message = message_of(BadRecords(FAIL), some(40), failing(2))
    assert message.startswith(
        "2 of 40 records cannot be decoded: 2 times: topic t, partition 3, offset 100: "
    )
    assert "set 'scan.on-decode-error' to 'skip' or 'dead-letter'" in message
    assert WRONG_SCHEMA not in message


def test_one_bad_record_of_one_says_nothing_about_the_schema() -> None:
    message = message_of(BadRecords(FAIL), some(1), failing(1))
    assert message.startswith(
        "1 of 1 records cannot be decoded: topic t, partition 3, offset 100: value: no; "
    )
    assert WRONG_SCHEMA not in message


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("not a number (field 'id', byte 3)", "not a number (field 'id', byte 77)", True),
        ("not a number (field 'id', byte 3)", "not a number (field 'id2', byte 3)", False),
        ("not a number (byte 3)", "not a time (byte 3)", False),
        ("'2026-01-01T00' has a T (field 'ts', byte 3)", "'x' has a T (field 'ts', byte 3)", True),
        ("failed: KeyError: 'a'", "failed: KeyError: 'b'", True),
        ('failed: ValueError: "a"', "failed: KeyError: 'b'", False),
    ],
)
def test_a_reason_is_what_went_wrong_in_which_field(one: str, other: str, is_same: bool) -> None:
    failures = [RecordFailure(0, "value", one, ""), RecordFailure(1, "value", other, "")]
    assert len(by_reason(failures)) == (1 if is_same else 2)
    assert len(by_reason([failures[0], RecordFailure(0, "key", one, "")])) == 2


def test_many_reasons_are_counted_and_not_all_shown() -> None:
    failures = [one for i, word in enumerate("abcdef") for one in failing(6 - i, word, first=i)]
    text = summarise(some(30), failures)
    assert text.startswith("6 times: topic t, partition 3, offset 100: value: a; ")
    assert text.endswith("value: c; it begins: v. 6 times: 3 other reasons.")


@given(st.lists(st.sampled_from(["a (byte 1)", "a (byte 2)", "b (field 'x')", "c"]), min_size=1))
def test_every_failure_is_counted_under_one_reason(reasons: list[str]) -> None:
    failures = [RecordFailure(i, "value", reason, "") for i, reason in enumerate(reasons)]
    groups = by_reason(failures)
    assert sorted(one.record_index for group in groups for one in group) == list(range(len(reasons)))
    assert [len(group) for group in groups] == sorted((len(group) for group in groups), reverse=True)


# -- the limit -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [SKIP, DEAD_LETTER])
def test_too_many_bad_records_stop_before_a_dead_letter_is_made(policy: OnDecodeError) -> None:
    limited = BadRecords(policy, "dlt" if policy is DEAD_LETTER else None, 0.5)
    message = message_of(limited, some(LEAST_RECORDS), failing(LEAST_RECORDS // 2 + 1))
    assert message.startswith(
        "11 of the 20 records that this task has read cannot be decoded. The query stops"
    )
    assert "'scan.on-decode-error.max-share' is 0.5: 11 times: topic t, partition 3, offset 100: " in message
    assert "are still in Kafka" in message
    assert (limited.skipped_count, limited.dead_letter_count) == (0, 0)


def test_the_error_says_which_dead_letters_were_written_before() -> None:
    limited = BadRecords(DEAD_LETTER, "dlt", 0.5)
    assert limited.handle(some(LEAST_RECORDS - 1), failing(12)) is not None
    assert "12 of them are in topic dlt already. The query stops" in message_of(limited, some(5), failing(5))


@pytest.mark.parametrize(
    ("record_count", "bad_count", "max_share"),
    [(1, 1, 0.5), (LEAST_RECORDS - 1, LEAST_RECORDS - 1, 0.0), (40, 20, 0.5), (40, 40, 1.0)],
)
def test_what_is_allowed_goes_on(record_count: int, bad_count: int, max_share: float) -> None:
    policy = BadRecords(SKIP, max_share=max_share)
    assert policy.handle(some(record_count), failing(bad_count)) is None
    assert policy.skipped_count == bad_count


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(0, 30)), max_size=8),
    st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]),
)
def test_the_limit_depends_on_counts_alone(chunks: list[tuple[int, int]], max_share: float) -> None:
    policy = BadRecords(SKIP, max_share=max_share)
    read = bad = 0
    for size, wanted in chunks:
        failed = min(size, wanted)
        read, bad = read + size, bad + failed
        if failed and read >= LEAST_RECORDS and bad > max_share * read:
            with pytest.raises(DecodeError):
                policy.handle(some(size), failing(failed))
            return
        policy.handle(some(size), failing(failed))
    assert (policy.record_count, policy.skipped_count) == (read, bad)


def test_a_task_without_an_end_counts_its_last_records() -> None:
    """Good records of last week do not hide that a producer writes nothing but bad ones now."""
    policy = BadRecords(DEAD_LETTER, "dlt", 0.5, is_endless=True)
    for _ in range(1_000):
        assert policy.handle(some(100), failing(1)) is not None
    with suppress(DecodeError):
        for _ in range(2 * ENDLESS_RECORDS // 10):
            policy.handle(some(10), failing(10))
    message = message_of(policy, some(1), failing(1))
    assert re.search(r"^\d+ of the last \d+ records that this task has read cannot be decoded\.", message)
    assert "already" not in message, "those of an open transaction are not in the topic"


def test_what_is_skipped_below_the_limit_is_suspicious_too(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        BadRecords(SKIP, max_share=0.5).handle(some(5), failing(5))
    assert "5 of 5 records could not be decoded and are skipped: 5 times: topic t" in caplog.text
    assert WRONG_SCHEMA in caplog.text


# -- its option ----------------------------------------------------------------------------------------------

SKIPPING = {**JSON, "scan.on-decode-error": "skip"}


def test_the_limit_is_on_unless_it_is_set() -> None:
    assert table_spec(SKIPPING).bad_records.max_share == 0.5
    limit = {"Scan.On-Decode-Error.Max-Share": " .25 "}
    assert table_spec({**SKIPPING, **limit}).bad_records.max_share == 0.25
    code = to_text(len, DESERIALIZER)
    with_code = {"scan.deserializer": code, "scan.on-decode-error": "skip", **limit}
    made = read_spec(with_code)
    assert made is not None
    assert made.bad_records.max_share == 0.25


@pytest.mark.parametrize("text", ["", "-0.1", "1.1", "50%", "nan", "1e-1", "half", "\u0660.5"])
def test_a_limit_is_a_number_from_0_to_1(text: str) -> None:
    with pytest.raises(OptionError, match=r"Allowed: a number from 0 to 1"):
        table_spec({**SKIPPING, "scan.on-decode-error.max-share": text})


def test_a_limit_where_the_first_bad_record_stops_is_refused() -> None:
    with pytest.raises(OptionError, match="is 'fail', so the first bad record stops the query"):
        table_spec({**JSON, "scan.on-decode-error.max-share": "0.5"})


# -- times, as docs/from-spark.md has them -------------------------------------------------------------------

NTZ, ZONED = pa.timestamp("us"), pa.timestamp("us", tz="UTC")


def times_of_the_page() -> list[tuple[str, str, str]]:
    page = (Path(__file__).parents[3] / "docs" / "from-spark.md").read_text()
    table = page.partition("## Times in JSON")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`2.*?) \| `(TIMESTAMP\w*)` \| (.*?) \|$", table, re.MULTILINE)
    return [(text, kind, option) for texts, kind, option in rows for text in re.findall(r"`(.*?)`", texts)]


@pytest.mark.parametrize(("text", "kind", "option"), times_of_the_page())
def test_times_are_read_as_the_page_says_and_not_otherwise(text: str, kind: str, option: str) -> None:
    standard = {"json.timestamp-format.standard": "ISO-8601"} if option != "none" else {}
    wanted, other = (NTZ, ZONED) if kind == "TIMESTAMP_NTZ" else (ZONED, NTZ)
    given = records(record(b'{"ts":"%s"}' % text.encode()))

    def failures(column: pa.DataType, options: dict[str, str]) -> int:
        table = make_table(pa.schema([("ts", column)]), table_spec({**JSON, **options}))
        return len(TableDecoder(table).decode(given).failures)

    assert failures(wanted, standard) == 0
    assert failures(other, standard) == 1
    assert failures(wanted, {} if standard else {"json.timestamp-format.standard": "ISO-8601"}) == 1


def test_the_page_has_times() -> None:
    assert len(times_of_the_page()) == 5
