"""A job with keyed states is tried, promoted and rolled back: the other job continues with copies of them."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from typer.testing import CliRunner

from penstock import changelog
from penstock.cli.app import app
from penstock.cli.verify import DIFFERS, PROVEN
from penstock.devbroker import DevCluster
from penstock.errors import StateError
from tests import judge
from tests.fix_broker import MakeTopic
from tests.kafka.promote_job import AFTER, BEFORE, STATE_COPIED, STATE_PUBLISHED, killed_at
from tests.spark.test_exactly_once import open_transactions
from tests.spark.test_shadow import Job

KEYS, GROUPS = 7, 3


def group_of(value: int, *, is_changed: bool) -> int:
    """Return the group of a value: the changed code moves some."""
    return (value + 1 if is_changed and value % 10 == 4 else value) % GROUPS


class Counts(Job):
    """Counts the newest values of the keys by groups. Two operators keep a state; the rows are retracted."""

    state: str
    is_changed = False

    def rows(self, **options: str) -> DataFrame:
        value = F.col("value").cast("string").cast("int")
        moved = F.when(value % 10 == 4, value + 1).otherwise(value) if self.is_changed else value
        read = (
            super()
            .rows(**options)
            .select(
                F.col("key").cast("string").alias("k"),
                (moved % GROUPS).alias("g"),
                value.alias("at"),
                F.lit("+I").alias("row_kind"),
            )
        )
        newest = changelog.normalize(
            read, ["k"], order_by=["at"], state=self.state, name="newest", partitions=2
        )
        counts = changelog.aggregate(
            newest, ["g"], {"n": "count(*)", "last": "max(at)"}, state=self.state, name="counts", partitions=2
        )
        return counts.select(
            F.col("g").cast("string").alias("key"), F.concat_ws(":", "row_kind", "n", "last").alias("value")
        )

    def start(self, checkpoint: str, state: str, *, is_changed: bool = False) -> None:
        """Run it until all is read."""
        self.state, self.is_changed = state, is_changed
        self.run(checkpoint)

    def table(self, topic: str) -> dict[int, tuple[int, int]]:
        """Return the table that the changes in a topic make. Each retracts the row that was there."""
        rows: dict[int, tuple[int, int]] = {}
        for record in judge.consume_all(self.servers, topic):
            kind, count, last = (record.value or b"").decode().split(":")
            group, row = int(record.key or b""), (int(count), int(last))
            if kind in ("-U", "-D"):
                assert rows.pop(group) == row, f"{kind} of a row that was not there"
            else:
                assert group not in rows, f"{kind} without -U"
                rows[group] = row
        return rows


def truth(count: int, changed: set[int]) -> dict[int, tuple[int, int]]:
    """Return the table after so many records, some of which the changed code has read."""
    newest = {value % KEYS: value for value in range(count)}
    groups = [(group_of(value, is_changed=value in changed), value) for value in newest.values()]
    counts = Counter(group for group, _ in groups)
    return {group: (counts[group], max(at for one, at in groups if one == group)) for group in counts}


@pytest.fixture
def job(spark: SparkSession, broker: DevCluster, make_topic: MakeTopic, tmp_path: Path) -> Counts:
    """A job that has done four batches, 40 records."""
    made = Counts(spark, broker, make_topic, tmp_path, partitions=1)
    for number in range(4):
        made.fill(number * 10, number * 10 + 10)
        made.start(made.live, str(tmp_path / "state"))
    return made


@pytest.mark.promise
def test_a_shadow_continues_with_a_copy_of_the_state(job: Counts, tmp_path: Path) -> None:
    states = ["--state", str(tmp_path / "state"), "--new-state"]
    folder, copied = job.shadow("same", *states, str(tmp_path / "copied")), str(tmp_path / "copied")
    job.start(folder, copied)
    code, found = job.compare(folder)
    (group,) = found["groups"]
    assert (code, group["outcome"], group["live"]["batches"]) == (PROVEN, "equal", [3, 3])
    assert group["live"]["record_count"] >= 2, "rows of groups that were there before are retracted"
    job.fill(40, 50)
    job.start(job.live, str(tmp_path / "state"))
    job.start(folder, copied)
    code, found = job.compare(folder)
    assert (code, len(found["groups"])) == (PROVEN, 2)
    assert job.table(job.target) == truth(50, set()), "the running job is not disturbed"

    folder = job.shadow("changed", *states, str(tmp_path / "copied-2"))
    job.start(folder, str(tmp_path / "copied-2"), is_changed=True)
    code, found = job.compare(folder)
    assert (code, found["groups"][0]["live"]["batches"]) == (DIFFERS, [4, 4])


def test_a_job_never_begins_with_an_empty_or_another_state(job: Counts, tmp_path: Path) -> None:
    """Without --state the shadow has none, and with the live one it would write there."""
    folder, before = job.shadow("shadow", "--from-batch", "3"), sorted((tmp_path / "state").rglob("*.arrow"))
    with pytest.raises(StreamingQueryException, match=r"There is no state in .*, but the checkpoint is at"):
        job.start(folder, str(tmp_path / "empty"))
    with pytest.raises(StreamingQueryException, match="does not belong to this query: the query id"):
        job.start(folder, str(tmp_path / "state"))
    assert job.seen(job.beside) == []
    assert sorted((tmp_path / "state").rglob("*.arrow")) == before
    states = ["--state", str(tmp_path / "state"), "--new-state", str(tmp_path / "copied")]
    folder = job.shadow("with", *states)
    job.state = str(tmp_path / "copied")
    with pytest.raises(StateError, match=r"the arguments|the columns"):
        changelog.aggregate(
            job.rows(), ["key"], {"n": "count(*)"}, state=job.state, name="counts", partitions=2
        )
    job.fill(40, 50)
    job.start(job.live, str(tmp_path / "state"))
    assert job.table(job.target) == truth(50, set())
    command = ["shadow", "create", "--prefix", job.options["sink.transactional-id-prefix"], *states[:3]]
    places = ["--live-checkpoint", job.live, "--topic", job.beside, "-b", job.servers]
    for more, why in (
        ([str(tmp_path / "copied")], "or a job has used it"),
        ([str(tmp_path / "new"), "--from-batch", "0"], "before which .* and the state are still there"),
        ([str(tmp_path / "new"), "--from-batch", "3"], "Expected one batch for a job with a state"),
    ):
        shadow = ["--shadow-checkpoint", str(tmp_path / "refused")]
        result = CliRunner().invoke(app, [*command, *more, *places, *shadow])
        assert result.exit_code != 0
        with pytest.raises(Exception, match=why):
            raise result.exception or AssertionError(result.output)
    assert not (tmp_path / "new").exists()
    assert not (tmp_path / "refused").exists()


def test_promote_and_rollback_with_a_state_killed_at_each_step(
    job: Counts, broker: DevCluster, tmp_path: Path
) -> None:
    prefix, changed = job.options["sink.transactional-id-prefix"], set[int]()
    count = read = 40
    folders = {name: (str(tmp_path / name), str(tmp_path / f"state-{name}")) for name in ("new", "back")}
    folders["live"] = job.live, str(tmp_path / "state")
    (tmp_path / "kept").mkdir()

    def fill() -> None:
        nonlocal count
        job.fill(count, count + 10)
        count += 10

    def run(name: str, *, is_changed: bool) -> None:
        nonlocal read
        fill()
        job.start(*folders[name], is_changed=is_changed)
        changed.update(range(read, count) if is_changed else ())
        read = count

    for command, running, heir, is_changed in (
        ("promote", "live", "new", False),
        ("rollback", "new", "back", True),
    ):
        run(running, is_changed=is_changed)
        states = folders[running][1], folders[heir][1]
        place = job.servers, prefix, folders[running][0], folders[heir][0], command, *states
        for step in (*BEFORE, STATE_COPIED):
            killed_at(step, *place)
            run(running, is_changed=is_changed)
        fill()
        for step in (AFTER[0], STATE_PUBLISHED, *AFTER[1:]):
            killed_at(step, *place)
            with pytest.raises(StreamingQueryException, match="QueryEndedError"):
                job.start(*folders[running], is_changed=is_changed)
        places = ["--prefix", prefix, "--checkpoint", folders[running][0], "--to", folders[heir][0], "--yes"]
        if command == "rollback":  # the copy is gone, and is made again from the state that stopped
            shutil.move(folders[heir][1], tmp_path / "kept")
        shown = job.command([command, *places, "--state", states[0], "--new-state", states[1]])
        assert f"state = {states[1]}" in shown
        with pytest.raises(StreamingQueryException, match=r"does not belong to this query|There is no state"):
            job.start(folders[heir][0], folders["live"][1], is_changed=not is_changed)
        for _ in range(2):
            run(heir, is_changed=not is_changed)
    fill()
    for name, is_changed in (("live", False), ("new", True)):
        with pytest.raises(StreamingQueryException, match="QueryEndedError"):
            job.start(*folders[name], is_changed=is_changed)
    run("back", is_changed=False)
    assert job.table(job.target) == truth(count, changed)
    assert open_transactions(broker, f"{prefix}-") == []
