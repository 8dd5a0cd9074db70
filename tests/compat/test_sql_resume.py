"""An SQL job of an earlier release goes on: its checkpoints, states, decisions and queries are read.

The job is in sql_job.py. One query has died after the second batch was decided. So Spark repeats that batch,
and nothing of it may be written again. The last batch has to write what it wrote in that release.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests import judge
from tests.compat import sql_job
from tests.compat.record_sql import CHECKPOINTS, DECISIONS, EXPECTED, TOPIC_IDS
from tests.compat.releases import NEWEST, RELEASES, recorded, unpack


@pytest.fixture
def servers(bootstrap: str) -> Iterator[str]:
    """The address of a broker with the topics of the job."""
    sql_job.create_topics(bootstrap)
    yield bootstrap
    sql_job.delete_topics(bootstrap)


@pytest.mark.parametrize("release", RELEASES)
def test_a_recorded_job_goes_on(spark: SparkSession, servers: str, tmp_path: Path, release: str) -> None:
    for part in sql_job.PARTS[:-1]:
        sql_job.produce(servers, part)
    checkpoints = restored(release, servers, tmp_path)
    sql_job.produce(servers, sql_job.PARTS[-1])
    sql_job.run(spark, servers, checkpoints)
    assert sql_job.written(servers) == recorded(release, f"sql/{EXPECTED}")
    before = unpack(release, f"sql/{CHECKPOINTS}", tmp_path / "recorded")
    assert state_folders(checkpoints) == state_folders(before)


def state_folders(checkpoints: Path) -> list[str]:
    """Return the names of all states. An operator that has another name would lose its state."""
    return sorted(str(each.relative_to(checkpoints)) for each in checkpoints.glob("*/penstock-sql/state/*"))


def restored(release: str, servers: str, folder: Path) -> Path:
    """Return a copy of the recorded checkpoints, and write the recorded decisions into their topic.

    The topics have other ids now, so these are exchanged.
    """
    ids, new_ids = recorded(release, f"sql/{TOPIC_IDS}"), sql_job.topic_ids(servers)

    def with_ids(text: str) -> str:
        for topic, topic_id in ids.items():
            text = text.replace(topic_id, new_ids[topic])
        return text

    checkpoints = unpack(release, f"sql/{CHECKPOINTS}", folder / "checkpoints")
    for offsets in checkpoints.glob("*/offsets/*"):
        offsets.write_text(with_ids(offsets.read_text()))
    newest = max((checkpoints / sql_job.REPLAYED / "commits").iterdir(), key=lambda file: int(file.name))
    newest.unlink()
    for key, value in recorded(release, f"sql/{DECISIONS}"):
        text = None if value is None else with_ids(value).encode()
        judge.produce(servers, sql_job.DECISIONS, (key.encode(), text))
    return checkpoints


def test_the_recorded_decisions_say_that_the_batch_is_written() -> None:
    decisions = [json.loads(value) for _, value in recorded(NEWEST, f"sql/{DECISIONS}") if value is not None]
    assert [(each["status"], each["batch_id"]) for each in decisions if "batch_id" in each][-1] == (
        "finished",
        1,
    )
