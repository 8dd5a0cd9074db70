"""Files that are sent with a job (`addFile`, `--files`, `addArtifact`) are found by their bare name.

The addresses of the brokers are a reference into such a file, so no process connects without it: the one that
plans the stream, those that prepare and commit its writes, and the tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import judge
from tests.fix_broker import MakeTopic
from tests.spark.queries import QUERY_TIMEOUT_S, stopped

SENDERS: dict[str, Callable[[Any, str], None]] = {
    "spark": lambda session, path: session.sparkContext.addFile(path),
    "connect_spark": lambda session, path: session.addArtifact(path, file=True),
}


@pytest.mark.parametrize("kind", SENDERS)
def test_a_file_is_found_by_driver_and_executors(
    kind: str, request: pytest.FixtureRequest, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    session = request.getfixturevalue(kind)
    source, target = make_topic(suffix=".source"), make_topic(suffix=".target")
    judge.produce(bootstrap, source, b"1", b"2")
    sent = tmp_path / f"{source}.properties"
    sent.write_text(f"servers={bootstrap}")
    SENDERS[kind](session, str(sent))
    servers = f"${{file:{sent.name}:servers}}"
    reader = session.readStream.format("penstock").option("kafka.bootstrap.servers", servers)
    rows = reader.option("subscribe", source).option("startingOffsets", "earliest").load()
    start = rows.select("value").writeStream.format("penstock").option("kafka.bootstrap.servers", servers)
    start = start.option("topic", target).option("checkpointLocation", str(tmp_path / "checkpoint"))
    start = start.option("sink.delivery-guarantee", "exactly-once")
    start = start.option("sink.transactional-id-prefix", target)
    with stopped(start.trigger(availableNow=True).start()) as query:
        assert query.awaitTermination(QUERY_TIMEOUT_S)
    assert sorted(each.value or b"" for each in judge.consume_all(bootstrap, target)) == [b"1", b"2"]
    batch = session.read.format("penstock").option("kafka.bootstrap.servers", servers)
    assert batch.option("subscribe", target).load().count() == 2
