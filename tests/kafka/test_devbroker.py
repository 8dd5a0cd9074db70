"""The development broker: it answers, keeps data, says why it failed, and always ends."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from penstock.devbroker import DevCluster
from penstock.devbroker.cluster import free_ports
from penstock.devbroker.jars import kafka_jars
from penstock.devbroker.probe import ask_cluster
from penstock.errors import DevBrokerError
from tests import judge
from tests.fix_broker import MakeTopic
from tests.waiting import PATIENCE_S, wait_until

# Starts a cluster, prints its address, and keeps it until it is killed.
OWNER = """
import sys
from penstock.devbroker import DevCluster
cluster = DevCluster({brokers}, data_dir={data_dir!r})
cluster.start()
pids = [cluster.pid(node_id) for node_id in cluster.node_ids]
print(cluster.bootstrap_servers, cluster.folder, *pids, flush=True)
sys.stdin.read()
"""


def does_answer(server: str, timeout_s: float = 0.5) -> bool:
    host, port = server.split(":")
    return ask_cluster(host, int(port), timeout_s=timeout_s) is not None


def does_exist(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@contextlib.contextmanager
def owner_process(
    brokers: int, data_dir: Path | None = None
) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    script = OWNER.format(brokers=brokers, data_dir=str(data_dir) if data_dir else None)
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        try:
            yield owner, owner.stdout.readline().split()
        finally:
            owner.kill()


def test_what_is_written_is_read(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(3)
    wanted = [
        judge.Record(b"v", b"k", [("h", b"1"), ("h", None)], partition=2, timestamp_ms=1_700_000_000_000),
        judge.Record(None, b"", partition=0),
        judge.Record(b"", None, partition=2),
    ]
    written = judge.produce(bootstrap, topic, *wanted)
    read = judge.consume_all(bootstrap, topic)
    assert read == sorted(written, key=lambda record: (record.partition or 0, record.offset or 0))
    assert read[1] == judge.Record(b"v", b"k", (("h", b"1"), ("h", None)), 2, 0, 1_700_000_000_000, 0, topic)
    assert (read[0].value, read[0].key) == (None, b"")
    assert judge.offsets_of(bootstrap, topic) == {0: (0, 1), 1: (0, 0), 2: (0, 2)}


def test_aborted_transactions_are_left_out(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    judge.produce_in_transaction(bootstrap, topic, b"a", transactional_id=topic, is_committed=False)
    judge.produce_in_transaction(bootstrap, topic, b"b", transactional_id=topic)
    assert [record.value for record in judge.consume_all(bootstrap, topic)] == [b"b"]
    uncommitted = judge.consume_all(bootstrap, topic, "read_uncommitted")
    assert [record.value for record in uncommitted] == [b"a", b"b"]


def test_topics_do_not_appear_by_themselves(bootstrap: str, topic_name: str) -> None:
    with pytest.raises(KafkaException, match="UNKNOWN_TOPIC_OR_PART"):
        judge.consume_all(bootstrap, topic_name)
    assert topic_name not in judge.admin(bootstrap).list_topics(timeout=PATIENCE_S).topics


def test_deleted_records_and_topics_are_gone(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    judge.produce(bootstrap, topic, b"1", b"2", b"3")
    judge.delete_records(bootstrap, topic, {0: 2})
    assert [record.value for record in judge.consume_all(bootstrap, topic)] == [b"3"]
    judge.delete_topic(bootstrap, topic)
    assert topic not in judge.admin(bootstrap).list_topics(timeout=PATIENCE_S).topics


def test_records_with_old_timestamps_stay_unless_the_topic_has_a_retention(
    bootstrap: str, make_topic: MakeTopic
) -> None:
    topic, short = make_topic(), make_topic(config={"retention.ms": "60000"})
    old = judge.Record(b"old", timestamp_ms=1)
    judge.produce(bootstrap, topic, old)
    for end in (1, 2):
        judge.produce(bootstrap, short, old)
        wait_until(
            lambda end=end: judge.offsets_of(bootstrap, short) == {0: (end, end)},  # type: ignore[misc]  # bound by default
            "retention deleted the old record",
        )
    assert [record.value for record in judge.consume_all(bootstrap, topic)] == [b"old"]


@pytest.mark.promise
def test_three_brokers_go_on_when_one_is_killed(cluster3: DevCluster, make_topic: MakeTopic) -> None:
    topic = make_topic(3, cluster=cluster3)
    described = judge.admin(cluster3.bootstrap_servers).list_topics(topic, timeout=PATIENCE_S).topics[topic]
    assert {tuple(sorted(part.replicas)) for part in described.partitions.values()} == {(1, 2, 3)}
    cluster3.kill(2)
    assert not cluster3.is_alive(2)
    try:
        records = [judge.Record(b"%d" % number, partition=number % 3) for number in range(9)]
        judge.produce(cluster3.bootstrap_servers, topic, *records)
        assert len(judge.consume_all(cluster3.bootstrap_servers, topic)) == 9
    finally:
        cluster3.restart(2)
    assert cluster3.is_alive(2)


@pytest.mark.parametrize("is_crash", [True, False])
def test_a_restart_keeps_address_and_data(
    mortal_broker: DevCluster, make_topic: MakeTopic, *, is_crash: bool
) -> None:
    server, topic = mortal_broker.bootstrap_servers, make_topic(2, cluster=mortal_broker)
    written = judge.produce(server, topic, judge.Record(b"a", partition=0), judge.Record(b"b", partition=1))
    old_pid = mortal_broker.pid()
    if is_crash:
        mortal_broker.kill()
        assert not mortal_broker.is_alive()
        assert mortal_broker.pid() is None
    mortal_broker.restart()
    assert mortal_broker.bootstrap_servers == server
    assert mortal_broker.pid() not in {None, old_pid}
    judge.wait_for_leaders(server, topic, 2)
    assert judge.consume_all(server, topic) == written


def test_a_paused_broker_hangs_until_it_is_resumed(own_broker: DevCluster) -> None:
    own_broker.pause()
    assert not does_answer(own_broker.bootstrap_servers)
    assert own_broker.is_alive()
    own_broker.resume()
    wait_until(lambda: does_answer(own_broker.bootstrap_servers), "the broker answers again")
    own_broker.pause()
    pid, folder = own_broker.pid(), own_broker.folder
    own_broker.stop()  # also while it hangs
    assert pid is not None
    assert not does_exist(pid)
    assert not folder.exists()


def test_further_listeners_have_addresses_and_settings(
    make_cluster: Callable[..., DevCluster], topic_name: str
) -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="pass=word";'
    cluster = make_cluster(
        listeners={"SASL": "SASL_PLAINTEXT"},
        properties={
            "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl.plain.sasl.jaas.config": jaas,
        },
    )
    server = cluster.bootstrap_servers_of("SASL")
    assert server != cluster.bootstrap_servers
    sasl = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "ann"}
    judge.create_topic(cluster.bootstrap_servers, topic_name)
    judge.produce(server, topic_name, b"in", config={**sasl, "sasl.password": "pass=word"})
    assert [record.value for record in judge.consume_all(cluster.bootstrap_servers, topic_name)] == [b"in"]
    with pytest.raises(DevBrokerError, match="no listener SSL"):
        cluster.bootstrap_servers_of("SSL")
    assert "pass=word" not in cluster.log_file().read_text()


def test_a_folder_that_was_given_is_kept_and_used_again(tmp_path: Path, topic_name: str) -> None:
    folder = tmp_path / "a folder #1"
    with DevCluster(data_dir=folder) as first:
        judge.create_topic(first.bootstrap_servers, topic_name)
        written = judge.produce(first.bootstrap_servers, topic_name, b"kept")
    with DevCluster(data_dir=folder) as second:
        judge.wait_for_leaders(second.bootstrap_servers, topic_name, 1)
        assert judge.consume_all(second.bootstrap_servers, topic_name) == written
        assert second.log_file().read_text().count(" started (kafka.server.KafkaRaftServer)") == 1


def test_a_failure_shows_the_log_and_leaves_nothing(tmp_path: Path) -> None:
    broken = DevCluster(properties={"num.io.threads": "many"}, data_dir=tmp_path)
    with pytest.raises(DevBrokerError, match=r"Invalid value many for configuration num\.io\.threads"):
        broken.start()
    with pytest.raises(DevBrokerError, match="does not run"):
        broken.pid()
    assert (tmp_path / "node-1" / "broker.log").exists()


def test_a_broker_that_does_not_answer_in_time_is_an_error() -> None:
    slow = DevCluster(start_timeout_s=0.01)
    with pytest.raises(DevBrokerError, match="did not answer within 0 s"):
        slow.start()
    with pytest.raises(DevBrokerError, match="was not started"):
        _ = slow.folder


def test_a_port_lost_at_the_last_moment_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        offered = [taken.getsockname()[1]]

        def lose_one(count: int) -> list[int]:
            ports = free_ports(count)
            if offered:
                ports[0] = offered.pop()
            return ports

        monkeypatch.setattr("penstock.devbroker.cluster.free_ports", lose_one)
        with DevCluster() as lucky:
            assert not offered
            assert does_answer(lucky.bootstrap_servers, 10)
        with pytest.raises(DevBrokerError, match="is taken by another process"):
            DevCluster(port=taken.getsockname()[1]).start()


@pytest.mark.parametrize("is_kept", [True, False])
def test_brokers_end_when_their_owner_is_killed(tmp_path: Path, *, is_kept: bool) -> None:
    with owner_process(1 if is_kept else 3, tmp_path if is_kept else None) as (owner, said):
        servers, folder, *pids = said
        assert all(does_answer(server, 10) for server in servers.split(","))
        owner.kill()
        owner.wait()
        wait_until(lambda: not any(does_exist(int(pid)) for pid in pids), "all brokers have ended")
    wait_until(lambda: Path(folder).exists() == is_kept, "only a temporary folder is removed")
    if is_kept:
        assert "shut down" in (Path(folder) / "node-1" / "broker.log").read_text()


@pytest.mark.parametrize("brokers", [1, 3])
def test_brokers_end_with_an_owner_that_forgets_to_stop_them(brokers: int) -> None:
    with owner_process(brokers) as (owner, said):
        _, folder, *pids = said
        assert owner.stdin is not None
        owner.stdin.close()
        assert owner.wait(PATIENCE_S) == 0
    wait_until(lambda: not any(does_exist(int(pid)) for pid in pids), "all brokers have ended")
    wait_until(lambda: not Path(folder).exists(), "the temporary folder is removed")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems cannot tie a child to its parent")
def test_a_broker_ends_with_its_supervisor(own_broker: DevCluster) -> None:
    pid = own_broker.pid()
    assert pid is not None
    stat = Path(f"/proc/{pid}/stat").read_text()
    os.kill(int(stat.rsplit(") ", 1)[1].split()[1]), signal.SIGKILL)
    wait_until(lambda: not does_answer(own_broker.bootstrap_servers), "the broker has ended")
    assert not own_broker.is_alive()


def test_kafka_home_is_used_and_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_cluster: Callable[..., DevCluster]
) -> None:
    libs = tmp_path / "libs"
    libs.mkdir()
    for jar in kafka_jars():
        (libs / jar.name).symlink_to(jar)
    before = sorted(libs.iterdir())
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path))
    assert does_answer(make_cluster().bootstrap_servers, 10)
    assert sorted(libs.iterdir()) == before
