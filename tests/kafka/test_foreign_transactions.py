"""Open transactions of other programs: every command shows them, and what it prints to end them ends them."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from confluent_kafka import KafkaException
from typer.testing import CliRunner, Result

from penstock.cli.app import app
from penstock.devbroker.java import find_java
from penstock.doctor import _topics
from penstock.errors import MissingOptionError, OptionError
from penstock.options.by_hand import ByHand
from tests import judge, quick_jvm
from tests.fix_broker import MakeTopic
from tests.jars import kafka_tools_jars
from tests.waiting import PATIENCE_S, wait_until

_PROGRAM = """
import os, signal, sys
from confluent_kafka import Producer
servers, name, topic = sys.argv[1:]
settings = {"bootstrap.servers": servers, "transactional.id": name, "transaction.timeout.ms": 600000}
producer = Producer(settings)
producer.init_transactions(60)
producer.begin_transaction()
for partition in (0, 1):
    producer.produce(topic, b"never", partition=partition)
assert producer.flush(60) == 0
os.kill(os.getpid(), signal.SIGKILL)
"""


@dataclass(frozen=True)
class Stuck:
    """A transaction of a program that was killed, and the topic with one record before it."""

    bootstrap: str
    prefix: str
    name: str
    topic: str

    def run(self, *arguments: str, status: int = 0) -> Result:
        result = CliRunner().invoke(app, [*arguments, "-b", self.bootstrap], catch_exceptions=False)
        assert result.exit_code == status, result.output
        return result

    def is_open(self) -> bool:
        listed = json.loads(self.run("transactions", "list", "--json").stdout)
        return self.name in {each["transactional_id"] for each in listed}


@pytest.fixture
def stuck(bootstrap: str, make_topic: MakeTopic) -> Iterator[Stuck]:
    yield from _stuck(bootstrap, make_topic, "7")


@pytest.fixture
def stuck_task(bootstrap: str, make_topic: MakeTopic) -> Iterator[Stuck]:
    """A transaction with the name of a continuous query's."""
    yield from _stuck(bootstrap, make_topic, "continuous-0-1")


def _stuck(bootstrap: str, make_topic: MakeTopic, rest_of_name: str) -> Iterator[Stuck]:
    topic = make_topic(2)
    judge.produce(bootstrap, topic, judge.Record(b"before", partition=1))
    # A letter before the last dash: a name that ends in two numbers is one of our own.
    prefix = f"billing-{uuid.uuid4().hex[:8]}x"
    found = Stuck(bootstrap, prefix, f"{prefix}-{rest_of_name}", topic)
    arguments = [sys.executable, "-c", _PROGRAM, bootstrap, found.name, topic]
    died = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert died.returncode == -9, died.stderr
    try:
        yield found
    finally:
        judge.transactional_producer(bootstrap, found.name)  # takes the name, which ends what is open


def test_a_list_without_a_prefix_shows_the_transaction_with_all_that_is_known(stuck: Stuck) -> None:
    listed = json.loads(stuck.run("transactions", "list", "--json").stdout)
    (found,) = [each for each in listed if each["transactional_id"] == stuck.name]
    assert (found["state"], found["prefix"], found["timeout_ms"]) == ("Ongoing", None, 600_000)
    assert found["topic_partitions"] == [[stuck.topic, 0], [stuck.topic, 1]]
    assert found["start_offsets"] == [0, 1]
    shown = stuck.run("transactions", "list").stdout
    assert f"{stuck.name}  Ongoing, not of penstock" in shown
    assert f"{stuck.topic}-0 at offset 0, {stuck.topic}-1 at offset 1" in shown
    assert f"--transactional-id {stuck.name} --bootstrap-server {stuck.bootstrap} --yes`" in shown


@pytest.mark.parametrize(
    "command", [("list",), ("recover",), ("abort",), ("recover", "--yes"), ("abort", "--yes")]
)
def test_no_command_denies_it(stuck: Stuck, command: tuple[str, ...]) -> None:
    status = 1 if "abort" in command else 0
    for prefix in (stuck.prefix, stuck.name):
        shown = stuck.run("transactions", *command, "--prefix", prefix, status=status).stdout
        assert f"o transaction named {prefix}-<number>-<number> is open at {stuck.bootstrap}." in shown
        assert f"others whose names begin with {prefix}: {stuck.name}." in shown
    stuck.run("transactions", "list", "--prefix", f"{stuck.prefix}-other")
    as_json = stuck.run("transactions", *command, "--prefix", stuck.prefix, "--json", status=status)
    json.loads(as_json.stdout)
    assert stuck.name in as_json.stderr
    assert stuck.is_open()


def test_what_lag_says_to_run_ends_it(stuck: Stuck, monkeypatch: pytest.MonkeyPatch) -> None:
    judge.commit_offsets(stuck.bootstrap, stuck.topic, stuck.topic, {0: 0, 1: 1})
    blocked = ("lag", "--group", stuck.topic, "--blocked-after", "0")
    advice = f"{stuck.name} is not a transaction of penstock. If its program no longer runs"
    looks: list[str] = []

    def names_the_program() -> bool:
        looks.append(stuck.run(*blocked).stdout)
        return advice in looks[-1]

    # A look gives up on a busy coordinator after a moment, so that `lag --watch` goes on.
    try:
        wait_until(names_the_program, f"lag to name {stuck.name}")
    except AssertionError as error:
        error.add_note(f"lag said at last:\n{looks[-1]}")
        raise
    shown = looks[-1]
    assert shown.count(stuck.name) == 2 + 2, "a sentence for each topic partition, one about the command"
    command = re.search(r"`penstock (.*)`", shown)
    assert command is not None
    monkeypatch.setattr(_topics, "_LONG_OPEN_MS", 0)
    checked = stuck.run("doctor", "--topic", stuck.topic, "--group", f"{stuck.topic}-other", status=1).stdout
    assert f"warning  topic {stuck.topic}: transaction {stuck.name} (producer " in checked
    assert f"back at {stuck.topic}-1, offset 1, open for " in checked
    assert command.group(0) in checked

    dry = stuck.run("transactions", "abort", "--transactional-id", stuck.name).stdout
    assert f"Would abort {stuck.name}" in dry
    assert "Nothing was changed" in dry
    assert stuck.is_open()
    done = CliRunner().invoke(app, shlex.split(command.group(1)), catch_exceptions=False)
    assert done.exit_code == 0
    assert f"Aborted {stuck.name}" in done.stdout
    judge.wait_for_markers(stuck.bootstrap)
    assert not stuck.is_open()
    assert "BLOCKED" not in stuck.run(*blocked).stdout
    assert [record.value for record in judge.consume_all(stuck.bootstrap, stuck.topic)] == [b"before"]
    again = stuck.run("transactions", "abort", "--transactional-id", stuck.name, "--yes", "--json").stdout
    assert json.loads(again) == {"transactional_id": stuck.name, "abort": [], "done": True}


def test_a_program_that_still_runs_is_fenced_and_its_records_are_never_seen(
    bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    name = f"alive-{topic}"
    alive = judge.transactional_producer(bootstrap, name)
    alive.begin_transaction()
    judge.send(alive, topic, [b"never"])
    judge.flush(alive)
    arguments = ["transactions", "abort", "--transactional-id", name, "-b", bootstrap, "--yes"]
    assert CliRunner().invoke(app, arguments, catch_exceptions=False).exit_code == 0
    with pytest.raises(KafkaException, match=r"(?i)fenced|epoch"):
        alive.commit_transaction(PATIENCE_S)
    judge.wait_for_markers(bootstrap)
    assert judge.consume_all(bootstrap, topic) == []


def test_kafkas_own_command_ends_what_no_coordinator_shows(stuck: Stuck) -> None:
    for partition, start in ((0, 0), (1, 1)):
        command = shlex.split(ByHand(stuck.bootstrap).abort_hanging(stuck.topic, partition, start))
        assert command[0] == "kafka-transactions.sh"
        jars = ":".join(map(str, kafka_tools_jars()))
        tool = [*quick_jvm.OPTIONS.split(), "-cp", jars, "org.apache.kafka.tools.TransactionsCommand"]
        subprocess.run([str(find_java()), *tool, *command[1:]], check=True, timeout=PATIENCE_S)
    read = judge.consume_all(stuck.bootstrap, stuck.topic)
    assert [record.value for record in read] == [b"before"]


def test_names_of_a_prefix_are_left_to_its_decision_log(stuck: Stuck) -> None:
    for name in (f"{stuck.prefix}-0-1", f"{stuck.prefix}-committer"):
        with pytest.raises(OptionError, match=f"Nothing was aborted.*--prefix {stuck.prefix} instead"):
            stuck.run("transactions", "abort", "--transactional-id", name, "--yes")
    with pytest.raises(MissingOptionError, match="Name what to abort"):
        stuck.run("transactions", "abort", "--yes")
    with pytest.raises(MissingOptionError, match="Name what to abort"):
        stuck.run("transactions", "abort", "--prefix", "p", "--transactional-id", "p", "--yes")
    assert stuck.is_open()


def test_what_is_said_of_a_continuous_query_aborts_its_transaction(stuck_task: Stuck) -> None:
    """Its offsets are in the same transaction, so no record is lost."""
    shown = stuck_task.run("transactions", "list").stdout
    command = f"penstock transactions abort --prefix {stuck_task.prefix}-continuous "
    (said,) = [each for each in re.findall("`([^`]*)`", shown) if each.startswith(command)]
    done = CliRunner().invoke(app, shlex.split(said)[1:], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert not stuck_task.is_open()
    assert [each.value for each in judge.consume_all(stuck_task.bootstrap, stuck_task.topic)] == [b"before"]
