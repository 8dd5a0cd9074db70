"""Find the schema of each JSON message of Kafka Connect: `{"schema": ..., "payload": ...}`.

Runs on executors. Invariant: the text of a schema is what its message has, and messages with equal texts have
equal schemas. A message is parsed only if no message before it began with the same schema.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_BEFORE, _BETWEEN = b'{"schema":', b',"payload":'
NO_SCHEMA = (
    "the value has no schema. Set 'value.converter.schemas.enable' to true in Kafka Connect, or read it "
    "without 'debezium-json.schema-include' and declare the columns"
)


@dataclass
class Grouped:
    """Messages by schema.

    Attributes:
        ids: int32, for each message the index of its text; -1 for none.
        texts: the schemas.
        bad: messages without a schema, with the reason.
    """

    ids: np.ndarray[tuple[int], np.dtype[np.int32]]
    texts: list[str] = field(default_factory=list)
    bad: dict[int, str] = field(default_factory=dict)

    def id_of(self, text: str) -> int:
        if text not in self.texts:
            self.texts.append(text)
        return self.texts.index(text)


def grouped(values: pa.Array) -> Grouped:
    """Return the schemas of messages. Null has none."""
    found = Grouped(np.full(len(values), -1, np.int32))
    places = pc.indices_nonzero(values.is_valid())
    rest = values.take(places)
    while len(rest):
        first = rest[0].as_py()
        prefix = _prefix(first)
        if prefix is None:
            _parse(found, places[0].as_py(), first)
            places, rest = places.slice(1), rest.slice(1)
            continue
        begins = pc.starts_with(rest, prefix)
        text = prefix[len(_BEFORE) : -len(_BETWEEN)].decode()
        same = places.filter(begins).to_numpy(zero_copy_only=False)
        found.ids[same] = found.id_of(text)
        others = pc.invert(begins)
        places, rest = places.filter(others), rest.filter(others)
    return found


def _prefix(value: bytes) -> bytes | None:
    """Return a message up to its payload; None if it is not written as Kafka Connect writes it.

    A quotation mark in a text has a backslash before it. So the separator can only be found too early in an
    object of the schema that has a field `payload`. Then what is before it is not JSON.
    """
    at = value.find(_BETWEEN)
    if not value.startswith(_BEFORE) or at < 0:
        return None
    try:
        schema = json.loads(value[len(_BEFORE) : at])
    except ValueError:
        return None
    return value[: at + len(_BETWEEN)] if isinstance(schema, dict) and b"\n" not in value[:at] else None


def _parse(found: Grouped, place: int, value: bytes) -> None:
    try:
        message = json.loads(value)
    except (ValueError, RecursionError) as error:
        found.bad[place] = f"it is not JSON: {error}"
        return
    schema = message.get("schema") if isinstance(message, dict) else None
    if not isinstance(schema, dict):
        found.bad[place] = NO_SCHEMA
        return
    found.ids[place] = found.id_of(json.dumps(schema, separators=(",", ":")))
