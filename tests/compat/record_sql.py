"""Record the SQL job of a release: checkpoints with states, decisions, what its last batch has to write."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

from penstock.devbroker import DevCluster
from tests import judge
from tests.compat import sql_job
from tests.compat.releases import pack
from tests.judges.sql.running import spark_of_its_own

CHECKPOINTS, DECISIONS, TOPIC_IDS, EXPECTED = (
    "checkpoints.zip",
    "decisions.json",
    "topics.json",
    "expected.json",
)


def record(into: Path) -> None:
    """Run all but the last batch and record what is left. Then run the last one, for what it has to write."""
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir()
    with (
        tempfile.TemporaryDirectory() as folder,
        DevCluster() as cluster,
        spark_of_its_own(Path(folder)) as spark,
    ):
        servers, checkpoints = cluster.bootstrap_servers, Path(folder) / "checkpoints"
        sql_job.create_topics(servers)
        for part in sql_job.PARTS[:-1]:
            sql_job.produce(servers, part)
            sql_job.run(spark, servers, checkpoints)
        pack(checkpoints, into / CHECKPOINTS)
        _write(into / TOPIC_IDS, sql_job.topic_ids(servers))
        _write(into / DECISIONS, _decisions(servers))
        before = sql_job.written(servers)
        sql_job.produce(servers, sql_job.PARTS[-1])
        sql_job.run(spark, servers, checkpoints)
        after = sql_job.written(servers)
        _write(into / EXPECTED, {topic: _without(rows, before[topic]) for topic, rows in after.items()})


def _decisions(servers: str) -> list[list[str | None]]:
    """Return key and value of each record of the log of decisions, in its order."""
    texts = [(each.key, each.value) for each in judge.consume_all(servers, sql_job.DECISIONS)]
    return [[None if text is None else text.decode() for text in pair] for pair in texts]


def _without(rows: list[sql_job.Row], others: list[sql_job.Row]) -> list[sql_job.Row]:
    """Return the rows that have come."""
    left = list(rows)
    for other in others:
        left.remove(other)
    return left


def _write(file: Path, contents: object) -> None:
    file.write_text(json.dumps(contents, indent=1) + "\n")
