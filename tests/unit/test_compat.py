"""What each release has left behind is read by this version, and this version leaves the same forms behind.

tests/compat has what the releases recorded. Checkpoints and states are resumed there, with real Spark.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import shutil
from pathlib import Path
from typing import Any

import pytest

from penstock.cdc.journal import Journal
from penstock.changelog import operators
from penstock.state.identity import Identity, parse_identity
from tests.compat import histories, journals, notes, states, tables, texts
from tests.compat.releases import HERE, HOW, NEWEST, RELEASES, layout, recorded, unpack

TABLES = [(release, name) for release in RELEASES for name in tables.TABLES]


@pytest.mark.parametrize("release", RELEASES)
def test_the_texts_of_a_release_mean_what_they_meant(release: str) -> None:
    values: dict[str, Any] = {
        f"offset: {name}": each for name, each in (texts.OFFSETS | texts.MADE_OFFSETS).items()
    }
    values |= {f"log: {name}": each for name, each in texts.DECISIONS.items()}
    values |= texts.read(texts.made())
    found = texts.read(recorded(release, "texts.json"))
    assert found == {name: values[name] for name in found}


def test_the_texts_of_now_are_those_of_the_newest_release() -> None:
    assert texts.made() == recorded(NEWEST, "texts.json"), HOW.format(NEWEST)


@pytest.mark.parametrize(("release", "name"), TABLES)
def test_a_table_of_a_release_knows_its_last_batch_and_goes_on(
    tmp_path: Path, release: str, name: str
) -> None:
    folder, table = tmp_path / name, opened(name)
    shutil.copytree(HERE / release / "tables" / name, folder)
    target = table.open(folder)
    assert not target.apply(tables.batch_of(tables.RECORDED - 1)), "its last batch was applied twice"
    assert target.apply(tables.batch_of(tables.RECORDED))
    assert table.rows(folder) == tables.ROWS


@pytest.mark.parametrize("name", tables.TABLES)
def test_a_table_of_now_has_the_files_of_the_newest_release(tmp_path: Path, name: str) -> None:
    target = opened(name).open(tmp_path / name)
    for number in range(tables.RECORDED):
        target.apply(tables.batch_of(number))
    assert form(tmp_path / name, name) == form(HERE / NEWEST / "tables" / name, name), HOW.format(NEWEST)


@pytest.mark.parametrize("release", RELEASES)
def test_the_journal_of_replicate_is_continued(tmp_path: Path, release: str) -> None:
    if not (HERE / release / "journal").exists():
        pytest.skip("this release has no replicate")
    shutil.copytree(HERE / release / "journal", tmp_path / "journal")
    journal = Journal(str(tmp_path / "journal"))
    before = journal.before(journals.QUERY, len(journals.BATCHES))
    assert before == journals.BATCHES[-1]
    rests = {topic: one.columns.rest for topic, one in before.tables.items()}
    assert rests == {"goods": None, "prices": journals.REST}
    journal.decide(len(journals.BATCHES), journals.BATCHES[-1])


def test_the_journal_of_now_is_that_of_the_newest_release(tmp_path: Path) -> None:
    journals.write(tmp_path)
    found, expected = (
        {str(each.relative_to(root)): json.loads(each.read_text()) for each in root.rglob("*.json")}
        for root in (tmp_path, HERE / NEWEST / "journal")
    )
    assert found == expected, HOW.format(NEWEST)


@pytest.mark.parametrize("release", RELEASES)
def test_the_state_of_each_operator_is_continued(tmp_path: Path, release: str) -> None:
    folder, expected = unpack(release, "states.zip", tmp_path), recorded(release, "states.json")
    found = {name: states.run(states.KEPT[name], folder / name, states.RECORDED) for name in expected}
    assert json.loads(json.dumps(found, default=str)) == expected


def test_each_operator_with_a_state_has_one_that_was_recorded() -> None:
    modules = [
        importlib.import_module(each.name)
        for each in pkgutil.walk_packages(operators.__path__, "penstock.changelog.operators.")
    ]
    classes = [each for module in modules for each in vars(module).values() if isinstance(each, type)]
    names = {name for each in classes if isinstance(name := vars(each).get("name"), str)}
    assert len(names) > 5
    assert names == {kept.operator.name for kept in states.KEPT.values()}


def test_a_state_of_now_has_the_files_of_the_newest_release(tmp_path: Path) -> None:
    old, changed = unpack(NEWEST, "states.zip", tmp_path / "old"), []
    for name, kept in states.KEPT.items():
        for number in range(states.RECORDED):
            states.run(kept, tmp_path / "new" / name, number)
        if layout(tmp_path / "new" / name) != layout(old / name) or identity(
            tmp_path / "new", name
        ) != identity(old, name):
            changed.append(name)
    assert not changed, HOW.format(NEWEST)


@pytest.mark.parametrize("release", RELEASES)
def test_a_history_of_a_release_knows_its_last_batch_and_goes_on(tmp_path: Path, release: str) -> None:
    folder = tmp_path / "histories"
    shutil.copytree(HERE / release / "histories", folder)
    for target in histories.opened(folder):
        assert not target.apply(histories.batch_of(histories.RECORDED - 1)), (
            "its last batch was applied twice"
        )
        assert target.apply(histories.batch_of(histories.RECORDED))
    assert histories.versions(folder) == histories.VERSIONS
    assert histories.changes(folder) == histories.true_changes()


def test_a_history_of_now_is_that_of_the_newest_release(tmp_path: Path) -> None:
    for target in histories.opened(tmp_path):
        for number in range(histories.RECORDED):
            target.apply(histories.batch_of(number))
    assert histories.marker_of(tmp_path) == histories.marker_of(HERE / NEWEST / "histories"), HOW.format(
        NEWEST
    )
    assert histories.versions(tmp_path) == histories.versions(HERE / NEWEST / "histories")
    assert histories.changes(tmp_path) == histories.changes(HERE / NEWEST / "histories")


def identity(folder: Path, name: str) -> Identity:
    """Return what a state says it belongs to."""
    return parse_identity((folder / name / "state.json").read_bytes(), name)


@pytest.mark.parametrize("release", RELEASES)
def test_the_note_of_a_query_is_that_of_the_same_query(tmp_path: Path, release: str) -> None:
    assert notes.is_same_query(tmp_path, recorded(release, "texts.json")["query.json"])


def opened(name: str) -> tables.Table:
    if name == "delta":
        pytest.importorskip("deltalake")
    return tables.TABLES[name]


def form(folder: Path, name: str) -> list[Any]:
    """Return what a reader of a table depends on. The files of Delta are those of its own package."""
    if name == "sqlite":
        return tables.marker_of_sqlite(folder)
    return tables.marker_of_delta(folder) if name == "delta" else layout(folder)
