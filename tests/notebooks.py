"""Read and run the notebooks of examples/, cell after cell, in this process.

Runs in tests. Invariant: what is run is the text of the cells, and nothing between them.
Jupyter is not needed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples"


class Cell(NamedTuple):
    """A cell: its kind (`markdown`, `code`), its text, and what Jupyter has saved of a run."""

    kind: str
    text: str
    saved: Any


def names() -> list[str]:
    """Return the notebooks."""
    return sorted(path.name for path in FOLDER.glob("*.ipynb"))


def cells(name: str) -> list[Cell]:
    """Return the cells of a notebook."""
    notebook = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    return [
        Cell(each["cell_type"], "".join(each["source"]), each.get("outputs") or each.get("execution_count"))
        for each in notebook["cells"]
    ]


def run(name: str) -> dict[str, Any]:
    """Run a notebook and return its names. Its broker ends with it, also if a cell fails."""
    names: dict[str, Any] = {"__name__": "__main__"}
    try:
        for number, cell in enumerate(cells(name)):
            if cell.kind == "code":
                exec(compile(cell.text, f"{name}[{number}]", "exec"), names)  # noqa: S102 - ours
    finally:
        if "kafka" in names:
            names["kafka"].stop()
    return names


@contextmanager
def without_a_screen() -> Iterator[None]:
    """Let matplotlib draw into memory. `plt.show()` does nothing, and the figures are closed at the end."""
    os.environ["MPLBACKEND"] = "agg"
    import matplotlib.pyplot as plt  # noqa: PLC0415 - the variable comes first

    try:
        yield
    finally:
        plt.close("all")
