"""The commands of pages that need a broker and no Spark, as printed but for names."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

from tests import judge
from tests.checkpoint_files import write_checkpoint
from tests.fix_broker import MakeTopic
from tests.kafka.sink_driver import SinkUnderTest, assert_none_open, assert_seen, expected
from tests.kafka.source_runs import Query
from tests.kafka.test_foreign_transactions import Stuck
from tests.kafka.test_foreign_transactions import stuck as stuck  # noqa: PLC0414 - a fixture
from tests.printed import DOCS, Here
from tests.waiting import wait_until

REPAIR = (DOCS / "exactly-once-repair.md").read_text(encoding="utf-8")


def test_the_checks_before_a_start(bootstrap: str, make_topic: MakeTopic, tmp_path: Path) -> None:
    orders = make_topic(3)
    names = {
        "broker:9092": bootstrap,
        "localhost:9092": bootstrap,
        "orders": orders,
        "orders-copy": make_topic(3, suffix="-copy"),
        "orders-reader": f"{orders}-reader",
        "orders-copier": f"{orders}-copier",
    }
    (tmp_path / "client.properties").write_text("security.protocol=PLAINTEXT\n")
    here = Here(tmp_path, names)
    for said in (
        here.run("doctor.md", "penstock doctor"),
        here.run("continuous.md", "penstock doctor -b localhost:9092 --continuous"),
    ):
        assert {line.split()[0] for line in said.splitlines() if not line.startswith("Cluster")} == {
            "good",
            "note",
        }
        assert f"topic {orders}: it has 3 partitions" in said
        assert names["orders-copy"] in said


def test_the_commands_that_end_transactions_of_a_prefix(sink: SinkUnderTest, tmp_path: Path) -> None:
    bootstrap = ",".join(sink.settings.bootstrap_servers)
    here = Here(tmp_path, {"orders-copier": sink.prefix, "localhost:9092": bootstrap})
    with sink.driver() as driver:
        mandate = driver.recover()
        reports = sink.tasks(mandate, 0)
        sink.die_decided(reports)
    wait_until(lambda: len(sink.open_ids()) == 3, "the decision's own transaction to end")
    assert f"{sink.prefix}-0-0" in here.run("exactly-once-repair.md", "penstock transactions list --prefix")
    assert "decided" in here.run("exactly-once-repair.md", "penstock transactions describe --prefix")
    here.run("exactly-once-repair.md", "penstock transactions recover --prefix")
    assert_none_open(sink)
    assert_seen(bootstrap, sink.topic, expected(1))
    with sink.driver() as driver:
        sink.task(driver.recover(), 1, 0)
    assert sink.open_ids()
    here.run(
        "exactly-once-repair.md",
        "penstock transactions abort --prefix orders-copier --bootstrap-server localhost",
    )
    assert_none_open(sink)
    assert_seen(bootstrap, sink.topic, expected(1))
    assert sink.prefix in here.run("exactly-once-repair.md", "penstock transactions prefixes").splitlines()


def test_the_commands_that_show_and_end_a_transaction_of_another_program(
    stuck: Stuck, tmp_path: Path
) -> None:
    names = {"billing-7": stuck.name, "billing": stuck.prefix, "localhost:9092": stuck.bootstrap}
    here = Here(tmp_path, {**names, "/data/": f"{tmp_path}/"})
    write_checkpoint(tmp_path / "checkpoints" / "orders", {stuck.topic: {"0": 0, "1": 1}})
    assert "Query" in here.run("lag.md", "penstock lag --checkpoint")
    assert stuck.name in here.run("exactly-once-repair.md", "penstock transactions list --bootstrap-server")
    said = here.run("exactly-once-repair.md", "penstock transactions abort --prefix billing", status=1)
    for line in (
        "Nothing to do: no transaction named billing-<number>-<number> is open at localhost:9092.",
        "Open, but not ended by --prefix billing, are others whose names begin with billing: billing-7.",
        "billing-7 is not a transaction of penstock. If its program no longer runs, run",
    ):
        assert line in REPAIR
        assert line.replace("billing", stuck.prefix).replace("localhost:9092", stuck.bootstrap) in said
    assert stuck.is_open()
    said = here.run("exactly-once-repair.md", "penstock transactions abort --transactional-id billing-7")
    assert f"Aborted {stuck.name}" in said
    judge.wait_for_markers(stuck.bootstrap)
    assert not stuck.is_open()


def until(top: subprocess.Popen[str], *words: str) -> None:
    """Read a screen until it has shown all of these words, and end it with Ctrl-C."""
    assert top.stdout is not None
    left, shown = set(words), ""
    for line in top.stdout:
        shown += line
        left = {word for word in left if word not in shown}
        if not left:
            break
    top.send_signal(signal.SIGINT)
    top.communicate(timeout=60)
    assert (left, top.returncode) == (set(), 0), shown


def test_the_screen_of_queries_and_groups(bootstrap: str, make_topic: MakeTopic, tmp_path: Path) -> None:
    topic = make_topic()
    group = f"billing-{topic}"
    judge.produce(bootstrap, topic, b"1", b"2")
    judge.commit_offsets(bootstrap, group, topic, {0: 1})
    for name in ("orders", "payments"):
        write_checkpoint(tmp_path / "checkpoints" / name, {topic: {"0": 1}})
    here = Here(tmp_path, {"localhost:9092": bootstrap, "/data/": f"{tmp_path}/", "billing": group})
    until(here.start("observability.md", "penstock top -b"), "orders", "payments", group)
    options = {"properties.bootstrap.servers": bootstrap, "topic": topic, "metrics.http.port": "0"}
    query = Query(options)
    with query.running() as reader:
        query.catch_up(reader)
        assert reader._exposure is not None
        at = f"127.0.0.1:{reader._exposure.port}"
        here = Here(tmp_path, {"127.0.0.1:9250": at})
        until(here.start("observability.md", "penstock top --url"), at)


def test_the_files_of_prometheus_and_grafana(tmp_path: Path) -> None:
    here = Here(tmp_path, {})
    here.run("observability.md", "penstock dashboard --alerts")
    here.run("observability.md", "penstock dashboard > penstock.json")
    assert "alert: PenstockDown" in (tmp_path / "penstock.yml").read_text()
    assert json.loads((tmp_path / "penstock.json").read_text())["panels"]
