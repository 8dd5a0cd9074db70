"""The docs cure each error, and name the test that walks each guide."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

from tests.errors_page import classes
from tests.jars import NEWEST, SPARKS_CONNECTORS
from tests.package import guides
from tests.site.menu import entries

TESTS = Path(__file__).parents[1]
DOCS = TESTS.parent / "docs"
TROUBLES = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
HEADING = "| guide | test that walks it |"
WITHOUT_A_ROW = {
    "tuning.md": "it has settings and what they save, and no steps. `make bench` measures",
    "troubleshooting.md": "it has no steps. The tests of this file hold that each error has a row",
    "upgrading.md": "no release came before this one. compat/test_resume.py resumes recorded checkpoints",
}
"""Pages of the menu's tutorials and how-to guides that no test walks, and why."""


def rows_of_troubles() -> list[list[str]]:
    """Return symptom, cause and cure of each row."""
    lines = [line for line in TROUBLES.splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.split(" | ")] for line in lines]
    return [[row[0].removeprefix("| "), *row[1:-1], row[-1].removesuffix(" |")] for row in rows]


def rows_of_guides() -> list[str]:
    page = (DOCS / "own-tests.md").read_text(encoding="utf-8")
    return page.partition(f"{HEADING}\n")[2].partition("\n\n")[0].splitlines()[1:]


def table_of_guides() -> list[tuple[str, str]]:
    """Return the guides, each with a test of its row as file and name. Some rows name only a file."""
    found, file = [], ""
    for row in rows_of_guides():
        for name in re.findall(r"`([^`]+)`", row.rpartition(" | ")[2]):
            if name.endswith(".py"):
                file = name
            elif name.startswith("test_"):
                found.append((file, name))
    return found


@pytest.mark.parametrize("name", [each.__name__ for each in classes() if not each.__subclasses__()])
def test_each_error_has_a_symptom_a_cause_and_a_cure(name: str) -> None:
    rows = [row for row in rows_of_troubles() if f"`{name}`" in row[0]]
    assert rows
    assert [row for row in rows if len(row) != 3 or not all(row)] == []


def test_each_group_of_errors_is_named() -> None:
    assert [each.__name__ for each in classes() if f"`{each.__name__}`" not in TROUBLES] == []


@pytest.mark.parametrize(
    "words",
    [
        "`log.flush.*`",
        "`UnknownTopicOrPartitionError`",
        "a leader moves",
        "`ProducerFencedError`",
        "`InstanceAlreadyExistsException`",
        "`org.apache.flink.kafka.shaded...`",
        "`sasl.kerberos.service.name`",
        "a valid ticket",
        "`transaction.timeout.ms` is above the maximum",
        "a transaction was open for longer than",
        "readers with `read_committed` wait",
        "see new records late",
        "a topic that was blocked after a crash",
        "its pool of producers is used up",
        "`SAFE_SCALE_DOWN_FACTOR`",
        "fails at the same record each time",
        "`advertised.listeners`",
        "another start position has no effect",
        "a new topic or topic partition is not read",
        "commits to the consumer group fail",
        "a topic partition is idle",
        "the ticket cache of `kinit`",
        "no executor has a free slot",
        "`setLogFailuresOnly(true)`",
        "`setFlushOnCheckpoint(false)`",
        "`key.fields-prefix`",
        "a producer with `retries` = 0",
    ],
)
def test_each_case_of_flinks_pages_has_a_row(words: str) -> None:
    assert [row for row in rows_of_troubles() if words in " | ".join(row)]


def test_each_row_has_three_cells() -> None:
    assert [row for row in rows_of_troubles() if len(row) != 3 or not all(row)] == []


def test_tests_that_walk_guides_are_there() -> None:
    named = table_of_guides()
    assert len(named) > 15
    assert [
        (file, name)
        for file, name in named
        if name
        not in {
            node.name
            for node in ast.parse((TESTS / file).read_text(encoding="utf-8")).body
            if isinstance(node, ast.FunctionDef)
        }
    ] == []


def test_each_tutorial_and_how_to_page_has_a_row_or_a_reason() -> None:
    pages = {each.path for each in entries() if each.part in ("Tutorials", "How-to")}
    assert len(pages) > 35
    cells = [row.partition(" | ")[0] for row in rows_of_guides()]
    with_row = {page for cell in cells for page in re.findall(r"\(([\w-]+\.md)[)#]", cell)}
    assert pages - with_row == set(WITHOUT_A_ROW)


@pytest.mark.parametrize("guide", guides.GUIDES, ids=lambda guide: str(guide.name))
def test_a_timed_guide_is_the_program_of_its_page(guide: guides.Guide, tmp_path: Path) -> None:
    assert "localhost:9092" in guide.program()
    if guide.language == "python":
        ast.parse(guide.program())
    lines = guides.script([guide], tmp_path, Path("penstock.whl"), "host=here")
    assert str(tmp_path) in lines
    assert guides.DATABASE not in lines
    assert guides.SERVICE not in lines
    subprocess.run(["bash", "-n", "-c", lines], check=True)


def test_timed_guides_share_no_topic_and_no_folder() -> None:
    """One broker and one home serve all of them."""
    topics = [topic for each in guides.GUIDES for topic in each.topics]
    folders = [
        found for each in guides.GUIDES for found in set(re.findall(r'"(/tmp/[\w-]+)"', each.program()))
    ]
    assert len(set(topics)) == len(topics)
    assert len(set(folders)) == len(folders) > 0


def test_the_versions_of_the_guide_from_spark_are_those_of_the_tests() -> None:
    text = " ".join((DOCS / "from-spark.md").read_text(encoding="utf-8").split())
    [versions] = re.findall(r"Our tests run PySpark ([\d.]+) with the connector ([\d.]+\d)", text)
    [pyspark] = re.findall(
        r"^pyspark==(\S+)", (DOCS.parent / "requirements-dev.lock").read_text(), re.MULTILINE
    )
    assert versions == (pyspark, SPARKS_CONNECTORS[NEWEST])
