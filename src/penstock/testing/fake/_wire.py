"""Kafka's wire format from the broker's side, by the protocol classes of kafka-python.

Runs in tests only. Invariant: an answer is a plain dict here and becomes a response of the schema in one
place (`encode`), so that a field that the schema does not have is an error of the fake and never
reaches a client.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from kafka.protocol import admin, consumer, metadata, producer, sasl

Fields = Mapping[str, Any]
"""The fields of a response by their names in the schema. Structures in it are dicts, too."""

_ROOMS = (admin, consumer, metadata, producer, sasl)
_PREFIX = struct.Struct(">hhi")
API_VERSIONS = "ApiVersions"


def _class(name: str) -> Any:
    return next(getattr(room, name) for room in _ROOMS if hasattr(room, name))


@dataclass(frozen=True)
class Frame:
    """The beginning of a request, which every version of every API shares."""

    api_key: int
    version: int
    correlation_id: int
    data: bytes

    @classmethod
    def of(cls, data: bytes) -> Frame:
        """Read the beginning of a request."""
        api_key, version, correlation_id = _PREFIX.unpack_from(data)
        return cls(api_key, version, correlation_id, data)


class Api:
    """One API of Kafka's protocol: its key and its two classes.

    Args:
        name: Kafka's name of the API, e.g. "Produce".
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._request, self._response = _class(f"{name}Request"), _class(f"{name}Response")
        self.key: int = self._request.API_KEY

    def decode(self, frame: Frame) -> Any:
        """Return the request."""
        return self._request.decode(frame.data, version=frame.version, header=True)

    def expects_answer(self, body: Any) -> bool:
        """Return whether the client waits for an answer. It does not after a Produce with acks=0."""
        return bool(body.expect_response())

    def encode(self, version: int, correlation_id: int, fields: Fields) -> bytes | bytearray:
        """Return the response as bytes, with its length before it."""
        response = _build(self._response, version, fields)
        response.with_header(correlation_id=correlation_id)
        encoded: bytes | bytearray = response.encode(header=True, framed=True)
        return encoded


def _build(kind: Any, version: int, fields: Fields) -> Any:
    """Make an object of the schema, and those in it, without fields that this version does not have."""
    schema = _schema(kind, version)
    values = {}
    for name, value in fields.items():
        is_known, inner = schema[name]
        if not is_known:
            continue
        if value is None or inner is None:
            values[name] = value
        elif isinstance(value, Mapping):
            values[name] = _build(inner, version, value)
        else:
            values[name] = [_build(inner, version, each) for each in value]
    return kind(version=version, **values)


@cache
def _schema(kind: Any, version: int) -> dict[str, tuple[bool, Any]]:
    """Return for each field whether this version has it, and the class of its structures, if it has some.

    It is cached, because kafka-python works it out at each access.
    """
    return {
        name: (
            bool(field.for_version_q(version)),
            getattr(kind, field.type_str) if field.is_struct() or field.is_struct_array() else None,
        )
        for name, field in kind.fields.items()
    }
