"""Records as lines of JSON: nothing of a record is lost on the way through a file."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.cli.record_lines import json_line, record_of
from penstock.errors import RowError

_START = datetime(1970, 1, 1, tzinfo=UTC)
_BYTES = st.none() | st.binary(max_size=20) | st.text(max_size=20).map(str.encode)
_TIMES = st.integers(0, 4_102_444_800_000).map(lambda ms: _START + timedelta(milliseconds=ms))
_HEADERS = st.none() | st.lists(
    st.fixed_dictionaries({"key": st.text(max_size=5), "value": _BYTES}), min_size=1
)


@given(_BYTES, _BYTES, _HEADERS, _TIMES)
@example(b"\\xff", b"\xff", [{"key": "h", "value": b"\xff"}, {"key": "h", "value": None}], _START)
def test_a_record_comes_back_from_its_line(
    key: bytes | None, value: bytes | None, headers: list[dict[str, Any]] | None, at: datetime
) -> None:
    kept = {"key": key, "value": value, "headers": headers, "timestamp": at}
    line = json_line({"topic": "t", "partition": 1, "offset": 7, **kept}, with_headers=True)
    assert "\n" not in line
    assert record_of(line.encode(), 1) == kept


def test_a_line_by_hand_needs_a_value_only() -> None:
    assert record_of(b'{"value": "x"}', 1) == {
        "key": None,
        "value": b"x",
        "headers": None,
        "timestamp": None,
    }
    at = record_of(b'{"key": "k", "value": null, "timestamp": "2026-11-22T15:04:05Z"}', 1)
    assert at["timestamp"] == datetime(2026, 11, 22, 15, 4, 5, tzinfo=UTC)
    assert at["value"] is None


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("secret", "expected JSON"),
        ("[]", "expected a JSON object"),
        ('{"key": "k"}', "expected a field 'value'"),
        ('{"value": {"id": 1}}', "expected a text or null for 'value', got dict"),
        ('{"value": "x", "keys": "k"}', "got 'keys'"),
        ('{"value_base64": "?"}', "the bytes of 'value' cannot be read"),
        ('{"value": "\\ud800"}', "the bytes of 'value' cannot be read"),
        ('{"value": "x", "headers": {"a": "b"}}', "expected 'headers' as a list"),
        ('{"value": "x", "headers": [{"name": "a"}]}', "expected 'headers' as a list"),
        ('{"value": "x", "timestamp": "2026-11-22T15:04:05"}', "expected a 'timestamp' like"),
        ('{"value": "x", "timestamp": 5.5}', "expected a 'timestamp' like"),
        ('{"value": "x", "timestamp": true}', "expected a 'timestamp' like"),
        ('{"value": "x", "timestamp": 9223372036854776}', "milliseconds, or null for now"),
        ('{"value": "x", "offset": 7}', "printed without --headers"),
        ('{"value": "repaired", "value_base64": "/w=="}', "'value' and 'value_base64' differ"),
    ],
)
def test_a_line_that_is_not_a_record_is_an_error_without_its_text(line: str, told: str) -> None:
    with pytest.raises(RowError) as raised:
        record_of(line.encode(), 3)
    assert raised.value.message.startswith("Line 3: ")
    assert told in raised.value.message
    assert "secret" not in raised.value.message


def test_text_that_is_not_utf8_is_shown_and_kept() -> None:
    record = {"topic": "t", "partition": 0, "offset": 0, "timestamp": _START, "key": b"\xff", "value": b"a"}
    assert json.loads(json_line(record, with_headers=False)) == {
        "topic": "t",
        "partition": 0,
        "offset": 0,
        "timestamp": "1970-01-01T00:00:00.000+00:00",
        "key": "\\xff",
        "key_base64": "/w==",
        "value": "a",
    }
