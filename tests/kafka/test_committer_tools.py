"""`penstock transactions` on a real broker: what it shows, what it changes, and what it refuses."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from penstock.cli.transactions import transactions_app
from penstock.errors import (
    DecisionLogError,
    OptionError,
    PrefixTakenError,
)
from penstock.sink.exactly_once._probes import Step
from penstock.sink.exactly_once.decision import DecisionStatus
from penstock.types import TopicPartition
from tests.deaths import Death, die_at
from tests.kafka.sink_driver import (
    QUERY,
    SinkUnderTest,
    assert_none_open,
    assert_seen,
    expected,
    rows_of,
    run_batch,
)
from tests.kafka.transaction_writer import write_open
from tests.printed import Here
from tests.waiting import wait_until


def cli(sink: SinkUnderTest, command: str, *more: str) -> Any:
    servers = ",".join(sink.settings.bootstrap_servers)
    arguments = [command, "--prefix", sink.prefix, "--bootstrap-server", servers, "--json", *more]
    result = CliRunner().invoke(transactions_app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.promise
def test_tools_show_and_recover(bootstrap: str, sink: SinkUnderTest) -> None:
    assert cli(sink, "describe") == []
    assert cli(sink, "list") == []
    with sink.driver() as driver:
        mandate = driver.recover()
        reports = sink.tasks(mandate, 0)
        sink.die_decided(reports)
    sink.task(mandate, 0, 1, attempt=5)
    wait_until(lambda: len(sink.open_ids()) == 4, "the decision's own transaction to end with its marker")
    listed = cli(sink, "list")
    decided_ids = [f"{sink.prefix}-{at}-0" for at in range(3)]
    assert [each["transactional_id"] for each in listed if each["is_decided"]] == decided_ids
    assert [each["transactional_id"] for each in listed if not each["is_decided"]] == [f"{sink.prefix}-1-5"]
    assert listed[0]["topic_partitions"] == [[sink.topic, 0]]
    assert listed[0]["started_at"] is not None
    (decision,) = cli(sink, "describe")
    assert (decision["query_id"], decision["batch_id"], decision["status"]) == (QUERY, 0, "decided")
    assert [each["outcome"] for each in decision["transactions"]] == ["pending"] * 3
    plan = cli(sink, "recover")
    assert plan == {
        "prefix": sink.prefix,
        "commit": decided_ids,
        "abort": [f"{sink.prefix}-1-5"],
        "done": False,
    }
    assert len(sink.open_ids()) == 4, "a dry run changes nothing"
    assert cli(sink, "recover", "--yes")["done"] is True
    assert_none_open(sink)
    assert cli(sink, "describe")[0]["status"] == "finished"
    assert_seen(bootstrap, sink.topic, expected(1))


def test_tools_abort_what_is_not_decided(bootstrap: str, sink: SinkUnderTest) -> None:
    with sink.driver() as running:
        reports = sink.tasks(running.recover(), 0)
        names = [f"{sink.prefix}-{at}-0" for at in range(3)]
        wait_until(lambda: len(sink.open_ids()) == len(names), "the committer's own to end")
        assert cli(sink, "abort") == {"prefix": sink.prefix, "commit": [], "abort": names, "done": False}
        assert len(sink.open_ids()) == 3
        assert cli(sink, "abort", "--yes")["abort"] == names
        assert_none_open(sink)
        # The query that still ran is stopped, and written again whole.
        with pytest.raises(PrefixTakenError):
            running.commit(reports)
    run_batch(sink, 0)
    assert_seen(bootstrap, sink.topic, expected(1))


@pytest.mark.parametrize("resolution", ["write-again", "take-as-written"])
def test_tools_end_a_decision_by_hand(
    bootstrap: str, sink: SinkUnderTest, resolution: str, tmp_path: Path
) -> None:
    with sink.driver(wanted_timeout_ms=12_000) as driver:
        mandate = driver.recover()
        reports = [
            sink.task(replace(mandate, transaction_timeout_ms=300_000), 0, 0),
            sink.task(mandate, 0, 1),
        ]
    sink.die_decided(reports)
    wait_until(lambda: f"{sink.prefix}-1-0" not in sink.open_ids(), "the broker to abort one")
    with sink.driver() as driver:
        assert driver.recover().known[QUERY].status is DecisionStatus.LOST
    assert_none_open(sink)
    dry = cli(sink, "abort", "--query", QUERY, "--resolution", resolution)
    assert (dry["done"], dry["decisions"][0]["status"]) == (False, "lost")
    assert cli(sink, "describe")[0]["status"] == "lost"
    names = {"orders-copier": sink.prefix, "broker:9092": bootstrap, "QUERY_ID": QUERY}
    here = Here(tmp_path, {**names, "take-as-written": resolution})  # the page says that both are possible
    here.run(
        "exactly-once-repair.md",
        "penstock transactions abort --prefix orders-copier --bootstrap-server broker:9092",
    )
    with sink.driver() as driver:
        mandate = driver.recover()
        replay = [sink.task(mandate, 0, 0), sink.task(mandate, 0, 1)]
        driver.commit(replay)
    first, second = rows_of(0, 0), rows_of(0, 1)
    is_again = resolution == "write-again"
    assert_seen(bootstrap, sink.topic, {0: first * 2, 1: second} if is_again else {0: first})


def test_tools_say_what_they_want(sink: SinkUnderTest) -> None:
    with pytest.raises(OptionError, match="--resolution with one of write-again, take-as-written"):
        cli(sink, "abort", "--query", QUERY, "--yes")
    with sink.driver() as driver:
        driver.recover()
    with pytest.raises(DecisionLogError, match="no decision about query"):
        cli(sink, "abort", "--query", QUERY, "--resolution", "write-again", "--yes")


def test_tools_speak_to_people(sink: SinkUnderTest) -> None:
    run_batch(sink, 0)
    assert_none_open(sink)  # the committer's markers, which these look for, may come after its answer
    servers = ",".join(sink.settings.bootstrap_servers)
    common = ["--prefix", sink.prefix, "--bootstrap-server", servers]
    runner = CliRunner()
    assert "finished at" in runner.invoke(transactions_app, ["describe", *common]).stdout
    assert "is open" in runner.invoke(transactions_app, ["list", *common]).stdout
    assert runner.invoke(transactions_app, ["recover", *common]).stdout.startswith("Nothing to do: ")
    assert runner.invoke(transactions_app, ["abort", *common]).stdout.startswith("Nothing to do: ")
    with sink.driver() as driver:
        sink.task(driver.recover(), 1, 0)
    assert "--yes does it" in runner.invoke(transactions_app, ["recover", *common]).stdout
    known = runner.invoke(transactions_app, ["prefixes", "-b", servers]).stdout.splitlines()
    assert sink.prefix in known
    misspelt = ["describe", "--prefix", "unknown", "--bootstrap-servers", servers]
    assert re.search(
        r"topic unknown-decisions\) does not exist: .*transactions prefixes`",
        runner.invoke(transactions_app, misspelt).stdout,
    )


def test_tools_with_another_log_topic_change_nothing(bootstrap: str, sink: SinkUnderTest) -> None:
    with sink.driver() as driver:
        reports = sink.tasks(driver.recover(), 0)
        die_at(Step.DECIDED)
        with pytest.raises(Death):
            driver.commit(reports)
    servers = ",".join(sink.settings.bootstrap_servers)
    common = [
        "--prefix",
        sink.prefix,
        "--bootstrap-server",
        servers,
        "--log-topic",
        f"{sink.topic}-forgotten",
    ]
    runner = CliRunner()
    resolve = ["abort", "--query", QUERY, "--resolution", "take-as-written"]
    for command in (["abort"], ["recover"], resolve):
        with pytest.raises(DecisionLogError, match="was used before, but the decision log"):
            runner.invoke(transactions_app, [*command, *common, "--yes"], catch_exceptions=False)
    for command in (["list"], ["describe"], ["abort"]):
        assert "Warning: The committer" in runner.invoke(transactions_app, [*command, *common]).stderr
    assert cli(sink, "recover", "--yes")["done"] is True
    assert_seen(bootstrap, sink.topic, expected(1))


def test_tools_abort_what_another_program_has_left_open(bootstrap: str, sink: SinkUnderTest) -> None:
    """A Flink job with the prefix names its transactions as penstock does."""
    flinks = f"{sink.prefix}-0-17"
    write_open(sink.connections, flinks, TopicPartition(sink.topic, 0), [b"of a Flink job"])
    with sink.driver() as driver, pytest.raises(PrefixTakenError, match=f"never used .* {flinks}"):
        driver.recover()
    assert sink.open_ids() == {flinks}
    assert cli(sink, "abort", "--yes")["abort"] == [flinks]
    assert_none_open(sink)
    run_batch(sink, 0)
    assert_seen(bootstrap, sink.topic, expected(1))
