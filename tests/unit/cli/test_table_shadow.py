"""A shadow of a table repeats batches of the running job, and `penstock table compare` names what differs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from penstock.cli._table_hand_over import Wanted, hand_over
from penstock.cli._table_shadow import Side, compare, create
from penstock.cli.app import app
from penstock.cli.verify import DIFFERS, NOT_ALL_PROVABLE, PROVEN, USAGE
from penstock.errors import CheckpointError, MaterializeError, OptionError, TableOrderError
from penstock.targets import DeltaTable, IcebergTable
from penstock.targets.batch import Batch, LastRows
from penstock.targets.change import ColumnChange
from penstock.targets.kept import kept
from tests.unit.cli.table_job import SOURCE, Job, new_code, old_code, true_rows
from tests.unit.targets.changes import COLUMNS
from tests.unit.targets.test_taken import Stored, in_delta, in_iceberg, in_sqlite

LAKES = [in_delta, in_iceberg]
Made = Callable[[Path], Stored]


def beside(stored: Stored) -> Any:
    """Return a target beside another one, of the same kind."""
    target = stored.target
    if isinstance(target, DeltaTable):
        return DeltaTable(f"{target.uri}-shadow")
    assert isinstance(target, IcebergTable)
    return IcebergTable("shop.shadow", target.catalog, target.properties)


def sides(tmp_path: Path, stored: Stored) -> tuple[Side, Side]:
    live = Side(kept(stored.target), "t", str(tmp_path / "live"))
    return live, Side(kept(beside(stored)), "t-shadow", str(tmp_path / "shadow"))


@pytest.mark.parametrize("made", LAKES)
@pytest.mark.parametrize("code", [old_code, new_code])
def test_a_shadow_repeats_batches_and_rows_that_differ_are_named(
    tmp_path: Path, made: Made, code: Any
) -> None:
    stored = made(tmp_path)
    running = Job(stored.target, tmp_path / "live")
    running.run(14)
    live, shadow = sides(tmp_path, stored)
    made_of = create(live, shadow, 3, 5)
    assert made_of == (running.query_id, 3, 5)
    with pytest.raises(MaterializeError, match="is kept by query"):
        Job(stored.target, tmp_path / "shadow", code).run(12)
    running.run(20)
    changed = Job(beside(stored), tmp_path / "shadow", code)
    assert changed.run(12) == [(6, 12)], "its first batch repeats three batches"
    found = compare(live, shadow, None)
    assert found.batches == (5, 1)
    assert found.positions == ({SOURCE: 12},) * 2
    assert found.found is not None
    assert found.found.is_equal == (code is old_code)
    assert [(row.kind, row.key, row.columns) for row in found.found.rows] == (
        [] if code is old_code else [("changed", {"id": 3}, ("na%me",))]
    )
    changed.run(20)
    later = compare(live, shadow, ["id"])
    assert (later.batches, later.found is not None and later.found.is_equal) == ((9, 5), True)
    assert stored.rows() == true_rows((old_code, 0, 20)), "the table of the running job is as it was"


@pytest.mark.parametrize("made", LAKES)
def test_a_job_that_begins_with_an_empty_table_is_compared_too(tmp_path: Path, made: Made) -> None:
    """A changed job with a state begins at the start of the topic, with a new checkpoint and a new table."""
    stored = made(tmp_path)
    Job(stored.target, tmp_path / "live").run(7)
    (tmp_path / "live" / "state").mkdir()
    (tmp_path / "live" / "state" / "0").mkdir()
    Job(beside(stored), tmp_path / "shadow", new_code).run(7)
    live, shadow = sides(tmp_path, stored)
    found = compare(live, shadow, None)
    assert (found.batches, found.found is not None and found.found.rows[0].key) == ((3, 3), {"id": 3})
    with pytest.raises(CheckpointError, match="its query keeps a state"):
        create(live, shadow._replace(checkpoint=str(tmp_path / "another")), None, None)


@pytest.mark.parametrize("made", LAKES)
def test_what_has_not_ended_at_the_same_offsets_is_not_compared(tmp_path: Path, made: Made) -> None:
    stored = made(tmp_path)
    running = Job(stored.target, tmp_path / "live")
    running.run(6)
    live, shadow = sides(tmp_path, stored)
    assert create(live, shadow, None, None) == (running.query_id, 1, 2)
    found = compare(live, shadow, None)
    assert (found.batches, found.found) == (None, None), "the shadow has run no batch yet"
    assert found.positions == ({SOURCE: 6}, {})


@pytest.mark.parametrize("made", LAKES)
def test_what_is_refused(tmp_path: Path, made: Made) -> None:
    stored = made(tmp_path)
    running = Job(stored.target, tmp_path / "live")
    running.run(8)
    live, shadow = sides(tmp_path, stored)
    for first, last in ((0, 2), (4, 4), (3, 2), (2, 4)):
        with pytest.raises(OptionError, match=r"\(1, 2, 3\), and --to-batch from there to 3"):
            create(live, shadow, first, last)
    assert not (tmp_path / "shadow").exists()
    create(live, shadow, None, None)
    with pytest.raises(OptionError, match="Expected a new folder for --shadow-checkpoint"):
        create(live, shadow, None, None)
    again = shadow._replace(checkpoint=str(tmp_path / "again"))
    with pytest.raises(OptionError, match="Expected a new table for the shadow"):
        create(live, again, None, None)
    assert not (tmp_path / "again").exists()
    with pytest.raises(OptionError, match="is kept by query"):
        compare(live, shadow._replace(checkpoint=live.checkpoint), None)
    with pytest.raises(OptionError, match="is kept by query"):
        create(live._replace(table=shadow.table), again, None, None)


@pytest.mark.parametrize("made", LAKES)
def test_a_shadow_begins_before_a_column_was_added(tmp_path: Path, made: Made) -> None:
    """The copy has the columns of its version, and not those that the table has now."""
    stored = made(tmp_path)
    running = Job(stored.target, tmp_path / "live")
    running.run(8)
    wider = pa.schema([*COLUMNS, pa.field("more", pa.string())])
    row = {"id": 1, "na%me": "x", "more": "y", "row_kind": "+U"}
    running.run(10, is_cut_off=True)
    found = LastRows(("id",), wider).last_rows(pa.Table.from_pylist([row]))
    change = ColumnChange(added=(wider.field("more"),))
    live, shadow = sides(tmp_path, stored)
    stored.target.apply(Batch(running.query_id, 5, ("id",), found, change))
    (running.folder / "commits" / "4").write_text("v1\n{}")
    (running.folder / "offsets" / "5").write_text((running.folder / "offsets" / "4").read_text())
    create(live, shadow, 1, 3)
    Job(beside(stored), tmp_path / "shadow", new_code).run(8)
    compared = compare(live, shadow, None)
    assert compared.batches == (3, 1)
    assert compared.found is not None
    assert compared.found.not_compared == ()
    assert [each.key for each in compared.found.rows] == [{"id": 3}]
    rows = live.table.rows(5)
    assert row["more"] in pa.Table.from_batches(rows.read(), rows.schema)["more"].to_pylist()


@pytest.mark.parametrize("made", LAKES)
def test_a_table_that_is_handed_over_meanwhile_gets_no_shadow(tmp_path: Path, made: Made) -> None:
    """The batches of the other query have other numbers: its batch 0 has the rows after batch 3."""
    stored = made(tmp_path)
    Job(stored.target, tmp_path / "live").run(8)
    live, shadow = sides(tmp_path, stored)

    class HandedOver:
        def __getattr__(self, name: str) -> Any:
            return getattr(live.table, name)

        def batches(self) -> Any:
            wanted = Wanted("t", live.checkpoint, str(tmp_path / "to"))
            hand_over(live.table, wanted, is_sure=True)
            return live.table.batches()

    with pytest.raises(TableOrderError, match=r"was handed over to query .* while its shadow was made"):
        create(live._replace(table=HandedOver()), shadow, 1, 3)
    assert not (tmp_path / "shadow").exists()


def test_a_table_of_a_database_has_no_shadow(tmp_path: Path) -> None:
    stored = in_sqlite(tmp_path)
    Job(stored.target, tmp_path / "live").run(6)
    side = Side(kept(stored.target), "t", str(tmp_path / "live"))
    for work in (
        lambda: create(side, side._replace(checkpoint=str(tmp_path / "shadow")), None, None),
        lambda: compare(side, side, None),
    ):
        with pytest.raises(MaterializeError, match="is in a database, which keeps no older versions"):
            work()


def test_what_the_commands_say(tmp_path: Path) -> None:
    stored = in_delta(tmp_path)
    Job(stored.target, tmp_path / "live").run(8)
    tables = [stored.target.uri, f"{stored.target.uri}-shadow", "--delta"]
    checkpoints = [
        "--live-checkpoint",
        str(tmp_path / "live"),
        "--shadow-checkpoint",
        str(tmp_path / "shadow"),
    ]
    runner = CliRunner()
    made = runner.invoke(app, ["table", "shadow", *tables, *checkpoints])
    assert "repeats the batches 1 to 3." in made.output, made.output
    command = ["table", "compare", *tables, *checkpoints]
    early = runner.invoke(app, command)
    assert early.exit_code == NOT_ALL_PROVABLE
    assert "The newest batch of the running job has ended at source-0 8." in early.output
    Job(beside(stored), tmp_path / "shadow", new_code).run(8)
    late = runner.invoke(app, command)
    assert late.exit_code == DIFFERS
    assert "The row with id = 3 differs in na%me." in late.output
    shown = json.loads(runner.invoke(app, [*command, "--json"]).stdout)
    assert (shown["outcome"], shown["batches"]) == ("differs", {"live": 3, "shadow": 1})
    times = {"live": 1, "shadow": 1}
    assert shown["rows"] == [{"kind": "changed", "key": {"id": "3"}, "columns": ["na%me"], "times": times}]
    assert runner.invoke(app, [*command, "--columns", "id"]).exit_code == PROVEN
    assert runner.invoke(app, [*command, "--columns", "none"]).exit_code == USAGE
