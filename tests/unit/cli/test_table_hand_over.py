"""`penstock table promote` and `rollback` die anywhere and run again: one job writes the table at a time."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from penstock.cli._table_hand_over import Wanted, hand_over
from penstock.cli.app import app
from penstock.errors import (
    CheckpointError,
    MaterializeError,
    OptionError,
    QueryEndedError,
    TableOrderError,
)
from penstock.targets import ChangeLogTable, DeltaTable
from penstock.targets.all_rows import AllChanges, AllRows
from penstock.targets.batch import Batch, LastRows
from penstock.targets.forget import forget
from penstock.targets.hand_over import HandOver, steps_of, text_of
from penstock.targets.kept import kept
from tests.deaths import Death
from tests.unit.cli.table_job import Job, new_code, old_code, true_rows
from tests.unit.targets.changes import batch
from tests.unit.targets.test_taken import Stored, in_delta, in_iceberg, in_sqlite

KINDS = [in_sqlite, in_delta, in_iceberg]
Made = Callable[[Path], Stored]
BEFORE = ["read"]
AFTER = ["handed over", "written metadata", "written offsets/0", "written commits/0", "renamed"]


def die_in(step: str) -> Callable[[str], None]:
    def reached(name: str) -> None:
        if name == step:
            raise Death

    return reached


def promoted(stored: Stored, running: Path, to: Path, **more: Any) -> Any:
    wanted = Wanted("t", str(running), str(to), is_rollback=more.pop("is_rollback", False))
    return hand_over(kept(stored.target), wanted, is_sure=more.pop("is_sure", True), **more)


@pytest.mark.parametrize("made", KINDS)
def test_promote_and_rollback_die_at_each_step(tmp_path: Path, made: Made) -> None:
    stored, end, read = made(tmp_path), 0, []
    running = Job(stored.target, tmp_path / "live")
    for number, (is_rollback, code) in enumerate([(False, new_code), (True, old_code)]):
        for step in BEFORE:
            end += 5
            read += [(running.code, *each) for each in running.run(end)]
            with pytest.raises(Death):
                promoted(
                    stored,
                    running.folder,
                    tmp_path / f"to {number}",
                    is_rollback=is_rollback,
                    reached=die_in(step),
                )
            end += 3
            read += [(running.code, *each) for each in running.run(end)]
        end += 4
        for step in AFTER:
            to = tmp_path / f"to {number}"
            with pytest.raises(Death):
                promoted(stored, running.folder, to, is_rollback=is_rollback, reached=die_in(step))
            with pytest.raises(QueryEndedError, match="has handed over"):
                running.run(end)
        assert promoted(stored, running.folder, to, is_rollback=is_rollback).was_done
        ended, running = running, Job(stored.target, to, code)
        read += [(code, *each) for each in running.run(end)]
        with pytest.raises(QueryEndedError):
            ended.run(end)
        assert stored.rows() == true_rows(*read)
    assert [start for _, start, _ in read] == [0, *(stop for _, _, stop in read[:-1])]
    assert {code for code, _, _ in read} == {old_code, new_code}


@pytest.mark.parametrize("made", KINDS)
def test_a_batch_that_was_applied_and_not_noted_by_spark_is_not_read_again(
    tmp_path: Path, made: Made
) -> None:
    stored = made(tmp_path)
    live = Job(stored.target, tmp_path / "live")
    read = [*live.run(4), *live.run(6, is_cut_off=True)]
    with pytest.raises(CheckpointError, match=r"has not finished it.* Start the old job once"):
        promoted(stored, live.folder, tmp_path / "to")
    assert live.run(6) == [(4, 6)], "it is repeated, and writes nothing"
    promoted(stored, live.folder, tmp_path / "to")
    read += Job(stored.target, tmp_path / "to").run(9)
    assert read == [(0, 2), (2, 4), (4, 6), (6, 8), (8, 9)]
    assert stored.rows() == true_rows((old_code, 0, 9))


@pytest.mark.parametrize("made", KINDS)
def test_a_batch_that_a_restored_checkpoint_has_planned_again_is_not_the_end(
    tmp_path: Path, made: Made
) -> None:
    """The heir would begin at the other end, and the records between would be lost."""
    stored = made(tmp_path)
    live = Job(stored.target, tmp_path / "live")
    live.run(5)
    (live.folder / "commits" / "2").unlink()
    (live.folder / "offsets" / "2").unlink()
    with pytest.raises(TableOrderError, match=r"was applied .* with other rows"):
        live.run(6)
    with pytest.raises(CheckpointError, match="do not fit together"):
        promoted(stored, live.folder, tmp_path / "to")
    assert stored.rows() == true_rows((old_code, 0, 5))


@pytest.mark.parametrize("made", KINDS)
def test_an_old_job_that_writes_meanwhile_keeps_the_table(tmp_path: Path, made: Made) -> None:
    stored = made(tmp_path)
    live = Job(stored.target, tmp_path / "live")
    live.run(4)
    with pytest.raises(TableOrderError, match=r"Another commit to .* run this command again"):
        promoted(
            stored, live.folder, tmp_path / "to", reached=lambda step: live.run(6) if step == "read" else None
        )
    live.run(8)
    assert promoted(stored, live.folder, tmp_path / "to").after == 3
    assert stored.rows() == true_rows((old_code, 0, 8))


@pytest.mark.parametrize("made", KINDS)
def test_the_old_job_does_not_take_an_empty_table_back(tmp_path: Path, made: Made) -> None:
    """A first batch that Spark repeats may take an empty table of another query, but not of its heir."""
    stored = made(tmp_path)
    live = Job(stored.target, tmp_path / "live", lambda offset: (offset, None, "-D"))
    live.run(2)
    promoted(stored, live.folder, tmp_path / "to")
    (live.folder / "commits" / "0").unlink()  # so it repeats its first batch
    with pytest.raises(QueryEndedError):
        live.run(2)
    assert stored.target.apply(batch(0, [(1, "a", "+I")], "a third query")), "any other query may take it"
    with pytest.raises(QueryEndedError):
        live.run(2)


def test_the_old_job_does_not_take_a_table_that_was_freed(tmp_path: Path) -> None:
    stored = in_sqlite(tmp_path)
    live = Job(stored.target, tmp_path / "live")
    live.run(2)
    promoted(stored, live.folder, tmp_path / "to")
    (live.folder / "commits" / "0").unlink()  # so it repeats its first batch
    forget(stored.target, is_wanted=True)
    with pytest.raises(QueryEndedError):
        live.run(2)
    assert stored.rows() == {}


def test_the_heir_finds_a_table_of_a_database_that_another_program_has_emptied(tmp_path: Path) -> None:
    stored = in_sqlite(tmp_path)
    live = Job(stored.target, tmp_path / "live")
    live.run(4)
    assert stored.empty is not None
    stored.empty()
    promoted(stored, live.folder, tmp_path / "to")
    with pytest.raises(MaterializeError, match="Another program has dropped or emptied it"):
        Job(stored.target, tmp_path / "to").run(6)


@pytest.mark.parametrize("made", KINDS)
def test_without_yes_nothing_is_changed(tmp_path: Path, made: Made) -> None:
    stored = made(tmp_path)
    live = Job(stored.target, tmp_path / "live")
    live.run(4)
    found = promoted(stored, live.folder, tmp_path / "to", is_sure=False)
    assert (found.after, found.heir, found.was_done) == (1, None, False)
    live.run(8)
    assert not (tmp_path / "to").exists()


def test_what_is_refused(tmp_path: Path) -> None:
    stored = in_sqlite(tmp_path)
    live, other = Job(stored.target, tmp_path / "live"), Job(in_delta(tmp_path).target, tmp_path / "other")
    with pytest.raises(CheckpointError, match="found no folder offsets"):
        promoted(stored, tmp_path / "none", tmp_path / "to")
    other.run(2)
    with pytest.raises(MaterializeError, match="No query keeps table t"):
        promoted(stored, other.folder, tmp_path / "to")
    live.run(6)
    for folder, to, match, more in (
        (other.folder, "to", "is kept by query .* and the checkpoint .* is that of query", {}),
        (live.folder, "other", "Expected a new folder for --to", {}),
        (live.folder, "to", "was not promoted", {"is_rollback": True}),
    ):
        with pytest.raises(OptionError, match=match):
            promoted(stored, folder, tmp_path / to, **more)
    one, two = tmp_path / "one", tmp_path / "two"
    promoted(stored, live.folder, one)
    with pytest.raises(OptionError, match=r"already, whose checkpoint is .*one, got --to .*two"):
        promoted(stored, live.folder, two)
    promoted(stored, one, two, is_rollback=True)
    with pytest.raises(OptionError, match=r"does not have it any more.* whose checkpoint is .*two"):
        promoted(stored, live.folder, one)


def test_table_and_checkpoint_of_different_times_are_refused(tmp_path: Path) -> None:
    stored = in_sqlite(tmp_path)
    live = Job(stored.target, tmp_path / "live")
    live.run(6)
    newest = live.folder / "offsets" / "2"
    kept_text = newest.read_text()
    newest.unlink()
    with pytest.raises(CheckpointError, match="are of different times"):
        promoted(stored, live.folder, tmp_path / "to")
    newest.write_text(kept_text)
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.execute("UPDATE penstock_batches SET batch_id = 1")
        connection.commit()
    with pytest.raises(CheckpointError, match=r"last batch of table t is 1, .* finished batch 2"):
        promoted(stored, live.folder, tmp_path / "to")


@pytest.mark.parametrize("made", KINDS)
def test_the_folder_of_the_heir_is_not_made_again_after_it_has_written(tmp_path: Path, made: Made) -> None:
    stored, to = made(tmp_path), tmp_path / "to"
    live = Job(stored.target, tmp_path / "live")
    live.run(4)
    promoted(stored, live.folder, to)
    Job(stored.target, to).run(6)
    to.rename(tmp_path / "moved")
    with pytest.raises(CheckpointError, match="does not exist, and the query has written batches since"):
        promoted(stored, live.folder, to)
    to.mkdir()
    with pytest.raises(CheckpointError, match="of another query"):
        promoted(stored, live.folder, to)


@pytest.mark.parametrize("made", KINDS)
def test_a_log_of_changes_is_not_handed_over(tmp_path: Path, made: Made) -> None:
    stored = made(tmp_path)
    log = ChangeLogTable(stored.target)
    columns = pa.schema([("id", pa.int64()), ("name", pa.string())])
    rows = pa.Table.from_pylist(
        [{"id": 1, "name": "a", "row_kind": "+I"}], schema=columns.append(pa.field("row_kind", pa.string()))
    )
    live = Job(_Log(log, columns, rows), tmp_path / "live")
    live.run(2)
    with pytest.raises(MaterializeError, match="is a log of changes"):
        promoted(stored, live.folder, tmp_path / "to")


class _Log:
    """A target that gives each batch as all changes to a log."""

    def __init__(self, log: ChangeLogTable, columns: pa.Schema, rows: pa.Table) -> None:
        self._log, self._rows = log, AllRows(("id",), columns)
        self._columns, self._changes = columns, rows

    def apply(self, given: Batch) -> bool:
        (found,) = self._rows.run(self._changes.to_batches())
        return self._log.apply(
            AllChanges(given.query_id, given.batch_id, ("id",), pa.Table.from_batches([found]))
        )


def test_a_delta_table_with_features_is_not_handed_over(tmp_path: Path) -> None:
    pytest.importorskip("deltalake")
    columns = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us"))])
    table = DeltaTable(str(tmp_path / "t"))
    stored = Stored(table, dict, dict)

    class Timed:
        def apply(self, given: Batch) -> bool:
            rows = LastRows(("id",), columns).schema.empty_table()
            return table.apply(Batch(given.query_id, given.batch_id, ("id",), rows))

    live = Job(Timed(), tmp_path / "live")
    live.run(2)
    with pytest.raises(MaterializeError, match=r"table features .*timestampNtz"):
        promoted(stored, live.folder, tmp_path / "to")
    live.run(4)


def test_a_property_that_cannot_be_read_stops_every_query() -> None:
    step = HandOver("old", 3, "heir", "/checkpoints/to")
    assert steps_of({"penstock.handed-over": text_of([step])}, "the table") == (step,)
    for text, match in (("{", "Cannot read"), ('{"version": 2}', "has version 2, while this version")):
        with pytest.raises(MaterializeError, match=match):
            steps_of({"penstock.handed-over": text}, "the table")


@pytest.mark.parametrize("command", ["promote", "rollback"])
def test_what_the_command_says(tmp_path: Path, command: str) -> None:
    stored = in_sqlite(tmp_path)
    live = Job(stored.target, tmp_path / "live")
    live.run(4)
    if command == "rollback":
        promoted(stored, live.folder, tmp_path / "first")
        live = Job(stored.target, tmp_path / "first")
        live.run(6)
    place = [
        "--sqlite",
        str(tmp_path / "shop.db"),
        "--checkpoint",
        str(live.folder),
        "--to",
        str(tmp_path / "to"),
    ]
    runner = CliRunner()
    looked = runner.invoke(app, ["table", command, "t", *place])
    assert "Would hand table t over from query" in looked.output
    assert "Nothing was changed. If the job has stopped and keeps no state" in looked.output
    without = runner.invoke(app, ["table", command, "t", *place, "--yes"])
    assert isinstance(without.exception, OptionError)
    assert "Expected --state and --new-state, or --no-state, with --yes" in str(without.exception)
    assert not (tmp_path / "to").exists()
    done = runner.invoke(app, ["table", command, "t", *place, "--yes", "--no-state"])
    assert "Start the" in done.output, done.output
    again = runner.invoke(app, ["table", command, "t", *place])
    assert "has handed over table t before." in again.output
    wrong = runner.invoke(app, ["table", command, "t", *place, "--delta"])
    assert isinstance(wrong.exception, OptionError)
