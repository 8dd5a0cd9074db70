"""Draw what a soak has sampled: `python -m tests.soak.plot FOLDER/samples.csv [--to soak.svg]`.

Four panels share the time: memory, open files, threads, and records behind. The first quarter of the run, in
which buffers and caches may fill, has a grey background. Pure but for the two files.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.soak.continuous import ROLES
from tests.soak.slopes import after_warm_up

PANELS = {"mb": "memory, MB", "files": "open files", "threads": "threads"}
_PIXELS_AN_INCH = 72


def read(file: Path) -> dict[str, list[float]]:
    """Return the columns of `samples.csv`."""
    with file.open(newline="") as lines:
        samples = list(csv.DictReader(lines))
    if not samples:
        raise ValueError(f"{file} has no sample")
    return {column: [float(each[column]) for each in samples] for column in samples[0]}


def drawn(columns: Mapping[str, Sequence[float]]) -> Any:
    """Return a figure of matplotlib."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - only who draws waits for it

    minutes = [each / 60 for each in columns["seconds"]]
    figure = Figure(figsize=(9, 8), layout="constrained")
    *panels, last = figure.subplots(len(PANELS) + 1, sharex=True)
    for panel, (name, title) in zip(panels, PANELS.items(), strict=True):
        for role in ROLES:
            panel.plot(minutes, columns[f"{role}_{name}"], label=role)
        panel.set_ylabel(title)
    last.plot(minutes, columns["behind"], color="black", linewidth=0.7)
    last.set_ylabel("records behind")
    last.set_xlabel("minutes")
    for panel in (*panels, last):
        panel.set_ylim(bottom=0)
        panel.axvspan(minutes[0], minutes[after_warm_up(minutes)], color="0.92")
    panels[0].legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("samples", type=Path, help="the samples.csv of a soak")
    parser.add_argument("--to", type=Path, default=Path("soak.svg"), help="its ending names the format")
    given = parser.parse_args()
    drawn(read(given.samples)).savefig(given.to, dpi=_PIXELS_AN_INCH, metadata={"Date": None})


if __name__ == "__main__":
    main()
