"""Spark's checkpoint folder with the files of done batches, written without Spark. Runs in tests only."""

from __future__ import annotations

import json
from pathlib import Path


def write_checkpoint(folder: Path, *batches: dict[str, dict[str, int]]) -> Path:
    """Write the positions after each done batch as Spark does, and return the folder."""
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True)
    for batch_id, positions in enumerate(batches):
        (folder / "offsets" / str(batch_id)).write_text(f"v1\n{{}}\n{json.dumps(positions)}")
        (folder / "commits" / str(batch_id)).write_text("v1\n{}")
    return folder
