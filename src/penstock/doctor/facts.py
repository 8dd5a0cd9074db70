"""What the doctor has found out about a cluster, before it judges.

Pure. Invariant: holds no secret. A fact that could not be found out is None, and its `error` says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

Config = Mapping[str, str | None]


@dataclass(frozen=True)
class TlsFacts:
    """One TLS handshake. `expires_at` is of the certificate that the broker shows."""

    version: str = ""
    expires_at: datetime | None = None
    error: str = ""


@dataclass(frozen=True)
class BrokerFacts:
    """One broker at its advertised address. `error` empty: it has answered there, with our login."""

    node_id: int
    address: str
    error: str = ""
    is_login_refused: bool = False
    kafka_version: str | None = None
    tls: TlsFacts | None = None
    config: Config | None = None


@dataclass(frozen=True)
class HolderFacts:
    """An open transaction that holds back the readers of a topic partition.

    Attributes:
        where: the topic partition and the offset.
        who: the transaction and its producer.
        open_since_ms: in milliseconds since 1970; None if no coordinator shows it.
        advice: how to end it by hand.
    """

    where: str
    who: str
    open_since_ms: int | None
    advice: str


@dataclass(frozen=True)
class TopicFacts:
    """One topic. `replicas` and `in_sync`: the smallest number of all its partitions."""

    topic: str
    error: str = ""
    is_missing: bool = False
    partition_count: int = 0
    replicas: int = 0
    leaderless: tuple[int, ...] = ()
    rights: frozenset[int] | None = None
    config: Config | None = None
    holders: tuple[HolderFacts, ...] = ()


@dataclass(frozen=True)
class GroupFacts:
    """The consumer group. `may_describe` and `may_read` None: the broker does not tell."""

    group_id: str
    error: str = ""
    member_count: int = 0
    may_describe: bool | None = None
    may_read: bool | None = None


@dataclass(frozen=True)
class PrefixFacts:
    """The transactional id prefix and its decision log.

    Attributes:
        error: why nothing could be found out.
        write_error: why transactional ids of the prefix may not be written.
        log_problem: why the decision log cannot be relied on, as a start of the query would say it.
        recover_command: the command that ends them by hand.
        open_since_ms: when each open transaction of the prefix began, in milliseconds since 1970.
    """

    prefix: str
    log_topic: str
    error: str = ""
    write_error: str = ""
    log_problem: str = ""
    has_log: bool = False
    may_create_log: bool | None = None
    log_rights: frozenset[int] | None = None
    log: TopicFacts | None = None
    open_since_ms: tuple[int, ...] = ()
    recover_command: str = ""


@dataclass(frozen=True)
class ContinuousFacts:
    """What a continuous query depends on, beside the topics that it reads and writes.

    Attributes:
        prefix: of its transactional ids.
        group: its consumer group.
        internal_topics: Kafka's topics of transactions and offsets.
        transaction_timeout_ms: of its transactions.
        write_error: why transactional ids of the prefix may not be written.
        ids_error: why that could not be found out.
        is_protocol_2: whether `transaction.version` is 2.
        refuses_late_writes: whether the brokers are of Kafka 3.6 or newer.
        protocol_error: why one of the two could not be found out.
        is_running: whether a continuous query is the member of the group.
        has_offsets_of_stream: whether a stream has committed them beside its checkpoint.
        offsets_error: why one of the two could not be found out.
    """

    prefix: str
    group: GroupFacts
    internal_topics: tuple[TopicFacts, ...]
    transaction_timeout_ms: int
    write_error: str = ""
    ids_error: str = ""
    is_protocol_2: bool = False
    refuses_late_writes: bool = False
    protocol_error: str = ""
    is_running: bool = False
    has_offsets_of_stream: bool = False
    offsets_error: str = ""


@dataclass(frozen=True)
class ClockFacts:
    """The clock of the cluster against ours: positive if the cluster is ahead."""

    difference_ms: int | None = None
    precision_ms: int = 0
    error: str = ""


@dataclass(frozen=True)
class PythonFacts:
    """A Python process: its version, and the version of each package (None: not installed)."""

    where: str
    python: str
    packages: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class SparkFacts:
    """The PySpark of this process.

    Attributes:
        found: its version and folder.
        missing: what users lose with it, in sentences.
        error: why penstock cannot run on it, or that there is none.
    """

    found: str = ""
    missing: tuple[str, ...] = ()
    error: str = ""


@dataclass(frozen=True)
class Facts:
    """All that was found out."""

    now: datetime
    servers: str
    login: str
    connect_error: str = ""
    certificate_expires_at: datetime | None = None
    wanted_timeout_ms: int | None = None
    brokers: tuple[BrokerFacts, ...] = ()
    topics: tuple[TopicFacts, ...] = ()
    targets: tuple[TopicFacts, ...] = ()
    group: GroupFacts | None = None
    prefix: PrefixFacts | None = None
    continuous: ContinuousFacts | None = None
    clock: ClockFacts | None = None
    driver: PythonFacts | None = None
    spark: SparkFacts | None = None
    workers: tuple[PythonFacts, ...] | None = None
    workers_error: str = ""
