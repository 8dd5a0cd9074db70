"""The codec's header scan against the Python scan that it replaced, with good batches and random bytes."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.codec import BatchHeaders, scan_batches
from penstock.errors import CorruptBatchError
from tests import codec_batches as hand
from tests.parity import header_reference as reference
from tests.parity import strategies as wire
from tests.parity.codec_fuzz import ODD_NUMBERS, exactly

EXAMPLES = settings(max_examples=300, deadline=None)
FIELDS = reference.Header._fields


def outcome(work: Any, *arguments: Any) -> Any:
    try:
        return work(*arguments)
    except CorruptBatchError as error:
        return type(error)


def check(data: bytes) -> None:
    """Both scans say the same, and so do the headers one by one."""
    expected = outcome(reference.scan_batches, data)
    assert outcome(scan_batches, exactly(data), "t", 3) == expected
    if expected is CorruptBatchError:
        return
    got = [tuple(getattr(header, name) for name in FIELDS) for header in BatchHeaders(exactly(data), "t", 3)]
    assert [each[:6] for each in got] == [tuple(each)[:6] for each in reference.headers(data)]


@st.composite
def responses(draw: st.DrawFn) -> bytes:
    """Batches as a broker sends them, old and new formats, markers among them, perhaps cut off."""
    offset, parts = draw(st.integers(0, 2**40)), []
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["batch", "batch", "marker", "old"]))
        if kind == "batch":
            part = draw(wire.batches(offset))
        elif kind == "marker":
            part = hand.marker(offset, draw(st.integers(0, 9)), draw(st.integers(0, 1)))
        else:
            part = struct.pack(">qiIbb", offset, 16, 0, 0, 0) + bytes(10)
        parts.append(part)
        offset += 100
    data = b"".join(parts)
    return data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data


@EXAMPLES
@given(responses())
def test_what_brokers_send(data: bytes) -> None:
    check(data)
    got = [header.control_type for header in BatchHeaders(data, "t", 3)]
    assert got == [header.control_type for header in reference.headers(data)]


@EXAMPLES
@given(responses(), st.data())
def test_hostile_bytes(data: bytes, draw: st.DataObject) -> None:
    """Put impossible numbers anywhere: negative and huge lengths, offsets, versions, deltas."""
    hostile = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 3))):
        number = struct.pack(">i", draw.draw(st.sampled_from(ODD_NUMBERS)))
        at = draw.draw(st.sampled_from([0, 4, 8, 13, 16, 23]) | st.integers(0, max(0, len(hostile) - 1)))
        hostile[at : at + 4] = number
    check(bytes(hostile))


@EXAMPLES
@given(st.binary(max_size=300))
@example(b"\x7f" + b"\xff" * 60)
@example(b"\x00" * 61)
@example(struct.pack(">qiib", 0, 5, 0, 2))
@example(struct.pack(">qiib", 0, 2**31 - 1, 0, 2) + bytes(100))
@example(struct.pack(">qiib", 0, -(2**31), 0, 2) + bytes(100))
@example(struct.pack(">qiib", 2**63 - 1, 49, 0, 2) + bytes(44))
def test_any_bytes(data: bytes) -> None:
    check(data)


@pytest.mark.parametrize("length", range(62))
def test_each_prefix_of_a_header(length: int) -> None:
    check(hand.values(7, b"a")[:length])
