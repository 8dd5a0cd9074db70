"""The note in the checkpoint of a shadow: what it repeats, and where it writes instead.

Runs on the driver. The note is the file `penstock-shadow.json` in the folder. It is written once, with the
folder, and never changed. Invariant: a folder without the file is not a shadow; a note that this version
cannot read is an error, because its query would write into the topic of another one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from penstock.errors import CheckpointError
from penstock.source.checkpoint_offset import OffsetJson

NAME = "penstock-shadow.json"
VERSION = 1


@dataclass(frozen=True, slots=True)
class ShadowNote:
    """What a shadow repeats, and where it writes.

    Attributes:
        live_query_id: of the query that it repeats.
        live_prefix: its `sink.transactional-id-prefix`.
        live_topic: the topic that it writes.
        first_batch: the first batch that the shadow repeats.
        last_batch: the last one that its first batch repeats.
        prefix: of the shadow.
        topic: of the shadow.
        start: where the shadow begins, in the form of Spark's checkpoint.
        log_topic: the decision log of both, if its name is not the default one.
        has_state: both keep a state, so their records depend on which records are in one batch.
    """

    live_query_id: str
    live_prefix: str
    live_topic: str
    first_batch: int
    last_batch: int
    prefix: str
    topic: str
    start: OffsetJson
    log_topic: str | None = None
    has_state: bool = False

    def text(self) -> str:
        """Return the content of the file."""
        stored = asdict(self)
        if not self.has_state:  # most notes have none, and older versions can read these
            del stored["has_state"]
        return json.dumps({"version": VERSION, **stored}, indent=1)


def read_note(folder: str | Path) -> ShadowNote | None:
    """Return the note of a checkpoint on this machine; None if the folder is not a shadow's.

    Raises:
        CheckpointError: the note cannot be read.
    """
    path = Path(folder) / NAME
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise _unreadable(path, str(error)) from error
    try:
        stored: Mapping[str, Any] = json.loads(text)
        if stored["version"] != VERSION:
            raise _unreadable(path, f"it has version {stored['version']}, while this is version {VERSION}")
        return ShadowNote(**{name: value for name, value in stored.items() if name != "version"})
    except (ValueError, KeyError, TypeError) as error:
        raise _unreadable(path, repr(error)) from error


def _unreadable(path: Path, why: str) -> CheckpointError:
    return CheckpointError(
        f"Cannot read the note {path} of a shadow: {why}. Nothing was written, because without the note the "
        "query would write into the topic of the query that it repeats. Use the version of penstock that "
        "made this checkpoint, or make another one with penstock shadow create.",
        path=str(path),
    )
