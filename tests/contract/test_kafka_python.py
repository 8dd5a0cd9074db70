"""The internals of kafka-python that penstock relies on. A failure here says what an upgrade would break.

No broker: classes, signatures, and the behaviour of a connection over a socket pair or a local socket.
"""

from __future__ import annotations

import inspect
import re
import selectors
import socket
import struct
import threading
import time
import tomllib
import uuid
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import errors as kafka_errors
from kafka.cluster import ClusterMetadata
from kafka.future import Future
from kafka.net.connection import KafkaConnection
from kafka.net.inet import KafkaNetSocket
from kafka.net.manager import KafkaConnectionManager
from kafka.net.sasl import get_sasl_mechanism
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from kafka.protocol import admin as admin_protocol
from kafka.protocol import consumer as consumer_protocol
from kafka.protocol import metadata as metadata_protocol
from kafka.protocol import producer as producer_protocol
from kafka.protocol import sasl as sasl_protocol
from kafka.protocol.admin import CreateTopicsRequest
from kafka.protocol.consumer import (
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    OffsetFetchRequest,
    OffsetForLeaderEpochRequest,
)
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest, MetadataResponse
from kafka.protocol.parser import KafkaProtocol
from packaging.requirements import Requirement

from penstock.client._kerberos import BegunContext, KerberosMechanism
from penstock.client._logins import TokenId
from penstock.client.net import error_codes, versions
from penstock.client.net._selector import EventLoop
from penstock.client.net._transport import ConnectionManager, FrameParser
from penstock.client.net.broker_errors import is_retriable_code
from penstock.client.produce import verdicts as producer_verdicts
from penstock.client.settings import ConnectionSettings
from penstock.security.kerberos import KerberosLogin
from penstock.testing.fake._apis import served_apis
from penstock.testing.fake._wire import Api, Frame
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).parents[2]


def parameters(function: Any) -> list[str]:
    return list(inspect.signature(function).parameters)


def test_the_version_is_in_the_range_that_was_tried() -> None:
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    [wanted] = [each for each in dependencies if each.startswith("kafka-python")]
    assert Requirement(wanted).specifier.contains(version("kafka-python")), wanted


# ----- names and signatures


def test_manager_signatures() -> None:
    assert parameters(KafkaConnectionManager.__init__) == ["self", "net", "configs"]
    assert parameters(KafkaConnectionManager._build_transport) == ["self", "node", "timeout_at"]
    assert parameters(KafkaConnectionManager.get_connection)[:2] == ["self", "node_id"]
    assert "refresh_metadata_on_err" in parameters(KafkaConnectionManager.get_connection)
    assert parameters(KafkaConnectionManager.close) == ["self", "node_id", "timeout_ms"]
    assert isinstance(inspect.getattr_static(KafkaConnectionManager, "ssl_enabled"), property)


def test_manager_knows_every_setting_that_we_give() -> None:
    given = ConnectionSettings(("h:1",), "id").kafka_python_kwargs()
    assert set(given) <= set(KafkaConnectionManager.DEFAULT_CONFIG)
    assert "ssl_context" in KafkaConnectionManager.DEFAULT_CONFIG


def test_connection_signatures() -> None:
    assert parameters(KafkaConnection.send_request) == ["self", "request", "request_timeout_ms"]
    assert parameters(KafkaConnection.data_received) == ["self", "data"]
    body = inspect.getsource(KafkaConnection)
    for attribute in ("self.parser", "self.paused", "self.connected", "self.transport"):
        assert attribute in body
    assert isinstance(inspect.getattr_static(KafkaConnection, "closed"), property)


def test_transport_hooks_that_we_override() -> None:
    for kind in (KafkaTCPTransport, KafkaSSLTransport):
        assert inspect.iscoroutinefunction(kind._read_from_sock)
        assert inspect.iscoroutinefunction(kind.handshake)
        assert {"is_reading", "is_closing", "get_protocol", "abort"} <= set(dir(kind))
    assert "self._read_from_sock" in inspect.getsource(KafkaTCPTransport.resume_reading)
    assert parameters(KafkaTCPTransport.__init__) == ["self", "net", "sock", "host"]


def test_socket_helpers() -> None:
    assert parameters(KafkaNetSocket.dns_lookup) == ["self", "host", "port", "raise_error"]
    assert parameters(KafkaNetSocket.sock_connect) == ["self", "net", "sock", "sockaddr", "timeout_at"]


def test_selector_signatures() -> None:
    assert parameters(NetworkSelector.call_soon_threadsafe) == ["self", "callback"]
    assert parameters(NetworkSelector.call_later) == ["self", "delay", "task"]
    assert parameters(NetworkSelector.run) == ["self", "coro", "args"]
    assert parameters(NetworkSelector.stop) == ["self", "timeout_ms"]
    assert parameters(NetworkSelector.wait_read) == ["self", "fileobj", "timeout_at"]
    assert {"client_id", "slow_task_threshold_secs"} <= set(NetworkSelector.DEFAULT_CONFIG)


def test_parser_parts_that_ours_takes_over() -> None:
    parser = KafkaProtocol(client_id="x", receive_message_max_bytes=100)
    assert {"_max_frame_size", "in_flight_requests", "_correlation_id", "bytes_to_send"} <= set(vars(parser))
    assert parameters(KafkaProtocol._process_response) == ["self", "read_buffer"]
    assert parameters(KafkaProtocol._validate_frame_size) == ["self", "nbytes"]
    assert "receive_bytes(data)" in inspect.getsource(KafkaConnection.data_received)


def test_requests_have_the_fields_and_versions_that_we_use() -> None:
    wanted: dict[Any, set[str]] = {
        MetadataRequest: {"topics", "allow_auto_topic_creation"},
        FetchRequest: {"max_wait_ms", "min_bytes", "max_bytes", "isolation_level", "rack_id"},
        FetchRequest.FetchTopic: {"topic", "topic_id", "partitions"},
        FetchRequest.FetchTopic.FetchPartition: {"current_leader_epoch", "partition_max_bytes"},
        FetchResponse.FetchableTopicResponse.PartitionData: {
            "error_code", "high_watermark", "last_stable_offset", "log_start_offset", "current_leader",
            "aborted_transactions", "preferred_read_replica", "records",
        },
        ListOffsetsRequest: {"isolation_level", "timeout_ms"},
        OffsetFetchRequest: {"group_id", "topics", "groups", "require_stable"},
        OffsetForLeaderEpochRequest: {"replica_id", "topics"},
        FindCoordinatorRequest: {"key", "key_type", "coordinator_keys"},
        CreateTopicsRequest: {"topics", "timeout_ms", "validate_only"},
    }  # fmt: skip
    for kind, fields in wanted.items():
        assert fields <= set(kind._struct.fields), kind
    assert FetchRequest.max_version >= 16  # leaders as hints
    assert MetadataRequest.max_version >= 10  # topic ids


BOUNDS = {name: it for name, it in vars(versions).items() if isinstance(it, versions.Versions)}
PROTOCOL = (admin_protocol, consumer_protocol, metadata_protocol, producer_protocol, sasl_protocol)


@pytest.mark.parametrize("name", BOUNDS)
def test_versions_that_we_ask_for_can_be_sent(name: str) -> None:
    api, lowest, highest = BOUNDS[name]
    (kind,) = {getattr(room, f"{api}Request") for room in PROTOCOL if hasattr(room, f"{api}Request")}
    assert 0 <= lowest <= kind.max_version
    assert highest is None or max(lowest, kind.min_version) <= highest <= kind.max_version


def test_versions_stand_in_one_table_only() -> None:
    folder = Path(inspect.getfile(versions)).parents[1]
    literal = re.compile(r"\b(min|max)_version\s*=")
    found = {path.name for path in folder.rglob("*.py") if literal.search(path.read_text(encoding="utf-8"))}
    assert not found, "state the bound in penstock.client.net.versions, with its reason"


def test_bounds_are_obeyed_and_narrowed() -> None:
    request = MetadataRequest(topics=[], allow_auto_topic_creation=False, **versions.METADATA.bounds)
    assert (request._min_version, request._max_version) == (4, None)
    by_name = versions.PRODUCE_BY_NAME
    assert versions.PRODUCE.also(by_name) == by_name
    assert versions.PRODUCE_TRANSACTION_V2.also(by_name)[1:] == (12, 12)
    assert versions.PRODUCE_TRANSACTION_V1.also(by_name)[1:] == (3, 11)
    assert versions.PRODUCE_TRANSACTION_V2.also(versions.PRODUCE)[1:] == (12, None)
    assert [version for version in range(20) if by_name.has(version)] == list(range(3, 13))
    assert versions.METADATA_RELIABLE_EPOCHS.has(13)
    assert not versions.METADATA_RELIABLE_EPOCHS.has(8)


def test_error_codes_carry_what_we_ask_of_them() -> None:
    kinds = {code: kafka_errors.for_code(code) for code in range(-1, 109) if code != 0}
    for code, kind in kinds.items():
        assert kind.errno == code
        assert issubclass(kind, kafka_errors.BrokerResponseError)
    for name in (
        "NotLeaderForPartitionError", "FencedLeaderEpochError", "UnknownLeaderEpochError",
        "OffsetNotAvailableError", "LeaderNotAvailableError", "KafkaStorageError", "RequestTimedOutError",
        "CoordinatorLoadInProgressError", "NotCoordinatorError", "UnstableOffsetCommitError",
        "KafkaConnectionError", "NodeNotReadyError",
    ):  # fmt: skip
        assert issubclass(getattr(kafka_errors, name), kafka_errors.RetriableError), name
    for name in ("SaslAuthenticationFailedError", "OffsetOutOfRangeError", "AuthorizationError"):
        assert not issubclass(getattr(kafka_errors, name), kafka_errors.RetriableError), name


OTHER_NAMES = {
    error_codes.UNKNOWN_SERVER_ERROR: "UNKNOWN",
    error_codes.NOT_LEADER_OR_FOLLOWER: "NOT_LEADER_FOR_PARTITION",
    error_codes.MESSAGE_TOO_LARGE: "MESSAGE_SIZE_TOO_LARGE",
    error_codes.INVALID_TOPIC_EXCEPTION: "INVALID_TOPIC",
}
"""Where kafka-python has kept an older name than Kafka's protocol guide."""


def test_our_names_of_error_codes_are_kafka_pythons() -> None:
    theirs = {code: kafka_errors.for_code(code).message for code in error_codes.NAMES}
    assert theirs == error_codes.NAMES | OTHER_NAMES
    assert len(set(error_codes.NAMES.values())) == len(error_codes.NAMES)


def test_a_batch_is_sent_again_for_retriable_answers_only() -> None:
    """The table of the producer and kafka-python's classes agree on what may pass."""
    for code, meaning in producer_verdicts.MEANINGS.items():
        is_sent_again = meaning.verdict is not producer_verdicts.Verdict.FAILED
        assert is_sent_again == is_retriable_code(code), error_codes.NAMES[code]
        assert not meaning.may_be_written or is_sent_again


def test_an_unknown_error_code_is_an_error_and_not_a_crash() -> None:
    assert kafka_errors.for_code(12_345).errno == 12_345


def test_loggers_are_those_that_we_move() -> None:
    from penstock.client.net import _kafka_logs  # noqa: PLC0415  # a private name of ours, for this test only

    folder = Path(inspect.getfile(KafkaConnectionManager)).parent
    for module in ("connection", "inet", "manager", "selector", "transport"):
        source = (folder / f"{module}.py").read_text(encoding="utf-8")
        assert re.search(r"^log = logging.getLogger\(__name__\)", source, re.MULTILINE), module
        assert f"kafka.net.{module}" in _kafka_logs._MOVED


# ----- behaviour


@pytest.fixture(params=[NetworkSelector, EventLoop])
def net(request: pytest.FixtureRequest) -> Iterator[NetworkSelector]:
    selector = request.param(client_id="contract")
    selector.start()
    yield selector
    selector.stop(timeout_ms=5_000)
    selector.close()


def test_callbacks_run_on_the_io_thread_in_order(net: NetworkSelector) -> None:
    seen: list[tuple[int, str]] = []
    done = threading.Event()
    for number in range(100):
        net.call_soon_threadsafe(lambda number=number: seen.append((number, threading.current_thread().name)))
    net.call_soon_threadsafe(done.set)
    assert done.wait(PATIENCE_S)
    assert [number for number, _ in seen] == list(range(100))
    assert {name for _, name in seen} == {"kafka-io-contract"}


def test_run_returns_and_raises(net: NetworkSelector) -> None:
    assert net.run(lambda: 42) == 42

    def fail() -> None:
        raise kafka_errors.KafkaConnectionError("as wanted")

    with pytest.raises(kafka_errors.KafkaConnectionError, match="as wanted"):
        net.run(fail)


def test_a_time_out_reaches_the_task_that_waits(net: NetworkSelector) -> None:
    """Before 3.0.4 the wait returned, as if data had come."""
    ours, theirs = socket.socketpair()

    async def wait() -> None:
        await net.wait_read(ours, timeout_at=time.monotonic())

    with ours, theirs:
        ours.setblocking(False)
        with pytest.raises(kafka_errors.KafkaTimeoutError):
            net.run(wait)


def test_each_of_many_tasks_runs_though_the_loop_sleeps_between_them(net: NetworkSelector) -> None:
    for _ in range(2_000):
        done = threading.Event()
        net.call_soon_threadsafe(done.set)
        assert done.wait(PATIENCE_S)


def test_a_loop_that_was_woken_is_not_woken_again_until_it_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = EventLoop(client_id="contract")  # without a thread
    try:
        seen: list[int] = []
        for number in range(3):
            loop.call_soon_threadsafe(lambda number=number: seen.append(number))
        assert len(loop._wakeup_r.recv(1024)) == 1
        loop.poll(timeout_ms=0)
        assert seen == [0, 1, 2]
        loop.call_soon_threadsafe(lambda: seen.append(3))
        assert len(loop._wakeup_r.recv(1024)) == 1
    finally:
        loop.close()


def test_a_loop_is_woken_again_after_a_wake_up_that_it_took_together_with_an_older_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise the next request waits until a broker sends something, or for minutes."""
    loop = EventLoop(client_id="contract")  # without a thread
    notices = NetworkSelector._process_events

    def notices_late(net: NetworkSelector, events: Any) -> None:
        net.call_soon_threadsafe(lambda: seen.append(1))  # of another thread, before the socket is read
        notices(net, events)

    try:
        seen: list[int] = []
        monkeypatch.setattr(NetworkSelector, "_process_events", notices_late)
        loop.call_soon_threadsafe(lambda: seen.append(0))
        loop.poll(timeout_ms=0)
        assert seen == [0, 1]
        monkeypatch.undo()
        loop.call_soon_threadsafe(lambda: seen.append(2))
        assert len(loop._selector.select(timeout=0)) == 1
    finally:
        loop.close()


def test_a_socket_that_was_closed_first_is_forgotten(net: NetworkSelector) -> None:
    ours, theirs = socket.socketpair()
    selector = net._selector
    with pytest.raises(KeyError):
        selector.get_key(ours)
    net.run(lambda: net.register_event(ours, selectors.EVENT_READ, lambda: None))
    assert selector.get_key(ours).fileobj is ours
    ours.close()
    theirs.close()
    net.run(lambda: net.unregister_event(ours, selectors.EVENT_READ))
    assert ours not in [key.fileobj for key in selector.get_map().values()]


@pytest.mark.parametrize("partitions", [1, 4_000, 20_000])
def test_a_request_may_be_larger_than_the_buffer_that_it_begins_with(partitions: int) -> None:
    """Before 3.0.5 some requests of more than 64 KiB could not be encoded."""
    topic = ListOffsetsRequest.ListOffsetsTopic
    asked = [
        topic.ListOffsetsPartition(version=7, partition_index=number, timestamp=number)
        for number in range(partitions)
    ]
    request = ListOffsetsRequest(
        version=7, isolation_level=0, topics=[topic(version=7, name="t", partitions=asked)]
    )
    request.with_header(correlation_id=1, client_id="c")
    read = ListOffsetsRequest.decode(request.encode(header=True), version=7, header=True)
    assert [each.timestamp for each in read.topics[0].partitions] == list(range(partitions))


def test_a_closed_selector_refuses_work() -> None:
    selector = NetworkSelector()
    selector.start()
    selector.stop()
    selector.close()
    with pytest.raises(RuntimeError):
        selector.call_soon_threadsafe(lambda: None)


def test_futures_call_back_now_or_later() -> None:
    seen: list[Any] = []
    future = Future()
    future.add_callback(seen.append)
    future.success(1)
    future.add_callback(seen.append)
    failed = Future().failure(kafka_errors.KafkaTimeoutError())
    failed.add_errback(seen.append)
    assert seen[:2] == [1, 1]
    assert isinstance(seen[2], kafka_errors.KafkaTimeoutError)


def test_send_on_a_node_in_backoff_is_refused(net: NetworkSelector) -> None:
    manager = KafkaConnectionManager(net, bootstrap_servers=["127.0.0.1:1"])

    def connect_in_backoff() -> None:
        manager.update_backoff("bootstrap-0")
        manager.get_connection("bootstrap-0")

    with pytest.raises(kafka_errors.NodeNotReadyError):
        net.run(connect_in_backoff)
    with pytest.raises(kafka_errors.UnknownBrokerIdError):
        net.run(lambda: manager.get_connection(7))
    net.run(manager.close)


def test_a_broken_connection_fails_its_requests(net: NetworkSelector) -> None:
    """Accept a connection and close it. The request must fail, and the connection must be forgotten."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        manager = ConnectionManager(net, bootstrap_servers=[f"127.0.0.1:{port}"])
        futures: list[Future] = []

        def send() -> None:
            connection = manager.get_connection("bootstrap-0", refresh_metadata_on_err=False)
            futures.append(connection.send_request(MetadataRequest(topics=[])))

        net.run(send)
        failed = threading.Event()
        futures[0].add_errback(lambda _: failed.set())
        server.accept()[0].close()
        assert failed.wait(PATIENCE_S)
        assert isinstance(futures[0].exception, kafka_errors.KafkaConnectionError)
        assert "bootstrap-0" not in net.run(lambda: dict(manager._conns))
        net.run(manager.close)


def test_cluster_takes_brokers_from_metadata_and_keeps_bootstrap_servers() -> None:
    cluster = ClusterMetadata(bootstrap_servers=["h:1"])
    broker = MetadataResponse.MetadataResponseBroker(version=12, node_id=3, host="b", port=9, rack="r")
    response = MetadataResponse(version=12, brokers=[broker], cluster_id="c", controller_id=3, topics=[])
    cluster.update_metadata(response)
    assert [(b.node_id, b.host, b.port) for b in cluster.brokers()] == [(3, "b", 9)]
    assert [b.node_id for b in cluster.bootstrap_brokers()] == ["bootstrap-0"]
    assert cluster.broker_metadata(3).host == "b"
    assert cluster.broker_metadata(4) is None


def test_metadata_never_creates_topics_when_told_so() -> None:
    request = MetadataRequest(topics=[], allow_auto_topic_creation=False, version=4)
    assert request.encode().endswith(b"\x00")


def a_fetch_response(records: bytes) -> Any:
    topic = FetchResponse.FetchableTopicResponse
    hint = topic.PartitionData.LeaderIdAndEpoch(version=16, leader_id=2, leader_epoch=9)
    return FetchResponse(
        version=16,
        throttle_time_ms=0, error_code=0, session_id=0,
        responses=[
            topic(
                version=16,
                topic_id=uuid.uuid4(),
                partitions=[
                    topic.PartitionData(
                        version=16, partition_index=0, error_code=0, high_watermark=5, last_stable_offset=4,
                        log_start_offset=1, aborted_transactions=None, preferred_read_replica=-1,
                        records=records,
                        current_leader=hint,
                    )
                ],
            )
        ],
    )  # fmt: skip


@pytest.mark.parametrize("piece_bytes", [1, 3, 4, 7, 1 << 20])
def test_responses_are_parsed_from_any_pieces(piece_bytes: int) -> None:
    parser = FrameParser(KafkaProtocol(client_id="x", receive_message_max_bytes=1 << 20))
    wire = b""
    for number in range(3):
        request = FetchRequest(
            version=16, max_wait_ms=1, min_bytes=1, isolation_level=0, session_id=0, session_epoch=-1,
            topics=[], forgotten_topics_data=[], rack_id="", max_bytes=1,
        )  # fmt: skip
        correlation_id = parser.send_request(request)
        response = a_fetch_response(b"%d" % number * 1_000)
        response.with_header(correlation_id=correlation_id)
        wire += response.encode(header=True, framed=True)
    parsed = []
    position = 0
    while position < len(wire):
        wanted = parser.wanted()
        size = min(piece_bytes, len(wanted), len(wire) - position)
        wanted[:size] = wire[position : position + size]
        parser.advance(size)
        position += size
        parsed += parser.receive_bytes(b"")
    assert [correlation_id for correlation_id, _ in parsed] == [1, 2, 3]
    for number, (_, response) in enumerate(parsed):
        (partition,) = response.responses[0].partitions
        assert partition.records == b"%d" % number * 1_000
        assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == (2, 9)
        assert (partition.high_watermark, partition.last_stable_offset, partition.log_start_offset) == (
            5,
            4,
            1,
        )
        assert not partition.aborted_transactions


@pytest.mark.parametrize("length", [-1, 101, 2**31 - 1])
def test_a_frame_of_impossible_length_is_refused(length: int) -> None:
    parser = FrameParser(KafkaProtocol(client_id="x", receive_message_max_bytes=100))
    parser.wanted()[:] = struct.pack(">i", length)
    with pytest.raises(kafka_errors.InvalidReceiveError):
        parser.advance(4)
    assert issubclass(kafka_errors.InvalidReceiveError, kafka_errors.KafkaProtocolError)


# ----- the broker's side, for the fake Kafka of penstock.testing

SERVED = served_apis({})


@pytest.mark.parametrize("key", SERVED, ids=lambda key: SERVED[key].api.name)
def test_the_fake_broker_reads_and_answers_every_version(key: int) -> None:
    """Send a request as a client does, read it as a broker does, and the other way round."""
    served = SERVED[key]
    names = (f"{served.api.name}Request", f"{served.api.name}Response")
    request, response = (
        next(getattr(room, name) for room in PROTOCOL if hasattr(room, name)) for name in names
    )
    for each in range(served.lowest, served.highest + 1):
        sent = request(version=each)
        sent.with_header(correlation_id=77, client_id="me")
        frame = Frame.of(sent.encode(header=True))
        assert (frame.api_key, frame.version, frame.correlation_id) == (key, each, 77)
        assert served.api.decode(frame) == sent
        answered = served.api.encode(each, 78, {})
        assert int.from_bytes(answered[:4], "big") == len(answered) - 4
        read = response.decode(answered, version=each, header=True, framed=True)
        assert read.header.correlation_id == 78


def test_an_answer_of_the_fake_broker_has_its_structures() -> None:
    partition = {"partition_index": 3, "records": b"x", "aborted_transactions": None}
    leader = {"leader_id": 2, "leader_epoch": 9}
    topic = {"topic_id": uuid.UUID(int=5), "partitions": [{**partition, "current_leader": leader}]}
    data = Api("Fetch").encode(16, 1, {"responses": [topic]})
    read = FetchResponse.decode(data, version=16, header=True, framed=True).responses[0].partitions[0]
    assert (read.partition_index, read.records, read.current_leader.leader_epoch) == (3, b"x", 9)
    older = FetchResponse.decode(
        Api("Fetch").encode(11, 1, {"responses": [topic]}), version=11, header=True, framed=True
    )
    assert older.responses[0].partitions[0].records == b"x", "fields of later versions are left out"
    with pytest.raises(KeyError):
        Api("Fetch").encode(16, 1, {"no_such_field": 1})


# ----- logins


class ScriptedContext:
    """The part of a security context of `gssapi` that kafka-python uses: one answer, then it is complete."""

    def __init__(self) -> None:
        self.complete = False

    def step(self, message: bytes) -> bytes:
        assert message == b"answer"
        self.complete = True
        return b"proof"

    def unwrap(self, message: bytes) -> Any:
        assert message == b"wrapped offer"
        return SimpleNamespace(message=b"\x07\x00\xff\xff")

    def wrap(self, message: bytes, is_encrypted: bool) -> Any:
        assert not is_encrypted
        return SimpleNamespace(message=b"wrapped " + message)


def test_kerberos_begins_with_our_context_and_goes_on_as_kafka_python_does() -> None:
    begun = BegunContext(KerberosLogin("storm"), "h", ScriptedContext(), b"first")
    mechanism = get_sasl_mechanism("GSSAPI")(host="h", sasl_kerberos_name=begun)
    assert isinstance(mechanism, KerberosMechanism)
    sent = []
    for answer in (b"answer", b"wrapped offer", b""):
        sent.append(mechanism.auth_bytes())
        assert not mechanism.is_done() or answer == b""
        mechanism.receive(answer)
    assert sent == [b"first", b"proof", b"wrapped \x01\x00\xff\xffstorm@h"]
    assert mechanism.is_done()
    assert mechanism.is_authenticated()


def test_the_connection_asks_for_the_mechanism_when_it_logs_in() -> None:
    """Our connection replaces `sasl_kerberos_name` before that."""
    body = inspect.getsource(KafkaConnection._sasl_authenticate)
    assert "get_sasl_mechanism(self.config['sasl_mechanism'])(" in body
    assert "**self.config" in body
    assert parameters(KafkaConnection._sasl_authenticate) == ["self", "timeout_at"]
    assert KafkaConnection.DEFAULT_CONFIG["sasl_kerberos_name"] is None


def scram_exchange(username: str) -> tuple[bytes, bytes]:
    """The first message of a login, and the messages that its proof covers."""
    config = {"sasl_mechanism": "SCRAM-SHA-256", "sasl_plain_username": username, "sasl_plain_password": "p"}
    mechanism = get_sasl_mechanism("SCRAM-SHA-256")(**config)
    first = mechanism.auth_bytes()
    nonce = first.split(b",r=")[1].split(b",")[0]
    mechanism.receive(b"r=" + nonce + b"x,s=c2FsdA==,i=4096")
    return first, mechanism._scram_client.auth_message


def test_a_delegation_token_is_said_in_the_first_message_and_covered_by_the_proof() -> None:
    first, covered = scram_exchange(TokenId("id"))
    assert first.startswith(b"n,,n=id,r=")
    assert first.endswith(b",tokenauth=true")
    assert covered.startswith(first.removeprefix(b"n,,") + b",r=")
    first, covered = scram_exchange("id")
    assert b"tokenauth" not in first + covered


def test_a_broker_that_does_not_know_the_password_is_found_out() -> None:
    config = {"sasl_mechanism": "SCRAM-SHA-256", "sasl_plain_username": "u", "sasl_plain_password": "p"}
    mechanism = get_sasl_mechanism("SCRAM-SHA-256")(**config)
    nonce = mechanism.auth_bytes().split(b",r=")[1]
    mechanism.receive(b"r=" + nonce + b"x,s=c2FsdA==,i=4096")
    mechanism.auth_bytes()
    with pytest.raises(ValueError, match="wrong signature"):
        mechanism.receive(b"v=AAAA")
    assert not mechanism.is_authenticated()
