"""Produce requests and Fetch responses as kafka-python has them, but without copies of record batches.

Runs on the IO thread of a connection. Invariants: the pieces of a request together are the bytes that
kafka-python would send; a response differs from kafka-python's only in that `records` is a view of the frame,
which stays in memory as long as the view (tests/contract/test_frames.py compares both).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

Piece = bytes | bytearray | memoryview
_FIRST_VERSION, _FIRST_BY_ID = 9, 13
"""From the first on lengths are varints (KIP-482). From the second on topics have ids in place of names."""
_LARGE_BYTES = 4096
"""A smaller batch is copied, because a piece of its own costs more."""
_NO_TAGS = 0
Decode = Callable[[memoryview, int], tuple[Any, int]]


def is_served(request: Any) -> bool:
    """Return whether `produce_frame` makes frames of this version. It is known once a broker is chosen."""
    return bool(request.API_VERSION >= _FIRST_VERSION)


def produce_frame(request: Any) -> list[Piece]:
    """Return the frame of a Produce request that has its header and its version."""
    pieces: list[Piece] = []
    small = bytearray(4)  # the length of the frame
    small += request.encode_header(flexible=True)
    _put_text(small, request.transactional_id)
    small += struct.pack(">hi", request.acks, request.timeout_ms)
    _put_varint(small, len(request.topic_data) + 1)
    for topic in request.topic_data:
        if request.API_VERSION >= _FIRST_BY_ID:
            small += topic.topic_id.bytes
        else:
            _put_text(small, topic.name)
        _put_varint(small, len(topic.partition_data) + 1)
        for partition in topic.partition_data:
            records: Piece = partition.records
            small += struct.pack(">i", partition.index)
            _put_varint(small, len(records) + 1)
            if len(records) < _LARGE_BYTES:
                small += records
            else:
                pieces += [small, records]
                small = bytearray()
            small.append(_NO_TAGS)
        small.append(_NO_TAGS)
    small.append(_NO_TAGS)
    pieces.append(small)
    first = pieces[0]
    assert isinstance(first, bytearray)  # noqa: S101  # for mypy
    struct.pack_into(">i", first, 0, sum(map(len, pieces)) - 4)
    return pieces


def _put_text(into: bytearray, text: str | None) -> None:
    data = b"" if text is None else text.encode()
    _put_varint(into, 0 if text is None else len(data) + 1)
    into += data


def _put_varint(into: bytearray, value: int) -> None:
    while value > 0x7F:
        into.append(value & 0x7F | 0x80)
        value >>= 7
    into.append(value)


class FetchHeader:
    """The header of a Fetch that is under way. It decodes the response.

    Args:
        header: kafka-python's.
    """

    def __init__(self, header: Any) -> None:
        self.correlation_id = header.correlation_id
        self.api_key, self.api_version = header.request_api_key, header.request_api_version
        self._kind = header.get_response_class()

    def get_response_class(self) -> FetchHeader | None:
        """Return what decodes the response."""
        return None if self._kind is None else self

    def parse_header(self, frame: Any) -> Any:
        """Return the header of the response."""
        return self._kind.parse_header(frame)

    def decode(self, frame: Any) -> Any:
        """Return the response."""
        return _decoder(self._kind)(frame.read(), 0)[0]


@cache
def _decoder(kind: Any) -> Decode:
    """Return kafka-python's function for a version of the response, but one that copies small values only."""
    version = kind._class_version  # noqa: SLF001  # kafka-python has no name for it
    is_flexible = kind.flexible_version_q(version)
    made: FunctionType = kind._struct.compiled_decode_from(  # noqa: SLF001
        version, compact=is_flexible, tagged=is_flexible, data_class=kind[None]
    )
    return FunctionType(made.__code__, {**made.__globals__, "bytes": _bytes_or_view})


def _bytes_or_view(view: memoryview) -> bytes | memoryview:
    return bytes(view) if len(view) < _LARGE_BYTES else view
