"""The command `python -m benchmarks.tables`."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import tables
from benchmarks.tables import batch, beside, freshness, postgresql, topics


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tables",
        description=tables.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    cases = parser.add_subparsers(dest="case", required=True)
    one = cases.add_parser("batch")
    one.add_argument("kind", choices=batch.KINDS)
    one.add_argument("--table", choices=batch.TABLES, default="rows")
    one.add_argument("--rows", type=int, default=5_000_000, help="of the table")
    one.add_argument("--changes", type=int, default=300_000, help="of a batch")
    one.add_argument("--executors", type=int, default=2, help="processes with one core each")
    one.add_argument("--share", type=float, help="of a core for each executor, e.g. 0.4 (Linux, as root)")
    one.add_argument("--ways", nargs="*", choices=batch.WAYS, default=batch.WAYS)
    one.add_argument("--rounds", type=int, default=2)
    one.add_argument("--folder", type=Path, help="keeps the table for the next run")
    one = cases.add_parser("postgresql")
    one.add_argument("--rows", type=int, default=2_000_000, help="of the table")
    one.add_argument("--changes", type=int, default=300_000, help="of a batch")
    one.add_argument("--rounds", type=int, default=2)
    one = cases.add_parser("freshness")
    one.add_argument("kind", choices=batch.KINDS)
    one.add_argument("--rate", type=int, default=5_000, help="records a second")
    one.add_argument("--seconds", type=float, default=30)
    one.add_argument("--warm-up", type=float, default=15, help="seconds before them")
    one = cases.add_parser("topics")
    one.add_argument("way", choices=topics.WAYS, help="one query, or one for each topic")
    one.add_argument("--topics", type=int, default=100)
    _add_load(one)
    one = cases.add_parser("beside")
    one.add_argument("--topics", type=int, nargs="+", default=[5, 10, 20])
    one.add_argument("--extrapolated", type=int, default=100, help="topics, for the lines through the points")
    _add_load(one)
    one.set_defaults(trigger=10, seconds=60)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="penstock-tables-"))
    try:
        for figures in _asked(given, folder):
            sys.stdout.write(json.dumps({"case": given.case, **figures}) + "\n")
            sys.stdout.flush()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _add_load(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rate", type=int, default=2_000, help="records a second, of all topics together")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--trigger", type=float, default=2, help="seconds between the starts of batches")
    parser.add_argument("--patience", type=float, default=240, help="seconds to wait for the tables")


def _asked(given: argparse.Namespace, folder: Path) -> Iterator[dict[str, Any]]:
    if given.case == "batch":
        place = folder if given.folder is None else given.folder.resolve()
        sizes = given.rows, given.changes, given.executors
        yield from batch.measure(
            batch.Case(given.kind, given.table, *sizes, place, given.share), given.ways, given.rounds
        )
    elif given.case == "topics":
        load = given.topics, given.rate, given.seconds, given.trigger, given.patience
        yield topics.measure(given.way, *load, folder)
    elif given.case == "beside":
        names = "rate", "seconds", "trigger", "patience"
        yield from beside.measure(
            given.topics, {name: vars(given)[name] for name in names}, given.extrapolated
        )
    elif given.case == "postgresql":
        yield from postgresql.measure(given.rows, given.changes, given.rounds)
    else:
        yield freshness.measure(given.kind, given.rate, given.seconds, given.warm_up, folder)


if __name__ == "__main__":
    main()
