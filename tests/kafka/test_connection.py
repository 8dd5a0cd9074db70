"""Connections on a real broker: answers, clear errors, and nothing left behind."""

from __future__ import annotations

import dataclasses
import logging
import os
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.metadata import MetadataRequest

from penstock.client.cluster.log_offsets import describe_topics
from penstock.client.cluster.metadata import cluster_view, fetch_metadata
from penstock.client.net import _outages as outages
from penstock.client.net import connection
from penstock.client.net.connection import (
    KafkaConnections,
    PendingResponse,
    close_shared_connections,
    connections_for,
)
from penstock.client.settings import ConnectionSettings, connection_settings
from penstock.devbroker import DevCluster
from penstock.errors import (
    AuthenticationError,
    AuthorizationError,
    BrokerUnavailableError,
    ClientError,
    PenstockError,
    RequestTimeoutError,
    UnsupportedBrokerError,
)
from penstock.options.config import KafkaProperties
from penstock.types import TopicPartition
from tests import judge
from tests.fault_proxy import proxies_for, route
from tests.fix_broker import MakeTopic
from tests.records import connected
from tests.waiting import PATIENCE_S, wait_until

IO_THREAD = "penstock-io"


def brokers_only() -> Any:
    return MetadataRequest(topics=[], allow_auto_topic_creation=False)


def io_threads() -> int:
    return sum(IO_THREAD in thread.name for thread in threading.enumerate())


def open_sockets() -> int:
    return sum("socket:" in target(link) for link in Path("/proc/self/fd").iterdir())


def target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:  # it was closed meanwhile
        return ""


@pytest.fixture
def connections(bootstrap: str) -> Iterator[KafkaConnections]:
    with connected(bootstrap) as opened:
        yield opened


def test_any_broker_answers(connections: KafkaConnections) -> None:
    response = connections.request(brokers_only())
    assert [broker.node_id for broker in response.brokers] == [1]
    connections.learn_brokers(response)
    assert connections.knows_broker(1)
    assert not connections.knows_broker(2)
    assert connections.request(brokers_only(), node_id=1).cluster_id == response.cluster_id


def test_asking_creates_no_topic(bootstrap: str, topic_name: str) -> None:
    with connected(bootstrap) as connections:
        assert fetch_metadata(connections, [topic_name]).topics[topic_name].error_code == 3
        assert topic_name not in describe_topics(connections)


def test_responses_come_in_the_order_of_their_requests(connections: KafkaConnections) -> None:
    connections.learn_brokers(connections.request(brokers_only()))
    done: list[int] = []
    pendings = [connections.send(brokers_only(), 1) for _ in range(200)]
    for number, pending in enumerate(pendings):
        pending.add_done_callback(lambda _, number=number: done.append(number))  # type: ignore[misc]  # bound by default
    assert {len(pending.result().brokers) for pending in pendings} == {1}
    wait_until(lambda: len(done) == 200, "all callbacks ran")
    assert sorted(done) == list(range(200))


def test_a_callback_that_fails_harms_no_other(
    connections: KafkaConnections, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: PendingResponse) -> None:
        raise ValueError("as wanted")

    called = threading.Event()
    pending = connections.send(brokers_only(), "bootstrap-0")
    pending.add_done_callback(fail)
    pending.add_done_callback(lambda _: called.set())
    assert pending.result().brokers
    assert called.wait(PATIENCE_S)
    assert connections.request(brokers_only()).brokers
    assert "a callback failed" in caplog.text


# ----- no broker there, or the wrong one


def test_no_broker_is_named_in_time() -> None:
    with connected("127.0.0.1:1,localhost:2") as connections:
        started = time.monotonic()
        with pytest.raises(BrokerUnavailableError) as caught:
            connections.request(brokers_only(), timeout_ms=1_000)
        assert 0.9 < time.monotonic() - started < 20
    for part in ("127.0.0.1:1, localhost:2", "within 1000 ms", "ECONNREFUSED", "security.protocol"):
        assert part in str(caught.value)


def test_what_cannot_be_reached_is_said_before_the_time_is_over(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(outages, "_said_at_s", {})
    with connected("127.0.0.1:1") as connections, pytest.raises(BrokerUnavailableError):
        connections.request(brokers_only(), timeout_ms=4_000)
    (said,) = [text for text in caplog.messages if "Cannot reach" in text]
    assert re.fullmatch(
        r"Cannot reach 127\.0\.0\.1:1 \(111 ECONNREFUSED\); trying for another [12] s\.", said
    )


def test_one_that_does_not_answer_is_named_while_we_wait(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(outages, "_said_at_s", {})
    monkeypatch.setattr(connection, "_SILENCE_MS", 200)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = f"127.0.0.1:{silent.getsockname()[1]}"
        with connected(server) as connections, pytest.raises(BrokerUnavailableError):
            connections.request(brokers_only(), timeout_ms=1_500)
    assert any(f"{server}: no answer for 0 s; waiting for another 1 s." in text for text in caplog.messages)


NOT_READY = BrokerUnavailableError("Not ready.", kafka_error="NodeNotReadyError")
REFUSED = BrokerUnavailableError("ECONNREFUSED.")
CUT_SHORT = RequestTimeoutError("No answer within 3 ms.")


@pytest.mark.parametrize(
    ("errors", "told"),
    [
        ([NOT_READY, REFUSED, NOT_READY, *[CUT_SHORT] * 99], "ECONNREFUSED"),
        ([NOT_READY, *[CUT_SHORT] * 99], "No answer within 3 ms"),
        ([NOT_READY] * 99, "Not ready"),
    ],
)
def test_what_says_nothing_does_not_hide_why_no_broker_answers(
    monkeypatch: pytest.MonkeyPatch, errors: list[PenstockError], told: str
) -> None:
    left = iter(errors)

    def send(request: Any, node_id: int | str, timeout_ms: int | None = None) -> PendingResponse:
        pending = PendingResponse("a request", 1_000)
        pending.fail(next(left))
        return pending

    with connected("127.0.0.1:1,localhost:2") as connections:
        monkeypatch.setattr(connections, "send", send)
        with pytest.raises(BrokerUnavailableError, match=rf"localhost:2\)\. {told}"):
            connections.request(brokers_only(), timeout_ms=500)


def test_an_unknown_host_is_named_in_time() -> None:
    with (
        connected("no-such-host.invalid:9092") as connections,
        pytest.raises(BrokerUnavailableError, match=r"no-such-host\.invalid.*DNS"),
    ):
        connections.request(brokers_only(), timeout_ms=1_000)


def test_the_controller_port_is_not_a_broker(broker: DevCluster) -> None:
    properties = (broker.folder / "node-1" / "server.properties").read_text(encoding="utf-8")
    (port,) = (
        line.rsplit(":", 1)[1]
        for line in properties.replace("\\", "").splitlines()
        if line.startswith("controller.quorum.voters=")
    )
    with (
        connected(f"127.0.0.1:{port}") as connections,
        pytest.raises(UnsupportedBrokerError, match="does not support the 'MetadataRequest'"),
    ):
        connections.request(brokers_only(), timeout_ms=5_000)


def test_a_server_of_another_kind_is_an_error_in_time() -> None:
    """Run a server that answers with text, like an HTTP server."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            try:
                while True:
                    client, _ = server.accept()
                    with client:
                        client.recv(1_000)
                        client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            except OSError:
                return

        thread = threading.Thread(target=answer)
        thread.start()
        port = server.getsockname()[1]
        with (
            connected(f"127.0.0.1:{port}") as connections,
            pytest.raises(ClientError, match="not a Kafka response"),
        ):
            connections.request(brokers_only(), timeout_ms=1_000)
        server.shutdown(socket.SHUT_RDWR)
        thread.join(PATIENCE_S)


def test_a_server_that_stays_silent_is_an_error_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with connected(f"127.0.0.1:{port}") as connections:
            started = time.monotonic()
            with pytest.raises(BrokerUnavailableError, match="no answer within"):
                connections.request(brokers_only(), timeout_ms=800)
            assert time.monotonic() - started < 20


def test_a_bootstrap_server_that_is_down_does_not_matter(bootstrap: str) -> None:
    for servers in (f"127.0.0.1:1,{bootstrap}", f"{bootstrap},127.0.0.1:1"):
        with connected(servers) as connections:
            assert connections.request(brokers_only(), timeout_ms=10_000).brokers


def test_an_unknown_node_fails_at_once(connections: KafkaConnections) -> None:
    with pytest.raises(BrokerUnavailableError, match="broker 99"):
        connections.send(brokers_only(), 99).result(5_000)


# ----- brokers that fail meanwhile


def test_a_broker_that_does_not_answer_is_a_timeout_and_then_usable_again(mortal_broker: DevCluster) -> None:
    with connected(mortal_broker.bootstrap_servers) as connections:
        connections.learn_brokers(connections.request(brokers_only()))
        mortal_broker.pause()
        started = time.monotonic()
        with pytest.raises(RequestTimeoutError):
            connections.request(brokers_only(), node_id=1, timeout_ms=500)
        assert time.monotonic() - started < 20
        mortal_broker.resume()
        assert connections.request(brokers_only()).brokers


def test_a_broker_that_dies_fails_what_is_in_flight_and_is_found_again(mortal_broker: DevCluster) -> None:
    with connected(mortal_broker.bootstrap_servers) as connections:
        connections.learn_brokers(connections.request(brokers_only()))
        mortal_broker.pause()
        pendings = [connections.send(brokers_only(), 1) for _ in range(3)]
        mortal_broker.kill()
        for pending in pendings:
            with pytest.raises(BrokerUnavailableError):
                pending.result(10_000)
        mortal_broker.restart()
        assert connections.request(brokers_only()).brokers


def test_a_held_connection_answers_when_it_is_released(bootstrap: str) -> None:
    (proxy,) = proxies_for(bootstrap)
    with proxy, route(proxy), connected(bootstrap) as connections:
        connections.learn_brokers(connections.request(brokers_only()))
        proxy.hold()
        pending = connections.send(brokers_only(), 1)
        with pytest.raises(RequestTimeoutError):
            pending.result(200)
        assert not pending.is_done
        proxy.release()
        assert pending.result(10_000).brokers


# ----- ending


def test_closing_leaves_no_thread_and_no_socket(bootstrap: str) -> None:
    threads, sockets = io_threads(), open_sockets()
    for _ in range(20):
        with connected(bootstrap) as connections:
            connections.learn_brokers(connections.request(brokers_only()))
            assert cluster_view(connections) is cluster_view(connections)
            connections.request(brokers_only(), node_id=1)
    assert io_threads() == threads
    wait_until(lambda: open_sockets() <= sockets, "the sockets are closed")


def test_closing_fails_what_waits_and_refuses_the_rest(bootstrap: str) -> None:
    (proxy,) = proxies_for(bootstrap)
    with proxy, route(proxy), connected(bootstrap) as connections:
        connections.request(brokers_only())
        proxy.hold()
        pending = connections.send(brokers_only(), "bootstrap-0")
        closer = threading.Timer(0.2, connections.close)
        closer.start()
        with pytest.raises(BrokerUnavailableError):
            pending.result(10_000)
        closer.join()
        connections.close()
        for refused in (connections.send(brokers_only(), 1), connections.send(brokers_only(), "bootstrap-0")):
            with pytest.raises(BrokerUnavailableError, match="closed"):
                refused.result(1_000)
        with pytest.raises(BrokerUnavailableError, match="closed"):
            connections.request(brokers_only(), timeout_ms=30_000)


def test_closing_ends_an_endless_retry(bootstrap: str) -> None:
    with connected("127.0.0.1:1") as connections:
        closer = threading.Timer(0.3, connections.close)
        closer.start()
        with pytest.raises(BrokerUnavailableError, match="closed"):
            connections.request(brokers_only(), timeout_ms=60_000)
        closer.join()


def test_equal_settings_share_connections(bootstrap: str) -> None:
    close_shared_connections()
    settings = ConnectionSettings((bootstrap,), "shared")
    first = connections_for(settings)
    assert connections_for(dataclasses.replace(settings)) is first
    other = connections_for(dataclasses.replace(settings, client_id="other"))
    assert other is not first
    first.close()
    assert connections_for(settings) is not first
    close_shared_connections()
    assert other.is_closed


def test_a_forked_child_opens_its_own_and_leaves_the_parents_alone(bootstrap: str) -> None:
    settings = ConnectionSettings((bootstrap,), "forked")
    parents = connections_for(settings)
    parents.learn_brokers(parents.request(brokers_only()))
    pid = os.fork()
    if pid == 0:  # the child must not return into pytest
        try:
            own = connections_for(settings)
            is_fine = own is not parents and bool(own.request(brokers_only(), timeout_ms=20_000).brokers)
            own.close()
            parents.close()
            os._exit(0 if is_fine else 1)
        except BaseException:  # noqa: BLE001  # whatever it is, the parent is told by the exit code
            os._exit(2)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert parents.request(brokers_only(), node_id=1).brokers
    close_shared_connections()


def test_kafka_python_does_not_log_beside_us(caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.DEBUG),
        connected("127.0.0.1:1") as connections,
        pytest.raises(BrokerUnavailableError),
    ):
        connections.request(brokers_only(), timeout_ms=300)
    assert {record.name.split(".")[0] for record in caplog.records if record.levelno > logging.DEBUG} <= {
        "penstock"
    }
    assert any(record.name == "penstock.client.kafka_python" for record in caplog.records)


def test_each_broker_gets_the_version_that_it_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    """During an upgrade of a cluster, the second broker that is asked may be older than the first."""
    asked: list[Any] = []

    def send(_: KafkaConnections, request: Any, node_id: int | str, timeout_ms: int) -> PendingResponse:
        asked.append(request.API_VERSION)
        request.API_VERSION = 9  # as kafka-python does
        pending = PendingResponse(f"asking {node_id}", timeout_ms)
        if len(asked) > 1:
            pending.succeed("an answer")
        else:
            pending.fail(BrokerUnavailableError("connection lost"))
        return pending

    monkeypatch.setattr(KafkaConnections, "send", send)
    with connected("127.0.0.1:1,127.0.0.1:2") as connections:
        assert connections.request(brokers_only(), timeout_ms=5_000) == "an answer"
    assert asked == [None, None]


# ----- who we are

SASL_PROPERTIES = {
    "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'user_writer="writer-secret" user_guest="guest-secret";'
    ),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:writer",
}
PASSWORD = "key-store-secret"  # noqa: S105  # of a key made for this test


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[DevCluster, str]]:
    """A broker with SASL and TLS listeners and an authorizer; with its certificate as PEM."""
    store, pem = make_key_store(tmp_path_factory.mktemp("tls"))
    tls = {
        "listener.name.tls.ssl.keystore.location": str(store),
        "listener.name.tls.ssl.keystore.password": PASSWORD,
        "listener.name.tls.ssl.key.password": PASSWORD,
        "listener.name.tls.ssl.keystore.type": "PKCS12",
    }
    listeners = {"SASL": "SASL_PLAINTEXT", "TLS": "SSL"}
    with DevCluster(properties={**SASL_PROPERTIES, **tls}, listeners=listeners) as cluster:
        yield cluster, pem


def make_key_store(folder: Path) -> tuple[Path, str]:
    keytool = shutil.which("keytool")
    assert keytool, "keytool comes with Java"
    store = folder / "broker.p12"
    common = ["-keystore", str(store), "-storepass", PASSWORD, "-alias", "broker"]
    subprocess.run(
        [keytool, "-genkeypair", *common, "-keyalg", "RSA", "-storetype", "PKCS12", "-validity", "7",
         "-dname", "CN=localhost", "-ext", "SAN=ip:127.0.0.1,dns:localhost"],
        check=True, capture_output=True,
    )  # fmt: skip
    pem = subprocess.run(
        [keytool, "-exportcert", "-rfc", *common], check=True, capture_output=True, text=True
    )
    return store, pem.stdout


def with_properties(**properties: str) -> KafkaConnections:
    items = tuple((name.replace("_", "."), value) for name, value in properties.items())
    return KafkaConnections(connection_settings(KafkaProperties(items), client_id="test"))


def plain(user: str, password: str) -> str:
    return (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="{user}" password="{password}";'
    )


def ask(connections: KafkaConnections, timeout_ms: int = 10_000) -> Any:
    try:
        return connections.request(brokers_only(), timeout_ms=timeout_ms)
    finally:
        connections.close()


def test_the_right_password_is_accepted(secured: tuple[DevCluster, str]) -> None:
    servers = secured[0].bootstrap_servers_of("SASL")
    right = with_properties(
        bootstrap_servers=servers,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_jaas_config=plain("writer", "writer-secret"),
    )
    assert ask(right).brokers


def test_no_password_gets_into_a_log(
    secured: tuple[DevCluster, str], caplog: pytest.LogCaptureFixture
) -> None:
    """kafka-python logs requests, and raw what it sends."""
    with caplog.at_level(logging.DEBUG):
        logged_in = with_properties(
            bootstrap_servers=secured[0].bootstrap_servers_of("SASL"),
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_jaas_config=plain("writer", "writer-secret"),
        )
        assert ask(logged_in).brokers
    assert "SaslAuthenticateRequest" in caplog.text
    assert "writer-secret" not in caplog.text


@pytest.mark.parametrize(
    ("mechanism", "advice"), [("PLAIN", "sasl.jaas.config"), ("SCRAM-SHA-256", "sasl.mechanism")]
)
def test_a_wrong_password_or_mechanism_is_an_error_at_once(
    secured: tuple[DevCluster, str], mechanism: str, advice: str
) -> None:
    module = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
    wrong = with_properties(
        bootstrap_servers=secured[0].bootstrap_servers_of("SASL"),
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        sasl_jaas_config=plain("writer", "wrong-secret").replace("plain.Plain", module),
    )
    started = time.monotonic()
    with pytest.raises(AuthenticationError) as caught:
        ask(wrong, 60_000)
    assert time.monotonic() - started < 20
    assert advice in str(caught.value)
    assert "wrong-secret" not in str(caught.value)


def test_what_is_not_allowed_is_named(secured: tuple[DevCluster, str], topic_name: str) -> None:
    cluster, _ = secured
    judge.create_topic(cluster.bootstrap_servers, topic_name)
    guest = with_properties(
        bootstrap_servers=cluster.bootstrap_servers_of("SASL"),
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_jaas_config=plain("guest", "guest-secret"),
    )
    try:
        with pytest.raises(AuthorizationError, match=f"'{topic_name}'.*Ask for READ .*user is User:guest"):
            cluster_view(guest).leader_of(TopicPartition(topic_name, 0))
    finally:
        guest.close()


def test_tls_with_the_right_certificate(secured: tuple[DevCluster, str]) -> None:
    cluster, pem = secured
    trusting = with_properties(
        bootstrap_servers=cluster.bootstrap_servers_of("TLS"),
        security_protocol="SSL",
        ssl_truststore_type="PEM",
        ssl_truststore_certificates=pem,
    )
    topics = 300
    with_many = [f"unknown-{number}" for number in range(topics)]
    try:
        # Several responses, each of many TLS records.
        for _ in range(3):
            assert len(fetch_metadata(trusting, with_many).topics) == topics
    finally:
        trusting.close()


@pytest.mark.promise
def test_a_certificate_that_is_not_trusted_is_an_error_at_once(secured: tuple[DevCluster, str]) -> None:
    started = time.monotonic()
    with pytest.raises(AuthenticationError, match=r"certificate verify failed.*truststore"):
        ask(
            with_properties(
                bootstrap_servers=secured[0].bootstrap_servers_of("TLS"), security_protocol="SSL"
            ),
            60_000,
        )
    assert time.monotonic() - started < 20


LOGIN = {"sasl_mechanism": "PLAIN", "sasl_jaas_config": plain("writer", "writer-secret")}


@pytest.mark.parametrize(
    ("listener", "protocol", "login"),
    [
        ("TLS", "PLAINTEXT", {}),
        ("SASL", "PLAINTEXT", {}),
        ("PLAINTEXT", "SSL", {}),
        ("PLAINTEXT", "SASL_PLAINTEXT", LOGIN),
        ("TLS", "SASL_PLAINTEXT", LOGIN),
        ("SASL", "SASL_SSL", LOGIN),
    ],
)
def test_the_wrong_security_protocol_is_an_error_in_time(
    secured: tuple[DevCluster, str], listener: str, protocol: str, login: dict[str, str]
) -> None:
    servers = secured[0].bootstrap_servers_of(listener)
    started = time.monotonic()
    with pytest.raises(ClientError, match=r"security\.protocol"):
        ask(with_properties(bootstrap_servers=servers, security_protocol=protocol, **login), 3_000)
    assert time.monotonic() - started < 20


def test_two_threads_may_ask_at_once(connections: KafkaConnections, make_topic: MakeTopic) -> None:
    topics = [make_topic(suffix=str(number)) for number in range(4)]
    found: list[int] = []

    def look_up() -> None:
        view = cluster_view(connections)
        found.extend(view.leader_of(TopicPartition(topic, 0)).node_id for topic in topics * 20)

    threads = [threading.Thread(target=look_up) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert found == [1] * (6 * 4 * 20)
