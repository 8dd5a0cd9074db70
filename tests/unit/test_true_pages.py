"""A page never says that something is missing which is served.

The pages say in several forms that something is missing: "not yet", a section "What is not there yet", and
the cells "no" and "refused" of a table. `FEATURES` has the words of a feature, and a probe that tries it. If
a page calls a feature missing and its probe says that it is served, the test fails. A "yet" without a
probe fails too, unless it is in `OF_TIME`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from penstock.errors import SqlError
from penstock.observe.serve.sinks import sink_metrics
from penstock.observe.sink_reports import SinkState
from penstock.sql.language.parse import parse_script
from penstock.sql.run.settings import Settings
from tests.unit.sql.planning import refused

ROOT = Path(__file__).parents[2]
MADE_OF_DOCSTRINGS = ROOT / "docs" / "api"
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent != MADE_OF_DOCSTRINGS),
]
TABLES = {"README.md": "penstock 0.1", "from-flink.md": "penstock 0.1", "sql.md": "in a stream"}
"""Pages with a table about features, and the heading of the column that is about penstock."""

SCRIPT = """
CREATE TABLE t (i INT) WITH ('connector' = 'kafka', 'topic' = 't', 'format' = 'json');
INSERT INTO t SELECT i FROM t;
"""
RANKED = (
    "SELECT i, s FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY s ORDER BY ltz DESC) AS n FROM t) WHERE n {}"
)
OVER = "SELECT {} OVER (PARTITION BY s ORDER BY ltz) FROM t"


def is_streamed(query: str) -> bool:
    """Return whether a query over streams is served."""
    return refused(query) is None


def is_parsed(script: str) -> bool:
    try:
        return bool(parse_script(script))
    except SqlError:
        return False


def is_set(key: str, value: str) -> bool:
    try:
        Settings().set(key, value)
    except ValueError:
        return False
    return True


def has_sink_metrics() -> bool:
    """Return whether a sink has metrics."""
    return any(sink_metrics({"orders": SinkState("none")}))


def query(text: str) -> Callable[[], bool]:
    return partial(is_streamed, text)


def script(text: str) -> Callable[[], bool]:
    return partial(is_parsed, text)


@dataclass(frozen=True)
class Feature:
    """A feature: how pages write it, and how to find out whether it is served."""

    words: str
    is_served: Callable[[], bool]


FEATURES = (
    Feature(r"`?GROUP BY`? without a window", query("SELECT s, COUNT(*) FROM t GROUP BY s")),
    Feature(r"SQL over tables that change", query("SELECT i, COUNT(*) FROM c GROUP BY i")),
    Feature(r"Top-N", query(RANKED.format("<= 2"))),
    Feature(r"[Dd]eduplication", query(RANKED.format("= 1"))),
    Feature(
        r"[Tt]emporal joins?|FOR SYSTEM_TIME",
        query("SELECT t.i FROM t JOIN c FOR SYSTEM_TIME AS OF t.ltz AS r ON t.i = r.i"),
    ),
    Feature(r"(?:[Oo]uter|[Ll]eft|[Ff]ull) joins?", query("SELECT t.i FROM t LEFT JOIN c ON t.i = c.i")),
    Feature(r"[Ii]nterval joins?", query("SELECT t.i FROM t JOIN t AS v ON t.i = v.i AND t.ltz > v.ltz")),
    Feature(r"SQL scripts", script(SCRIPT)),
    Feature(r"`?RANK\b", query(OVER.format("RANK()"))),
    Feature(r"DENSE_RANK", query(OVER.format("DENSE_RANK()"))),
    Feature(r"`LAG\b", query(OVER.format("LAG(i)"))),
    Feature(r"`LEAD\b", query(OVER.format("LEAD(i)"))),
    Feature(r"NTILE", query(OVER.format("NTILE(2)"))),
    Feature(r"STDDEV|deviations", query("SELECT s, STDDEV_POP(d) FROM t GROUP BY s")),
    Feature(r"MATCH_RECOGNIZE", query("SELECT * FROM t MATCH_RECOGNIZE (PATTERN (A) DEFINE A AS i > 1)")),
    Feature(r"TABLESAMPLE", query("SELECT i FROM t TABLESAMPLE SYSTEM (10)")),
    Feature(r"INTERSECT", query("SELECT i FROM t INTERSECT SELECT i FROM c")),
    Feature(r"UNNEST", query("SELECT x FROM t CROSS JOIN UNNEST(a) AS v (x)")),
    Feature(r"QUALIFY", query("SELECT i FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY s ORDER BY ltz) = 1")),
    Feature(
        r"processing time",
        query(
            "SELECT TUMBLE_PROCTIME(ltz, INTERVAL '1' HOUR) FROM t GROUP BY TUMBLE(ltz, INTERVAL '1' HOUR)"
        ),
    ),
    Feature(r"UUID", query("SELECT UUID() FROM t")),
    Feature(r"`TIME`", query("SELECT CAST(s AS TIME) FROM t")),
    Feature(r"`MULTISET`", query("SELECT s, COLLECT(i) FROM t GROUP BY s")),
    Feature(r"VARIANT", query("SELECT CAST(s AS VARIANT) FROM t")),
    Feature(r"`UPDATE`", script("UPDATE t SET i = 1")),
    Feature(r"`DELETE`", script("DELETE FROM t")),
    Feature(r"Java functions", script("CREATE FUNCTION f AS 'shop.Upper' LANGUAGE JAVA")),
    Feature(r"[Mm]odels", script("CREATE MODEL m WITH ('provider' = 'openai')")),
    Feature(r"materialized tables", script("CREATE MATERIALIZED TABLE m AS SELECT i FROM t")),
    Feature(r"execution\.savepoint\.path", partial(is_set, "execution.savepoint.path", "/savepoints")),
    Feature(r"restart-strategy", partial(is_set, "restart-strategy.type", "fixed-delay")),
    Feature(r"CREATE CATALOG", script("CREATE CATALOG c WITH ('type' = 'jdbc')")),
    Feature(r"ADD JAR|\bjars\b", script("ADD JAR 'a.jar'")),
    Feature(r"[Mm]etrics.*\bsink\b|\bsink\b.*[Mm]etrics", has_sink_metrics),
)

OF_TIME = (
    "rows that are not out yet",
    "is not yet removed from the files",
    "may not be visible yet",
    "this is not yet a correct changelog",
    "not ended yet",
    "none yet",
    "not read yet",
    "may not be sent yet",
    "has not run yet",
    "nothing was found yet",
    "The topic does not exist yet",
)
"""Sentences whose "yet" is about a moment of a query, and not about what penstock has."""


@dataclass(frozen=True)
class Denial:
    """A sentence that says that something is missing, or may say so."""

    text: str
    has_yet: bool


def denials(text: str, column: str | None) -> Iterator[Denial]:
    """Yield the sentences of a page that call something missing, and the rows of its table that do."""
    in_section = False
    for paragraph in re.split(r"\n(?=[-|#])|\n\n", text):
        words = " ".join(paragraph.split())
        if words.startswith("#"):
            in_section = re.search(r"\bnot there yet\b|\bWhat is missing\b", words) is not None
        elif words.startswith("|"):
            yield from _of_row(words, text, column)
        elif in_section or re.search(r"\byet\b", words):
            yield Denial(words, has_yet=True)


def _of_row(row: str, text: str, column: str | None) -> Iterator[Denial]:
    cells = [each.strip() for each in re.split(r"(?<!\\)\|", row)[1:-1]]
    index = _column_index(text, column)
    cell = cells[index] if index is not None and index < len(cells) else ""
    if re.search(r"\byet\b", row):
        yield Denial(row, has_yet=True)
    elif re.match(r"(?:no|refused)\b", cell):
        yield Denial(cells[0], has_yet=False)


def _column_index(text: str, column: str | None) -> int | None:
    heading = next((line for line in text.splitlines() if column and f"| {column} |" in line), None)
    return None if heading is None else [each.strip() for each in heading.split("|")[1:-1]].index(str(column))


def mistakes(text: str, column: str | None = None) -> list[str]:
    """Return what is wrong with the sentences of a page that call something missing."""
    found = []
    for denial in denials(text, column):
        if any(each in denial.text for each in OF_TIME):
            continue
        named = [each for each in FEATURES if re.search(each.words, denial.text)]
        if denial.has_yet and not named:
            found.append(f"no probe: {denial.text}")
        found += [f"{each.words} is served: {denial.text}" for each in named if each.is_served()]
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_calls_missing_is_not_served(page: Path) -> None:
    assert mistakes(page.read_text(), TABLES.get(page.name)) == []


MISSING = "## What is not there yet\n\n"
TABLE = "| Flink | penstock 0.1 |\n|---|---|\n"


@pytest.mark.parametrize(
    "text",
    [
        MISSING + "- **SQL over tables that change** in streams: `GROUP BY` without a window.",
        MISSING + "- Top-N, deduplication, temporal joins. They are refused, with what to do.",
        TABLE + "| SQL scripts with `CREATE TABLE ... WITH` | not yet; see [SQL](#sql) for what there is |",
        TABLE + "| metrics | of the source; of the sink not yet |",
        "The sink does not export metrics yet.",
        TABLE + "| `RANK`, `DENSE_RANK` | no |",
        TABLE + "| `STDDEV`, `VAR_POP` without a window | no |",
    ],
)
def test_a_false_denial_is_found(text: str) -> None:
    assert any("is served" in each for each in mistakes(text, "penstock 0.1"))


def test_a_denial_without_a_probe_is_found() -> None:
    assert mistakes("Records by carrier pigeon are not there yet.") == [
        "no probe: Records by carrier pigeon are not there yet."
    ]


@pytest.mark.parametrize("text", [TABLE + "| `LEAD` | no |", "`MATCH_RECOGNIZE` is not there yet."])
def test_a_true_denial_is_fine(text: str) -> None:
    assert mistakes(text, "penstock 0.1") == []


def test_each_sentence_about_time_stands_in_a_page() -> None:
    texts = " ".join(" ".join(page.read_text().split()) for page in PAGES)
    assert [each for each in OF_TIME if each not in texts] == []


def test_each_probe_could_answer_both_ways() -> None:
    assert {each.is_served() for each in FEATURES} == {True, False}
