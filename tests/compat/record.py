"""Record what this version leaves behind: `python -m tests.compat.record 0.1.0 tables texts`.

Without names of parts it records all of them. Later versions have to resume from it (`test_resume.py`,
`test_sql_resume.py`, tests/unit/test_compat.py). So this runs once for a release, and after that only for
parts that are new.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.compat.releases import HERE, pack


def record_checkpoint(folder: Path) -> None:
    """Record a checkpoint of a plain read."""
    from tests.compat import make_checkpoint  # noqa: PLC0415 - lazy: it needs Spark

    make_checkpoint.record(folder / "checkpoint")


def record_sql(folder: Path) -> None:
    """Record checkpoints, states and decisions of an SQL job."""
    from tests.compat.record_sql import record  # noqa: PLC0415 - lazy: it needs Spark

    record(folder / "sql")


def record_tables(folder: Path) -> None:
    """Record tables with the marker of their last batch."""
    from tests.compat import tables  # noqa: PLC0415

    for name, table in tables.TABLES.items():
        into = folder / "tables" / name
        shutil.rmtree(into, ignore_errors=True)
        target = table.open(into)
        for number in range(tables.RECORDED):
            assert target.apply(tables.batch_of(number))


def record_histories(folder: Path) -> None:
    """Record a history and a log of changes."""
    from tests.compat import histories  # noqa: PLC0415

    shutil.rmtree(folder / "histories", ignore_errors=True)
    for target in histories.opened(folder / "histories"):
        for number in range(histories.RECORDED):
            assert target.apply(histories.batch_of(number))


def record_journal(folder: Path) -> None:
    """Record the journal of `penstock.cdc.replicate`."""
    from tests.compat import journals  # noqa: PLC0415

    shutil.rmtree(folder / "journal", ignore_errors=True)
    journals.write(folder / "journal")


def record_states(folder: Path) -> None:
    """Record the state of each operator, and what comes of its last batch."""
    from tests.compat import states  # noqa: PLC0415

    come = {}
    with tempfile.TemporaryDirectory() as temporary:
        for name, kept in states.KEPT.items():
            for number in range(states.RECORDED):
                states.run(kept, Path(temporary) / name, number)
        pack(Path(temporary), folder / "states.zip")
        for name, kept in states.KEPT.items():
            come[name] = states.run(kept, Path(temporary) / name, states.RECORDED)
    (folder / "states.json").write_text(json.dumps(come, indent=1, default=str) + "\n")


def record_texts(folder: Path) -> None:
    """Record texts."""
    from tests.compat import texts  # noqa: PLC0415

    (folder / "texts.json").write_text(json.dumps(texts.made(), indent=1) + "\n")


PARTS: dict[str, Callable[[Path], None]] = {
    "checkpoint": record_checkpoint,
    "sql": record_sql,
    "journal": record_journal,
    "states": record_states,
    "tables": record_tables,
    "histories": record_histories,
    "texts": record_texts,
}


def main() -> None:
    release, *parts = sys.argv[1:]
    (HERE / release).mkdir(exist_ok=True)
    for part in parts or PARTS:
        PARTS[part](HERE / release)


if __name__ == "__main__":
    main()
