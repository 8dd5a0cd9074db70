"""One job with four faults on a real cluster, named within two triggers by all that an operator looks at.

The faults: a slow topic partition, a sink that was killed with its transactions open, an open transaction of
another program, a broker that stands still. `/lag` is read as JSON, `/metrics` by Prometheus's parser,
`penstock top` in a terminal, the page in a headless Chromium where there is one.
"""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import NewTopic

from penstock.devbroker import DevCluster
from penstock.spark._stream_reader import PenstockStreamReader
from tests import judge
from tests.checkpoint_files import write_checkpoint
from tests.kafka.source_runs import Query
from tests.kafka.test_metrics import read, scrape
from tests.page.browser import Page, find_chromium, open_browser
from tests.page.scene import SHOWN
from tests.waiting import PATIENCE_S, wait_until

STILL_BROKER = 3
LIMIT, USUAL, TOO_MANY = 60, 40, 300
SLOW, FOREIGN, STILL = 0, 1, 2
"""The partitions of the source topic, on brokers 1, 2 and 3."""
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Job:
    """A query that reads the topic of the faults, and the target topic of a sink."""

    def __init__(self, bootstrap: str, topic: str, target: str) -> None:
        self.bootstrap, self.topic, self.target = bootstrap, topic, target
        self.first_ms = int(time.time() * 1000) - 60_000
        self.written = 0
        options = {
            "properties.bootstrap.servers": bootstrap,
            "properties.isolation.level": "read_committed",
            "properties.default.api.timeout.ms": "6000",
            "topic": f"{topic};{target}",
            "scan.max-records-per-batch": str(LIMIT),
            "metrics.http.port": "0",
            "metrics.blocked-after": "0",
        }
        self.query = Query(options)

    def trigger(self, reader: PenstockStreamReader, count: int) -> None:
        """Write records, make a batch, and wait until somebody has looked."""
        numbers = range(self.written, self.written + count)
        records = [judge.Record(b"v", partition=SLOW, timestamp_ms=self.first_ms + at) for at in numbers]
        self.written += count
        judge.produce(self.bootstrap, self.topic, *records)
        before = len(self.query.checkpoint)
        self.query.trigger(reader)
        assert len(self.query.checkpoint) == before + 1
        # The position that is shown is that of the planning: the end of the batch before.
        position = self.query.checkpoint[-2][self.topic][str(SLOW)] if before else 0
        wait_until(lambda: self._position(reader) == position, "a look at this batch")

    def _position(self, reader: PenstockStreamReader) -> int | None:
        rows = lag(reader)["topic_partitions"]
        found = [row for row in rows if (row["topic"], row["partition"]) == (self.topic, SLOW)]
        return found[0]["position"] if found else None


def lag(reader: PenstockStreamReader) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(read(reader, "/lag"))
    return found


def shown_by_top(*arguments: str) -> str:
    """What `penstock top` draws in a terminal."""
    program = str(Path(sys.executable).with_name("penstock"))
    command = [program, "top", *arguments, "--looks", "1", "--partitions", "20"]
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "400", "LINES": "100", "TERM": "xterm"}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        drawn = bytearray()
        with suppress(OSError), os.fdopen(ours, "rb", buffering=0) as terminal:
            while piece := terminal.read(65_536):  # the end is an error of the terminal
                drawn += piece
        assert process.wait(PATIENCE_S) == 0, drawn.decode()
    return _ESCAPES.sub("", drawn.decode())


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page | None]:
    """A browser; None if this machine has none."""
    if find_chromium() is None:
        yield None
        return
    with open_browser(tmp_path_factory.mktemp("browser")) as page:
        yield page


class Watchers:
    """What an operator looks at, as it is shown now."""

    def __init__(self, job: Job, reader: PenstockStreamReader, page: Page | None, folder: Path) -> None:
        assert reader._exposure is not None
        url = f"http://127.0.0.1:{reader._exposure.port}"
        checkpoint = write_checkpoint(folder, *job.query.checkpoint)
        self.texts = {
            "/lag": str(lag(reader)),
            "top of the query": shown_by_top("--url", url),
            "top of its checkpoint": shown_by_top(
                "--checkpoint", str(checkpoint), "--blocked-after", "0", "--bootstrap-server", job.bootstrap
            ),
        }
        if page is not None:
            page.go_to("about:blank")  # so that nothing is left of an earlier look
            wait_until(lambda: page.evaluate("location.href") == "about:blank", "an empty page")
            page.go_to(f"{url}/")
            wait_until(lambda: page.evaluate(SHOWN), "the page")
            self.texts["page"] = page.evaluate("document.body.innerText")

    def without(self, words: str) -> list[str]:
        """Return who does not say it."""
        return [who for who, text in self.texts.items() if words.lower() not in text.lower()]


def kill_a_sink(bootstrap: str, target: str, folder: Path) -> None:
    """Run a sink that was killed after its tasks had written, before its batch was committed."""
    module = ["-m", "tests.kafka.committer_job", bootstrap, target, str(folder / "log"), "1"]
    with subprocess.Popen([sys.executable, *module], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        written = 0
        for line in process.stdout:
            written += line == "WRITTEN\n"
            if written == 3:
                process.kill()
                break
        process.wait(PATIENCE_S)
    assert written == 3


def make_topics(bootstrap: str, replicas: dict[str, list[list[int]]]) -> None:
    """Make topics whose partitions live on these brokers."""
    admin = judge.admin(bootstrap)
    for name, assignment in replicas.items():
        new_topic = NewTopic(name, num_partitions=len(assignment), replica_assignment=assignment)
        admin.create_topics([new_topic], operation_timeout=PATIENCE_S)[name].result(PATIENCE_S)
        judge.wait_for_leaders(bootstrap, name, len(assignment))


@pytest.mark.long
def test_each_fault_is_named_within_two_triggers(
    make_cluster: Callable[..., DevCluster], topic_name: str, tmp_path: Path, page: Page | None
) -> None:
    cluster = make_cluster(3, properties={"broker.session.timeout.ms": "60000"})
    bootstrap, target = cluster.bootstrap_servers, f"{topic_name}-target"
    make_topics(bootstrap, {topic_name: [[1], [2], [3]], target: [[1], [2], [1]]})
    job = Job(bootstrap, topic_name, target)
    long = {
        "transaction.timeout.ms": 600_000
    }  # on a busy machine the test may take longer than the usual minute
    foreign = judge.transactional_producer(bootstrap, f"foreign-{topic_name}", config=long)
    with job.query.running() as reader:
        for _ in range(3):
            job.trigger(reader, USUAL)
        assert (lag(reader)["health"], lag(reader)["errors"]) == ("OK", {}), "before the faults"

        foreign.begin_transaction()
        judge.send(foreign, topic_name, [judge.Record(b"1", partition=FOREIGN)])
        judge.flush(foreign)
        kill_a_sink(bootstrap, target, tmp_path)
        for _ in range(2):
            job.trigger(reader, TOO_MANY)
        watchers = Watchers(job, reader, page, tmp_path / "first")
        slow = f"the lag in {topic_name}-{SLOW} grew from"
        assert watchers.without(slow) == ["top of its checkpoint"], "one look at a checkpoint shows no growth"
        held = f"transaction foreign-{topic_name} (producer"
        assert watchers.without(held) == []
        assert watchers.without(f"has kept back readers of {topic_name}-{FOREIGN} at offset 0") == []
        assert watchers.without(f"transaction {target}-0-0 (producer") == []
        not_ok = scrape(reader)["penstock_source_topic_partition_not_ok"]
        assert not_ok[(topic_name, str(SLOW), "FALLING_BEHIND", "")] == 1
        assert not_ok[(topic_name, str(FOREIGN), "BLOCKED_BY_TRANSACTION", f"foreign-{topic_name}")] == 1
        assert not_ok[(target, "0", "BLOCKED_BY_TRANSACTION", f"{target}-0-0")] == 1

        cluster.pause(STILL_BROKER)
        try:
            for _ in range(2):
                job.trigger(reader, TOO_MANY)
            watchers = Watchers(job, reader, page, tmp_path / "second")
            assert watchers.without(f"{topic_name}-{STILL}") == []
            assert [who for who in watchers.without("no answer for") if who != "/lag"] == []
            assert f"{topic_name}-{STILL}" in lag(reader)["errors"]
            assert scrape(reader)["penstock_source_topic_partitions_without_answer"] == {(): 1}
            # The open transactions are still known, and worse than an answer that is missing.
            assert lag(reader)["health"] not in {"OK", "UNKNOWN"}
        finally:
            cluster.resume(STILL_BROKER)
        wait_until(lambda: not lag(reader)["errors"], "the broker answers again")
    foreign.abort_transaction(PATIENCE_S)
