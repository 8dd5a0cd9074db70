"""The process of a task stays small with a long backlog, with large values and with a slow broker.

`python -m tests.soak.memory` measures the same with 1 GB, and more kinds of values.
"""

from __future__ import annotations

import pytest

from tests.fix_broker import MakeTopic
from tests.memory_task import PROMISED_MB, measure

ZSTD = {"kafka.compression.type": "zstd"}


@pytest.mark.parametrize(
    ("total_bytes", "value_bytes", "kind", "options"),
    [
        pytest.param(400_000_000, 1_000_000, "zeros", ZSTD, id="1 MB of zeros"),
        pytest.param(
            400_000_000, 1_000, "zeros", {**ZSTD, "kafka.batch.size": str(16 << 20)}, id="16 MB batches"
        ),
    ],
)
def test_a_backlog_larger_than_the_promise_is_written_and_read_within_it(
    bootstrap: str,
    make_topic: MakeTopic,
    total_bytes: int,
    value_bytes: int,
    kind: str,
    options: dict[str, str],
) -> None:
    topic = make_topic()
    written = measure(
        "write",
        bootstrap_servers=bootstrap,
        topic=topic,
        total_bytes=total_bytes,
        value_bytes=value_bytes,
        kind=kind,
        options=options,
    )
    read = measure("read", bootstrap_servers=bootstrap, topic=topic, count=written.row_count)
    assert read.row_count == written.row_count
    assert written.byte_count >= total_bytes
    assert max(written.peak_mb, read.peak_mb) < PROMISED_MB, (str(written), str(read))


def test_a_slow_broker_slows_the_task_down_and_does_not_fill_its_memory(
    bootstrap: str, make_topic: MakeTopic
) -> None:
    written = measure(
        "write",
        bootstrap_servers=bootstrap,
        topic=make_topic(),
        total_bytes=300_000_000,
        value_bytes=1_000,
        bytes_per_second=60e6,
    )
    assert written.seconds > 300e6 / 60e6, "the broker was not slow"
    assert written.peak_mb < PROMISED_MB, str(written)
