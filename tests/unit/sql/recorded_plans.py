"""Queries with their plans, in tests/data/sql/plans: read, and recorded by `python -m tests.unit.sql.recorded_plans`.

A line `# ...` says what the next queries are for. A query is a line, and its plan, its SQL of Spark or the message
that refuses it are the lines behind it, with four blanks before them. A line `@ batch sql zone=Europe/Berlin` says
how the queries behind it are planned and that their SQL is shown, up to the next such line:

- `batch`, `sql`, `not-utc`, `offsets` (the rows are wanted with their offsets), `accepted` (varying values are),
  `insert` (SQL starts the query, in append mode).
- `zone=` the zone of a session whose queries run in UTC, `ttl=` of states, `free=` a digit for each column, which
  is 1 if a clock may stand in it.

Recording shows what a change of the code does to all plans: read the difference, as it is the expectation.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import SqlError
from penstock.sql.functions.zones import NeedsUtcError
from tests.judges.sql.corpus import DATA
from tests.unit.sql.planning import How, RecordedViews, planned

PLANS = DATA / "plans"
_INDENT = "    "


@dataclass(frozen=True)
class Case:
    """A query, the part of the file that it is in, how it is planned, and what is expected."""

    part: str
    line: int
    query: str
    mode: str
    expected: str

    @property
    def found(self) -> str:
        """Return what the query gives now."""
        words = dict(each.partition("=")[::2] for each in self.mode.split())
        views = RecordedViews("not-utc" not in words, words.get("zone"))
        how = How(
            "batch" in words,
            words.get("ttl"),
            views,
            free=tuple(each == "1" for each in words.get("free", "")),
            wants_offsets="offsets" in words,
            accepts_varying="accepted" in words,
            is_insert="insert" in words,
        )
        try:
            made = planned(self.query, how)
        except SqlError as error:
            return "! " + str(error).split("\n", maxsplit=1)[0]
        except NeedsUtcError:
            return "! The query has to run in UTC."
        warnings = "\n".join(f"? {each}" for each in made.warnings)
        if "accepted" in words:
            return warnings
        return "\n".join([made.sql, *made.made] if "sql" in words else [made.text, f": {made.known}"])


def cases(path: Path) -> Iterator[Case]:
    """Yield the cases of a file."""
    query, mode, part, start, expected = "", "", "", 0, list[str]()
    for number, line in enumerate([*path.read_text().splitlines(), ""], 1):
        if line.startswith(_INDENT):
            expected.append(line.removeprefix(_INDENT))
            continue
        if query:
            yield Case(part, start, query, mode, "\n".join(expected))
        query, start, expected = "", number, []
        if line.startswith("@"):
            mode = line.removeprefix("@").strip()
        elif line.startswith("#"):
            part = f"{path.stem}: {line.removeprefix('# ')}"
        elif line:
            query = line


def recorded(path: Path) -> str:
    """Return the text of a file with what its queries give now."""
    found = {each.line: each.found for each in cases(path)}
    lines = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.startswith(_INDENT):
            lines.append(line)
            lines += [_INDENT + each for each in found.get(number, "").splitlines()]
    return "\n".join(lines) + "\n"


def main(names: list[str]) -> None:
    for path in sorted(PLANS.glob("*.txt")):
        if not names or path.name in names:
            path.write_text(recorded(path))


if __name__ == "__main__":
    main(sys.argv[1:])
