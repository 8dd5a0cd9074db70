"""docs/functions.md says of each function what the translator does with it: in a batch, and in a stream."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from penstock.sql.bind.groups import GROUPINGS
from penstock.sql.functions.not_served import REFUSED
from penstock.sql.functions.served import AGGREGATES, OVER_ONLY
from penstock.sql.language._refused import STATEMENTS
from tests import functions_page
from tests.functions_page import PLACES, in_a_stream, sections
from tests.judges.sql.corpus import DATA
from tests.unit.sql.listed_functions import LISTED, SERVED
from tests.unit.sql.planning import refused

PAGE = functions_page.PAGE.read_text(encoding="utf-8")
DOCS = Path(__file__).parents[3] / "docs"
OF_REFUSED: dict[str, str] = json.loads((DATA / "refused.json").read_text())
STOPPED = [expression for expression, message in OF_REFUSED.items() if message.startswith("fails")]
"""Expressions to which Flink gives a value, and at which penstock stops."""


def section(title: str, page: str = PAGE) -> str:
    return re.split(r"^## ", page.partition(f"## {title}\n")[2], flags=re.MULTILINE)[0]


def test_the_page_is_that_of_the_code() -> None:
    assert functions_page.page() == PAGE, "run `make docs`"


@pytest.mark.parametrize(
    ("name", "promised"),
    {
        "SUM": ("yes", "yes", "yes"),
        "LISTAGG": ("yes", "yes", "no"),
        "PERCENTILE": ("yes", "no", "no"),
        "APPROX_COUNT_DISTINCT": ("no", "no", "no"),
    }.items(),
)
def test_the_page_says_where_in_a_stream_an_aggregate_is_served(name: str, promised: tuple[str, ...]) -> None:
    table = [each for each in section("Aggregates").splitlines() if each.startswith("| ")]
    [line] = [each for each in table if f"`{name}`" in each.split(" | ")[0]]
    assert tuple(line.split(" | ")[1:4]) == promised
    served = [refused(in_a_stream(name, place)) is None for place in PLACES]
    assert served == [each == "yes" for each in promised]


def test_each_function_is_in_one_table() -> None:
    names = [name for each in sections() for row in each.rows for name in (*row.names, *row.parts)]
    names += [name for each in sections() for name in each.refused]
    assert len(names) == len(set(names)) > 290
    assert [each for each in LISTED if each not in names] == []
    assert [each for each in (*AGGREGATES, *OVER_ONLY, *GROUPINGS, *REFUSED) if each not in names] == []


def test_a_new_function_gets_a_row_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions_page, "SERVED", {*SERVED, "TWICE"})
    monkeypatch.setattr(functions_page, "AGGREGATES", {**AGGREGATES, "MEDIAN": AGGREGATES["PERCENTILE"]})
    monkeypatch.setattr(functions_page, "REFUSED", {**REFUSED, "THRICE": "use x < y."})
    changed = functions_page.page()
    assert "\n| `MEDIAN` | no | no | no | |\n" in section("Aggregates", changed)
    assert "\n| `TWICE` | |\n" in section("Queries and tables", changed)
    assert "\n| `THRICE` | Use x &lt; y. |\n" in section("Queries and tables", changed)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('names = ["ABSS"]', "not served: ABSS"),
        ('names = ["UUID"]', "not served: UUID"),
        ('parts = ["ABS"]', "not a part of queries: ABS"),
        ('names = ["ABS", "ABS"]', "in two rows: ABS"),
    ],
)
def test_a_name_in_the_wrong_place_is_an_error(row: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        sections(f'[[section]]\nregion = "x"\nrefused = []\n[[section.row]]\n{row}')


def test_a_served_function_is_not_among_the_refused() -> None:
    with pytest.raises(ValueError, match="not refused: ABS"):
        sections('[[section]]\nregion = "x"\nrefused = ["ABS"]\nrow = []')


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
