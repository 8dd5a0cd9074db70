"""docs/functions.md says of each function what the translator does with it: in a batch, and in a stream."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock.sql.bind.groups import GROUPINGS
from penstock.sql.functions.not_served import REFUSED
from penstock.sql.functions.served import AGGREGATES, OVER_ONLY
from penstock.sql.language._refused import STATEMENTS
from tests.judges.sql.corpus import DATA
from tests.unit.sql.planning import refused
from tests.unit.sql.test_functions import IN_OTHER_TESTS, IN_QUERIES, PAGE, SERVED, WRITTEN

WINDOW = "FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ltz), INTERVAL '1' HOUR)) GROUP BY window_start, window_end"
ARGUMENTS = {"PERCENTILE": "i, 0.5", "LISTAGG": "s", "NTILE": "4"} | dict.fromkeys(GROUPINGS, "s")
WITHIN_BRACKETS = re.compile(r"\([^()]*\)")
CLAUSES = {"ESCAPE", "ON EMPTY", "ON ERROR"}
"""Words in a cell that belong to a function before them."""
DOCS = Path(__file__).parents[3] / "docs"
OF_REFUSED: dict[str, str] = json.loads((DATA / "refused.json").read_text())
STOPPED = [expression for expression, message in OF_REFUSED.items() if message.startswith("fails")]
"""Expressions to which Flink gives a value, and at which penstock stops."""
NO_ARGUMENTS = {"ROW_NUMBER", "RANK", "DENSE_RANK", "PERCENT_RANK", "CUME_DIST"}


@dataclass(frozen=True)
class Row:
    """A row of a table: the names in its first column, and its other cells by the heading."""

    names: tuple[str, ...]
    cells: dict[str, str]


def without_brackets(text: str) -> str:
    """Leave out what stands in brackets: what to use instead."""
    shorter = WITHIN_BRACKETS.sub("", text)
    return text if shorter == text else without_brackets(shorter)


def section(title: str, page: str = PAGE) -> str:
    return re.split(r"^## ", page.partition(f"## {title}\n")[2], flags=re.MULTILINE)[0]


def rows(text: str) -> Iterator[Row]:
    table = [line for line in text.splitlines() if line.startswith("|")]
    heading, _, *lines = [re.split(r"(?<!\\)\|", line)[1:-1] for line in table]
    for cells in lines:
        names = tuple(re.findall(r"`([A-Z_0-9 ]+)`", cells[0]))
        yield Row(names, {head.strip(): cell.strip() for head, cell in zip(heading, cells, strict=True)})


def call(name: str) -> str:
    return f"{name}({'' if name in NO_ARGUMENTS else ARGUMENTS.get(name, 'd')})"


def in_a_stream(name: str, where: str) -> str:
    """Return a query over a stream with a function: in a window, in a group, or with OVER."""
    sets = "GROUPING SETS ((s), ())"
    if where == "`OVER`":
        return f"SELECT {call(name)} OVER (PARTITION BY s ORDER BY ltz) FROM t"
    if where == "window":
        return f"SELECT {call(name)} {WINDOW}{f', {sets}' if name in GROUPINGS else ''}"
    return f"SELECT {call(name)} FROM t GROUP BY {sets if name in GROUPINGS else 's'}"


def cases() -> list[tuple[str, str, bool]]:
    """Return each function of the page with an expression in a stream, and whether the page says that it is served."""
    aggregates = [
        (name, where, row.cells[where] == "yes")
        for row in rows(section("Aggregates"))
        for name in row.names
        for where in ("window", "no window", "`OVER`")
    ]
    return aggregates + [
        (name, "`OVER`", row.cells["in a stream"] == "yes")
        for row in rows(section("With OVER"))
        for name in row.names
    ]


@pytest.mark.parametrize(("name", "where", "promised"), cases())
def test_a_function_is_served_in_a_stream_where_the_page_says_so(
    name: str, where: str, promised: bool
) -> None:
    query = in_a_stream(name, where)
    assert (refused(query) is None) is promised, query


def test_the_page_has_each_aggregate_and_each_function_of_over() -> None:
    said = {name for name, _, _ in cases()}
    assert {*AGGREGATES, *OVER_ONLY, *GROUPINGS} - {"GROUP_ID"} == said


def test_each_cell_of_a_stream_is_yes_or_no() -> None:
    cells = [
        each.cells[where]
        for each in rows(section("Aggregates"))
        for where in ("window", "no window", "`OVER`")
    ]
    cells += [each.cells["in a stream"] for each in rows(section("With OVER"))]
    assert set(cells) == {"yes", "no"}


def test_what_the_page_calls_refused_is_not_served() -> None:
    refused = {
        name
        for part in re.findall(r"^Refused: (.*?)(?=\n\n|\Z)", PAGE, re.MULTILINE | re.DOTALL)
        for name in re.findall(r"`([A-Z_0-9 ]+)`", without_brackets(part))
    }
    assert len(refused) > 40
    assert sorted(refused - {*REFUSED, *WRITTEN}) == []


def test_what_the_page_calls_served_is_not_refused() -> None:
    served = {
        name
        for title in ("Comparisons and conditions", "Numbers", "Texts", "Times", "JSON", "Arrays, maps, rows")
        for row in rows(section(title))
        for name in row.names
    } - CLAUSES
    assert len(served) > 150
    assert sorted(served & {*REFUSED}) == []
    known = {*SERVED, *IN_QUERIES, *IN_OTHER_TESTS}
    assert (
        sorted(
            name for name in served if name.partition(" ")[0] not in {one.partition(" ")[0] for one in known}
        )
        == []
    )


def name_of(expression: str) -> str:
    """Return the function or operator of an expression, as the page writes it."""
    called = re.match(r"([A-Z_0-9]+)[(\[]", expression)
    if called is None or expression.endswith(" + 1"):
        return "IS JSON VALUE" if expression.endswith("IS JSON") else "+"
    return called[1]


@pytest.mark.parametrize("expression", STOPPED)
def test_the_page_says_of_a_function_that_a_value_stops_it(expression: str) -> None:
    name = name_of(expression)
    said = next(
        line for line in PAGE.splitlines() if line.startswith("|") and f"`{name}`" in line.split(" | ")[0]
    )
    if name == "TRY_CAST":  # it has a list below its table
        said = section("Conversions")
    assert re.search(r"\bstops?\b", said), said


def compared(name: str) -> int:
    """Return of how many expressions of a file tests/spark/test_sql_flink.py compares value and type."""
    answers = json.loads((DATA / f"flink_{name}.json").read_text())
    return sum("error" not in each and each["expression"] not in OF_REFUSED for each in answers)


@pytest.mark.parametrize("page", ["functions.md", "sql.md", "sql-judges.md"])
def test_the_figures_of_a_page_are_those_of_what_is_compared(page: str) -> None:
    text = " ".join((DOCS / page).read_text().split())
    [figures] = re.findall(r"values and types of ([\d,]+) expressions and of ([\d,]+) aggregates", text)
    expressions, aggregates = (int(each.replace(",", "")) for each in figures)
    assert expressions <= compared("expressions") + compared("berlin") < expressions + 100
    assert aggregates <= compared("aggregates") < aggregates + 20


def test_a_message_about_functions_names_the_page_that_lists_them() -> None:
    assert "docs/functions.md lists them" in (refused("SELECT no_such_function(i) FROM t") or "")
    said = [STATEMENTS[each] for each in ("LOAD", "UNLOAD", "USE MODULES", "SHOW FULL MODULES")]
    assert [each for each in said if "docs/functions.md lists the functions" not in each] == []
