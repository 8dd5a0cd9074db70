"""Find out the facts about a cluster for the doctor.

Runs on any machine that reaches the brokers. Invariants: changes nothing in Kafka; each question ends within
its time-out, and one that fails leaves the others to be asked.
"""

from __future__ import annotations

import socket
import ssl
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from penstock.client.cluster.health import ask_broker, controller_clock
from penstock.client.cluster.metadata import ClusterMetadata, TopicMetadata, cluster_view, fetch_metadata
from penstock.client.cluster.rights import Operation, describe_group, known_rights
from penstock.client.cluster.topics import may_create
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import connection_settings
from penstock.client.transactions.holders import first_open_transactions
from penstock.client.transactions.limits import broker_config, topic_config
from penstock.client.transactions.rights import may_write_ids
from penstock.doctor._continuous import BROKER_CONFIGS as CONTINUOUS_CONFIGS
from penstock.doctor._exactly_once import BROKER_CONFIGS
from penstock.doctor._gather_continuous import ContinuousSubjects, continuous_facts
from penstock.doctor._topics import TOPIC_CONFIGS
from penstock.doctor.facts import (
    BrokerFacts,
    ClockFacts,
    ContinuousFacts,
    Facts,
    GroupFacts,
    HolderFacts,
    PrefixFacts,
    PythonFacts,
    SparkFacts,
    TlsFacts,
    TopicFacts,
)
from penstock.errors import (
    AuthenticationError,
    AuthorizationError,
    PenstockError,
    UnknownTopicOrPartitionError,
)
from penstock.options.by_hand import ByHand
from penstock.options.properties import property_value
from penstock.security.principal import certificate_expiry
from penstock.sink.exactly_once.by_hand import transaction_tools
from penstock.sink.exactly_once.driver_side import ExactlyOnceSettings, log_topic_of
from penstock.sink.exactly_once.names import how_to_end_open
from penstock.types import TopicPartition

if TYPE_CHECKING:
    from penstock.options.config import KafkaProperties

PACKAGES = ("pyspark-penstock", "pyspark", "pandas", "pyarrow", "kafka-python", "cramjam")
_TIMEOUT_MS = 10_000
_TASKS = 64
_CONFIGS = frozenset((*BROKER_CONFIGS, *CONTINUOUS_CONFIGS))


@dataclass(frozen=True)
class Subjects:
    """What the user asks about. A continuous query has a group.

    Attributes:
        topics: that are read, or all of them.
        group_id: of the query.
        prefix: of its transactional ids.
        log_topic: of its decisions.
        targets: that are written, if they are named apart.
        is_continuous: whether it is a continuous query.
    """

    topics: tuple[str, ...] = ()
    group_id: str | None = None
    prefix: str | None = None
    log_topic: str | None = None
    targets: tuple[str, ...] = ()
    is_continuous: bool = False


def gather(properties: KafkaProperties, wanted: Subjects) -> Facts:
    """Ask the cluster. Raises OptionError if a property is missing, malformed or contradicts another."""
    settings = connection_settings(properties, client_id="penstock-doctor")
    tls = settings.security.tls
    identity = "" if tls is None else tls.identity or ""
    about_us = Facts(
        now=datetime.now(UTC),
        servers=", ".join(settings.bootstrap_servers),
        login=settings.principal or "this user",
        certificate_expires_at=certificate_expiry(identity),
        wanted_timeout_ms=property_value(properties, "transaction.timeout.ms"),
        driver=python_facts("here"),
        spark=spark_facts(),
    )
    connections = KafkaConnections(settings)
    try:
        try:
            cluster = fetch_metadata(connections, [], timeout_ms=_TIMEOUT_MS)
        except PenstockError as error:
            return replace(about_us, connect_error=error.message)
        topics = tuple(topic_facts(connections, each) for each in wanted.topics)
        group = None if wanted.group_id is None else _group(connections, wanted.group_id)
        return replace(
            about_us,
            brokers=tuple(_broker(connections, cluster, node_id) for node_id in sorted(cluster.brokers)),
            topics=topics,
            targets=tuple(topic_facts(connections, each) for each in wanted.targets),
            group=group,
            prefix=None if wanted.prefix is None or wanted.is_continuous else _prefix(connections, wanted),
            continuous=_continuous(connections, wanted, group, topics, about_us.wanted_timeout_ms),
            clock=_clock(connections),
        )
    finally:
        connections.close()


def python_facts(where: str) -> PythonFacts:
    python = ".".join(map(str, sys.version_info[:3]))
    return PythonFacts(where, python, {name: _installed(name) for name in PACKAGES})


def spark_facts() -> SparkFacts:
    """Look at the PySpark of this process, without starting it."""
    from penstock._pyspark import check_pyspark, version_and_folder  # noqa: PLC0415 - lazy

    try:
        check_pyspark()
    except ImportError as error:
        return SparkFacts(error=str(error))
    from penstock.spark.versions import missing  # noqa: PLC0415 - it needs PySpark

    return SparkFacts(version_and_folder(), tuple(missing()))


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _broker(connections: KafkaConnections, cluster: ClusterMetadata, node_id: int) -> BrokerFacts:
    at = cluster.brokers[node_id]
    address = f"{at.host}:{at.port}"
    security = connections.settings.security
    tls = None if security.tls is None else shake_hands(security.tls.ssl_context(), at.host, at.port)
    try:
        answer = ask_broker(connections, node_id, timeout_ms=_TIMEOUT_MS)
        config = broker_config(connections, node_id, _CONFIGS, timeout_ms=_TIMEOUT_MS)
    except PenstockError as error:
        is_refused = isinstance(error, AuthenticationError)
        return BrokerFacts(node_id, address, error.message, is_login_refused=is_refused, tls=tls)
    return BrokerFacts(node_id, address, kafka_version=answer.kafka_version, tls=tls, config=config)


def topic_facts(connections: KafkaConnections, topic: str) -> TopicFacts:
    """Ask about one topic."""
    try:
        view = cluster_view(connections)
        found = view.topics([topic], with_rights=True, timeout_ms=_TIMEOUT_MS)[topic]
        config = topic_config(connections, topic, TOPIC_CONFIGS, timeout_ms=_TIMEOUT_MS)
    except UnknownTopicOrPartitionError:
        return TopicFacts(topic, is_missing=True)
    except PenstockError as error:
        return TopicFacts(topic, error=error.message)
    return TopicFacts(
        topic,
        partition_count=len(found.partitions),
        replicas=min((len(each.replica_ids) for each in found.partitions.values()), default=0),
        leaderless=_leaderless(found),
        rights=known_rights(found.authorized_operations),
        config=config,
        holders=_holders(connections, _with_leader(found)),
    )


def _with_leader(topic: TopicMetadata) -> list[TopicPartition]:
    leaderless = _leaderless(topic)
    return [TopicPartition(topic.topic, number) for number in topic.partitions if number not in leaderless]


def _holders(
    connections: KafkaConnections, topic_partitions: list[TopicPartition]
) -> tuple[HolderFacts, ...]:
    servers = ",".join(connections.settings.bootstrap_servers)
    by_hand = ByHand(servers, connections.settings.security.protocol != "PLAINTEXT")
    found = first_open_transactions(connections, topic_partitions, timeout_ms=_TIMEOUT_MS)
    return tuple(
        HolderFacts(
            f"{tp}, offset {each.first_offset}",
            f"transaction {each.transactional_id or 'which no coordinator shows'} (producer "
            f"{each.producer_id})",
            each.open_since_ms,
            how_to_end_open(
                tp, each.first_offset, each.transactional_id, by_hand, is_looked_up=each.is_looked_up
            ),
        )
        for tp, each in sorted(found.items())
        if each is not None
    )


def _leaderless(topic: TopicMetadata) -> tuple[int, ...]:
    return tuple(sorted(number for number, each in topic.partitions.items() if each.leader_id < 0))


def _group(connections: KafkaConnections, group_id: str) -> GroupFacts:
    try:
        found = describe_group(connections, group_id, timeout_ms=_TIMEOUT_MS)
    except PenstockError as error:
        return GroupFacts(group_id, error=error.message)
    may_describe = None if found.rights is None else Operation.DESCRIBE in found.rights
    may_read = None if found.rights is None else Operation.READ in found.rights
    return GroupFacts(group_id, "", found.member_count, may_describe, may_read)


def _prefix(connections: KafkaConnections, wanted: Subjects) -> PrefixFacts:
    settings = ExactlyOnceSettings(connections.settings, wanted.prefix or "", wanted.log_topic)
    log_topic = log_topic_of(settings)
    tools = transaction_tools(settings, connections)
    try:
        refused = may_write_ids(connections, settings.prefix, timeout_ms=_TIMEOUT_MS)
        if refused is not None:
            return PrefixFacts(settings.prefix, log_topic, write_error=refused.message)
        problem = tools.log_problem() or ""
        opened = [] if problem else tools.open_transactions()
        log = topic_facts(connections, log_topic) if not problem and tools.has_log() else None
        can_create = may_create(connections, log_topic, timeout_ms=_TIMEOUT_MS) if log is None else None
    except PenstockError as error:
        return PrefixFacts(settings.prefix, log_topic, error=error.message)
    return PrefixFacts(
        settings.prefix,
        log_topic,
        log_problem=problem,
        has_log=log is not None,
        may_create_log=can_create,
        log_rights=None if log is None else log.rights,
        log=log,
        open_since_ms=tuple(each.description.started_at_ms for each in opened),
        recover_command=settings.names.command("recover", "--yes"),
    )


def _continuous(
    connections: KafkaConnections,
    wanted: Subjects,
    group: GroupFacts | None,
    sources: tuple[TopicFacts, ...],
    timeout_ms: int | None,
) -> ContinuousFacts | None:
    if not wanted.is_continuous or group is None:
        return None
    subjects = ContinuousSubjects(group.group_id, wanted.prefix or group.group_id)
    return continuous_facts(connections, subjects, group, sources, topic_facts, timeout_ms, _TIMEOUT_MS)


def _clock(connections: KafkaConnections) -> ClockFacts:
    try:
        reading = controller_clock(connections, timeout_ms=_TIMEOUT_MS)
    except AuthorizationError:
        return ClockFacts(error="the user lacks the right DESCRIBE on the cluster.")
    except PenstockError as error:
        return ClockFacts(error=error.message)
    if reading is None:
        return ClockFacts(error="the cluster does not tell its time.")
    middle_ms = (reading.before_ms + reading.after_ms) // 2
    return ClockFacts(reading.broker_ms - middle_ms, reading.after_ms - reading.before_ms)


_HANDSHAKE_TIMEOUT_S = 10.0


def shake_hands(context: ssl.SSLContext, host: str, port: int) -> TlsFacts:
    """Return what a handshake shows; its error if it fails. Sends nothing after it."""
    try:
        with (
            socket.create_connection((host, port), timeout=_HANDSHAKE_TIMEOUT_S) as plain,
            context.wrap_socket(plain, server_hostname=host) as sock,
        ):
            shown = sock.getpeercert() or {}
            return TlsFacts(sock.version() or "", _expiry(shown.get("notAfter")))
    except ssl.SSLCertVerificationError as error:
        return TlsFacts(error=f"the broker's certificate is refused: {error.verify_message}.")
    except ssl.SSLError as error:
        return TlsFacts(error=f"the TLS handshake failed: {error.reason or error}.")
    except OSError:
        return TlsFacts()  # the broker's own line says that it cannot be reached


def _expiry(text: object) -> datetime | None:
    if not isinstance(text, str):
        return None
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(text), UTC)


def worker_facts(spark: Any, task_count: int = _TASKS) -> tuple[PythonFacts, ...]:
    """Return one entry for each host and kind of Python that answered a small job.

    The tasks need nothing of penstock, because it may be missing there.

    Args:
        spark: a session, classic or Connect.
        task_count: of the job; with more than there are cores, each executor is likely to run one.
    """
    import pyarrow as pa  # noqa: PLC0415 - lazy

    names = list(PACKAGES)

    def look(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import importlib.metadata  # noqa: PLC0415 - on the executor
        import platform  # noqa: PLC0415
        import socket  # noqa: PLC0415

        import pyarrow  # noqa: PLC0415

        for _ in batches:
            pass
        found = {}
        for name in names:
            try:
                found[name] = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                found[name] = ""
        row = {
            "host": [socket.gethostname()],
            "python": [platform.python_version()],
            "packages": [repr(found)],
        }
        yield pyarrow.RecordBatch.from_pydict(row)

    schema = "host STRING, python STRING, packages STRING"
    try:
        asked = spark.range(0, task_count, 1, task_count).mapInArrow(look, schema)
    except ImportError as error:
        from penstock._pyspark import explain_import_error  # noqa: PLC0415 - only then

        explain_import_error(error)
        raise
    rows = asked.distinct().collect()
    return tuple(_facts(row) for row in sorted(rows, key=str))


def _facts(row: Any) -> PythonFacts:
    import ast  # noqa: PLC0415 - lazy

    found: dict[str, str] = ast.literal_eval(row.packages)
    return PythonFacts(row.host, row.python, {name: text or None for name, text in found.items()})
