"""SIGKILL while dead letters are put back on a real broker: each record is back once, as it was."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections import Counter

import pyarrow as pa
import pytest

from penstock.codec import HEADERS_TYPE
from penstock.devbroker import DevCluster
from penstock.options.config import KafkaProperties, SinkConfig
from penstock.sink.dead_letters.found import HEADER_PREFIX
from penstock.sink.writer import write_rows
from tests import judge
from tests.fix_broker import MakeTopic

_COUNT = 2_000
_FEW = 3
_TIMEOUT_S = 120


@pytest.mark.promise
def test_a_death_before_any_request_neither_loses_nor_doubles(
    broker: DevCluster, make_topic: MakeTopic
) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.kafka.dying_requeue", broker.bootstrap_servers],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:

        def ask(topic: str, dies_before: int) -> list[str]:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{topic} {dies_before}\n")
            process.stdin.flush()
            return process.stdout.readline().split()

        moment, is_over = 0, False
        while not is_over:
            moment += 1
            source, bad = make_topic(2, suffix=f"-{moment}"), make_topic(1, suffix=f"-{moment}-bad")
            _put(broker, source, bad, _FEW)
            is_over = ask(bad, moment)[1] == "done"
            _, state, status = ask(bad, 0)
            assert (state, status) == ("done", "0"), f"after the death before request {moment}"
            found = Counter(each.value for each in judge.consume_all(broker.bootstrap_servers, source))
            assert found == Counter(b"v%d" % each for each in range(_FEW)), f"before request {moment}"
        assert process.stdin is not None
        process.stdin.close()
    assert moment > 15, "two transactions take more requests"


def test_killed_commands_put_each_record_back_once(broker: DevCluster, make_topic: MakeTopic) -> None:
    source, bad = make_topic(2), make_topic(1, suffix="-bad")
    _put(broker, source, bad, _COUNT)
    choice, kills = random.Random(7), 0
    for _ in range(4):
        kills += _requeue(broker, bad, choice, is_killed=True)
    assert kills > 0
    assert not _requeue(broker, bad, choice, is_killed=False)
    found = Counter(each.value for each in judge.consume_all(broker.bootstrap_servers, source))
    assert found == Counter(b"v%d" % each for each in range(_COUNT))


def _requeue(broker: DevCluster, bad: str, choice: random.Random, *, is_killed: bool) -> bool:
    """Run the command; kill it somewhere, if wanted. Return whether it was killed."""
    command = "from penstock.cli.app import run; run()"
    arguments = ["dead-letters", "requeue", bad, "--yes", "-b", broker.bootstrap_servers]
    with subprocess.Popen(
        [sys.executable, "-c", command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        wanted = choice.randrange(1, 600)
        for number, _ in enumerate(process.stdout, start=1):
            if is_killed and number == wanted:
                threading.Event().wait(choice.uniform(0, 0.02))  # anywhere between two steps
                process.kill()
        _, told = process.communicate(timeout=_TIMEOUT_S)
    assert is_killed or process.returncode == 0, told
    return process.returncode < 0


def _put(broker: DevCluster, source: str, bad: str, count: int) -> None:
    now = round(time.time() * 1000)

    def told(offset: int) -> list[dict[str, str | bytes]]:
        facts = {"topic": source, "partition": offset % 2, "offset": offset, "timestamp": now, "error": "bad"}
        return [{"key": HEADER_PREFIX + name, "value": str(fact).encode()} for name, fact in facts.items()]

    rows = pa.record_batch(
        {
            "value": pa.array([b"v%d" % each for each in range(count)], pa.binary()),
            "headers": pa.array([told(each) for each in range(count)], HEADERS_TYPE),
        }
    )
    properties = KafkaProperties((("bootstrap.servers", broker.bootstrap_servers),))
    assert write_rows(SinkConfig(properties, bad), [rows]) == count
