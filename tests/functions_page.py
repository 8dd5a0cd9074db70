"""Make the tables of docs/functions.md from the functions that SQL serves and refuses.

Names, messages, and what is served in a stream come from the code. tests/functions.toml says in which table a
name stands, and what differs from Flink. Run `make docs` after you change one. Invariants: each served or
refused function is in a table; a name that the code does not know is an error.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from penstock.sql.bind.expressions._calls import _WITH_WORDS
from penstock.sql.bind.groups import GROUPINGS
from penstock.sql.functions.not_served import REFUSED
from penstock.sql.functions.served import AGGREGATES, OVER_ONLY
from tests.page_regions import code, filled, table
from tests.unit.sql.listed_functions import IN_OTHER_TESTS, IN_QUERIES, SERVED, WRITTEN
from tests.unit.sql.planning import BATCH, refused

PAGE = Path(__file__).parents[1] / "docs" / "functions.md"
NOTES = Path(__file__).with_name("functions.toml")
PLACES = ("window", "no window", "`OVER`")
"""Where an aggregate stands in a stream."""
_WINDOW = "FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ltz), INTERVAL '1' HOUR)) GROUP BY window_start, window_end"
_ARGUMENTS = {"PERCENTILE": "i, 0.5", "LISTAGG": "s", "NTILE": "4"} | dict.fromkeys(GROUPINGS, "s")
_NO_ARGUMENTS = {"ROW_NUMBER", "RANK", "DENSE_RANK", "PERCENT_RANK", "CUME_DIST"}


@dataclass(frozen=True)
class Row:
    """Functions with one note. `parts` are those that stand only in certain parts of a query."""

    names: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    forms: tuple[str, ...] = ()
    differs: str = ""

    @property
    def shown(self) -> str:
        return ", ".join(map(code, (*self.names, *self.parts, *self.forms)))


@dataclass(frozen=True)
class Section:
    """The tables below one heading of the page."""

    region: str
    rows: tuple[Row, ...]
    refused: tuple[str, ...]
    head: str = "differs"


def sections(text: str | None = None) -> list[Section]:
    """Return the sections of the file of notes, with what stands nowhere in it.

    Raises:
        ValueError: a name is not known, stands twice, or is refused where it should be served.
    """
    written = tomllib.loads(NOTES.read_text(encoding="utf-8") if text is None else text)["section"]
    found = [_section(each) for each in written]
    _check(found)
    placed = {name for each in found for row in each.rows for name in (*row.names, *row.parts)}
    placed |= {name for each in found for name in each.refused}
    return [_completed(each, placed, is_last=each is found[-1]) for each in found]


def _section(written: dict[str, Any]) -> Section:
    rows = []
    for row in written["row"]:
        names, parts, forms = (tuple(row.get(key, ())) for key in ("names", "parts", "forms"))
        rows.append(Row(names, parts, forms, row.get("differs", "")))
    return Section(written["region"], tuple(rows), tuple(written["refused"]), written.get("head", "differs"))


def _check(found: Iterable[Section]) -> None:
    names: list[str] = []
    for section in found:
        for row in section.rows:
            _check_known(row.names, {*SERVED, *IN_QUERIES} - REFUSED.keys(), "served")
            _check_known(row.parts, {*IN_OTHER_TESTS, *REFUSED}, "a part of queries")
            names += (*row.names, *row.parts)
        _check_known(section.refused, {*REFUSED, *WRITTEN} - SERVED, "refused")
        names += section.refused
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"in two rows: {', '.join(twice)}")


def _check_known(names: Iterable[str], known: Collection[str], what: str) -> None:
    if strange := [name for name in names if name not in known]:
        raise ValueError(f"not {what}: {', '.join(strange)}")


def _completed(section: Section, placed: set[str], *, is_last: bool) -> Section:
    """Return a section with the names that stand in no row and belong to it."""
    of = {"aggregates": AGGREGATES, "over": OVER_ONLY}
    mine: Iterable[str] = of.get(section.region, ())
    others: Iterable[str] = ()
    if is_last:
        mine = (
            name
            for name in SERVED
            if name not in {*AGGREGATES, *OVER_ONLY} and not name.endswith(_WITH_WORDS)
        )
        others = REFUSED
    more = tuple(sorted(name for name in mine if name not in placed))
    return replace(
        section,
        rows=(*section.rows, Row(more)) if more else section.rows,
        refused=(*section.refused, *sorted(name for name in others if name not in placed)),
    )


def in_a_stream(name: str, place: str) -> str:
    """Return a query over a stream with a function: in a window, in a group, or with OVER."""
    call = f"{name}({'' if name in _NO_ARGUMENTS else _ARGUMENTS.get(name, 'd')})"
    sets = "GROUPING SETS ((s), ())"
    if place == "`OVER`":
        return f"SELECT {call} OVER (PARTITION BY s ORDER BY ltz) FROM t"  # noqa: S608 - it is planned only
    if place == "window":
        return f"SELECT {call} {_WINDOW}{f', {sets}' if name in GROUPINGS else ''}"
    return f"SELECT {call} FROM t GROUP BY {sets if name in GROUPINGS else 's'}"  # noqa: S608 - planned only


def _cells(name: str, places: Iterable[str]) -> tuple[str, ...]:
    """Return whether SQL serves a function at each place in a stream: yes or no."""
    return tuple("yes" if refused(in_a_stream(name, place)) is None else "no" for place in places)


def _in_streams(rows: Iterable[Row], places: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the cells of rows. A row becomes several if its names are not served at the same places."""
    for row in rows:
        for cells, names in groupby(row.names, lambda name: _cells(name, places)):
            yield (", ".join(map(code, names)), *cells, row.differs)


def _served(section: Section) -> str:
    if section.region == "aggregates":
        return table(("served", *PLACES, "differs"), _in_streams(section.rows, PLACES))
    if section.region == "over":
        rows = (cells[:2] for cells in _in_streams(section.rows, ("`OVER`",)))
        return table(("served in a batch", "in a stream"), rows)
    return table(("served", section.head), ((row.shown, row.differs) for row in section.rows))


def _advice(name: str) -> str:
    """Return what the message of a refused name says, as a sentence of Markdown."""
    query = f"SELECT {WRITTEN.get(name, f'{name}(s)')} FROM t"  # noqa: S608 - it is planned only
    said = refused(query, BATCH) or ""
    text = REFUSED[name] if name in REFUSED else said.partition(" is not served: ")[2]
    for sign in ("*", "`"):
        text = text.replace(sign, f"\\{sign}")
    return text[:1].upper() + text[1:].replace("<", "&lt;")


def _refused(section: Section) -> str:
    of = groupby(section.refused, _advice)
    return table(("refused", "what the message says"), ((", ".join(map(code, n)), text) for text, n in of))


def page() -> str:
    """Return the page with the tables of now."""
    found = sections()
    tables = {each.region: _served(each) for each in found}
    tables |= {f"{each.region}-refused": _refused(each) for each in found}
    return filled(PAGE.read_text(encoding="utf-8"), tables)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE}\n")
