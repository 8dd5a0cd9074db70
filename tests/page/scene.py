"""A source in trouble, without Kafka: a slow topic partition, and a transaction that blocks another one.

Runs in tests only. `python -m tests.page.scene FOLDER` writes the screenshots of docs/observability.md.
"""

from __future__ import annotations

import math
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from penstock.observe.health import HealthRules
from penstock.observe.lag import Holder, PartitionLook
from penstock.observe.look import ClusterLook
from penstock.observe.serve.http import MetricsServer
from penstock.observe.serve.view import SourceView
from penstock.observe.sink_reports import SinkBoard
from penstock.observe.task_reports import nothing_yet
from penstock.options.config import (
    IsolationLevel,
    KafkaProperties,
    MetricsSettings,
    SourceConfig,
    TopicList,
)
from penstock.source.metrics import Phase, SourceMetrics
from penstock.types import TopicPartition
from tests.page.browser import open_browser
from tests.waiting import wait_until

SECRET = "do-not-show-this"  # noqa: S105 - the test looks for it
PARTITIONS = [TopicPartition("orders", number) for number in range(18)]
PARTITIONS += [TopicPartition("payments", number) for number in range(6)]
SLOW, BLOCKED = TopicPartition("orders", 11), TopicPartition("payments", 3)
CONFIG = SourceConfig(
    KafkaProperties(
        (
            ("bootstrap.servers", "kafka-1:9092,kafka-2:9092"),
            ("group.id", "order-copier"),
            ("sasl.jaas.config", SECRET),
            ("x.unknown", SECRET),
        )
    ),
    TopicList(("orders", "payments")),
    isolation_level=IsolationLevel.READ_COMMITTED,
    fail_on_data_loss=False,
)
STEPS = 90
SHOWN = "typeof last !== 'undefined' && last !== null"
"""Whether the page has shown figures."""


class Scene:
    """A source whose clock is moved by hand. `step` makes a batch and a look, two seconds later."""

    def __init__(self) -> None:
        self.now_ms = time.time_ns() // 1_000_000 - 2_000 * STEPS
        self.count = 0
        self.transactional_id = "billing-7"
        self.positions: dict[TopicPartition, int] = dict.fromkeys(PARTITIONS, 1_000)
        self.ends = dict(self.positions)
        self.metrics = SourceMetrics(lambda: self.now_ms)
        self.board = SinkBoard(lambda: self.now_ms)
        self.totals = nothing_yet()
        self.view = SourceView(
            self.metrics,
            self,
            HealthRules(),
            of_tasks=lambda: self.totals,
            group_id="order-copier",
            sinks=self.board.states,
            clock_s=lambda: self.now_ms / 1000,
        )

    def look(self, positions: Mapping[TopicPartition, int], *, with_times: bool = True) -> ClusterLook:
        """Answer as an `Observer`."""
        return ClusterLook({tp: self._look(tp, position) for tp, position in positions.items()}, {})

    def _look(self, tp: TopicPartition, position: int) -> PartitionLook:
        end = self.ends[tp]
        lag = end - position
        time_ms = self.now_ms - lag * 7 if lag else None
        if tp == BLOCKED:
            since_ms = self.now_ms - 254_000
            holder = Holder(tp, 4_001, self.transactional_id, position, since_ms)
            return PartitionLook(self.now_ms, position, 0, position, end, since_ms, holder)
        return PartitionLook(self.now_ms, position, 0, end, end, time_ms)

    def step(self) -> None:
        """Make one batch."""
        self.count += 1
        rng = 1 + math.sin(self.count / 7) / 3 + (self.count * 37 % 11) / 40
        with self.metrics.phase(Phase.LATEST_OFFSET):
            self.now_ms += int(60 * rng)
        with self.metrics.phase(Phase.PARTITIONS):
            self.now_ms += int(25 * rng)
        for number, tp in enumerate(PARTITIONS):
            written = int((300 + 12 * number) * rng)
            behind = self.ends[tp] - self.positions[tp]
            self.ends[tp] += written
            if tp == SLOW:
                self.positions[tp] += int(written * 0.7)
            elif tp != BLOCKED:
                self.positions[tp] += behind
        self.totals["numRecordsIn"] += int(7_000 * rng)
        self.totals["decodeErrors.skipped"] = self.count // 30
        self.metrics.planned(self.positions, self.ends, is_idle=False)
        self.now_ms += int(900 * rng)
        self._sink(rng)
        self.now_ms += 1_000
        self.view.report()

    def _sink(self, rng: float) -> None:
        values = {"records": 7_000, "batch_bytes": 180_000, "plain_bytes": 790_000, "requests": 24}
        more = {"request_ms": int(140 * rng), "commit_ms": int(31 * rng), "unfinished_batches": 0}
        message = {"sink": "order-copier", "guarantee": "exactly-once", "event": "written"}
        self.board.take({**message, "values": {**values, **more}})


@contextmanager
def served() -> Iterator[tuple[Scene, str]]:
    """Serve a scene with a past; give it and its address."""
    scene = Scene()
    for _ in range(STEPS):
        scene.step()
    server = MetricsServer(scene.view, MetricsSettings(0), CONFIG)
    try:
        yield scene, f"http://127.0.0.1:{server.port}/"
    finally:
        server.close()


def main(folder: Path) -> None:
    """Write the screenshots."""
    shots = {
        "page-light": (1240, 1240, False),
        "page-dark": (1240, 1240, True),
        "page-phone": (390, 844, False),
    }
    with (
        served() as (_, url),
        tempfile.TemporaryDirectory() as profile,
        open_browser(Path(profile)) as page,
    ):
        for name, (width, height, is_dark) in shots.items():
            page.resize(width, height)
            page.go_to(url)
            wait_until(lambda: page.evaluate(SHOWN), "the page")
            if is_dark:
                page.evaluate("byId('theme').click()")
            page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
            page.screenshot(folder / f"{name}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
