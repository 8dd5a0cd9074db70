"""Read a file of Spark's offset log: what a batch reads, as it was planned.

Runs anywhere. Pure. The file has a version, the batch's metadata, and one line for each source. In version 2
the line begins with the name of the source.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from penstock.errors import CheckpointError
from penstock.source.checkpoint_offset import SourceOffset

NOT_READ_YET = "-"
"""The position of a source that has read nothing yet."""
NAMED = "v2"
"""The version in which sources have names."""


class SourceLine(NamedTuple):
    """The position of a source, as text. `name` is empty in version 1."""

    name: str
    text: str


class PlannedFile(NamedTuple):
    """The parts of the file."""

    version: str
    metadata: str
    sources: tuple[SourceLine, ...]


def parse_planned(text: str, path: str) -> PlannedFile:
    """Return the parts of a file.

    Args:
        text: of the file.
        path: for messages.

    Raises:
        CheckpointError: it has another version, or was cut off.
    """
    version, *lines = text.split("\n")
    if version not in ("v1", NAMED):
        raise CheckpointError(
            f"Expected version v1 or v2 of Spark's offset log in {path}, got {version[:20]!r}. Nothing was "
            "changed. A newer Spark wrote it.",
            path=path,
        )
    sources = []
    for line in lines[1:]:
        name, _, rest = line.partition(":") if version == NAMED else ("", "", line)
        if rest:
            sources.append(SourceLine(name, rest))
    if not sources:
        raise CheckpointError(
            f"Expected a line for each source in {path} of Spark's offset log, got none. The file was cut "
            "off. Nothing was changed.",
            path=path,
        )
    return PlannedFile(version, lines[0], tuple(sources))


def kafka_offset(text: str) -> SourceOffset | None:
    """Return the position of a source; None if it does not read Kafka, or has read nothing.

    Raises:
        CheckpointError: a newer penstock wrote it.
    """
    if text == NOT_READ_YET:
        return None
    try:
        raw = json.loads(text)
    except ValueError:
        return None
    is_of_kafka = isinstance(raw, dict) and bool(raw) and all(isinstance(each, dict) for each in raw.values())
    return SourceOffset.from_json(raw) if is_of_kafka else None
