"""The position of a stream of made rows.

Runs on the driver. Invariant: the JSON has a version, because checkpoints outlive the process. An offset of
an unknown version is an error.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from penstock.errors import CheckpointError
from penstock.source.checkpoint_offset import parse_reported

_VERSION = 1
_MARK = "penstock-datagen"


@dataclass(frozen=True)
class MadeOffset:
    """How many rows were made.

    Attributes:
        seed: of the query.
        row: the number of the next row.
        at_ms: when the end of the batch was chosen: "now" of its rows.
        total: of all rows; None without an end.
        is_done: whether the batch before this one ended at `total`.
    """

    seed: int
    row: int
    at_ms: int
    total: int | None = None
    is_done: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the offset for Spark's checkpoint."""
        return {_MARK: _VERSION, **asdict(self)}

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> MadeOffset:
        """Read an offset.

        Raises:
            CheckpointError: it has an unknown version.
        """
        version = found.get(_MARK)
        if version != _VERSION:
            raise CheckpointError(
                f"The checkpoint of a datagen table has version {version}, and this penstock reads version "
                f"{_VERSION}. Use the newer penstock, or a new checkpoint."
            )
        total = found["total"]
        return cls(
            int(found["seed"]),
            int(found["row"]),
            int(found["at_ms"]),
            None if total is None else int(total),
            bool(found["is_done"]),
        )


def made_offset(text: Any) -> MadeOffset | None:
    """Return the offset of a source in the progress of a query; None if it is of another source."""
    try:
        found = parse_reported(text)
    except ValueError:
        return None
    return MadeOffset.from_json(found) if isinstance(found, dict) and _MARK in found else None
