"""What a continuous query does, after its options are parsed. Made on the driver."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.client.settings import (
    ConnectionSettings,
    FetchSettings,
    ProduceSettings,
    connection_settings,
    fetch_settings,
    produce_settings,
)
from penstock.errors import OptionError
from penstock.options.config import DeliveryGuarantee, IsolationLevel, KafkaProperties, SourceConfig
from penstock.options.continuous import ContinuousConfig
from penstock.options.properties import property_value
from penstock.relay.records import OpensRecordMaker, Writes

_CLIENT_ID = "penstock-continuous"
_TIMEOUT = "transaction.timeout.ms"
_TRANSACTION_TIMEOUT_MS = 10_000
"""How long readers of the target wait for the transaction of a task that died, if nothing takes its place."""
_DISCOVERY_MS = 10_000
_PROMISES = {
    DeliveryGuarantee.EXACTLY_ONCE: "Nothing is lost or written twice.",
    DeliveryGuarantee.AT_LEAST_ONCE: "Nothing is lost. Some records may be written twice.",
    DeliveryGuarantee.NONE: "Some records may be lost or written twice.",
}


@dataclass(frozen=True)
class QuerySettings(Writes):
    """What a continuous query does.

    Attributes:
        connection: to the one cluster.
        source: the options of the read.
        target: the topic that is written.
        prefix: of the transactional ids.
        lanes: transactional ids of each task.
        transaction_timeout_ms: when the broker aborts an open transaction.
        discovery_ms: the pause between two looks for new topic partitions; None: never.
        maker: makes the records to write. None: records are copied.
        dead_letter_topic: where records go that the maker cannot decode; None: nowhere.
        guarantee: of the delivery.
        query: tells the query from others, and stands in the notes beside the group's offsets. An offset of
            another query is refused. None: the offsets may be of any query.
        takes_others: whether the query goes on from the offsets of another one.
    """

    connection: ConnectionSettings
    source: SourceConfig
    group_id: str
    target: str
    prefix: str
    fetch: FetchSettings
    produce: ProduceSettings
    lanes: int = 1
    commit_interval_ms: int = 20
    transaction_timeout_ms: int = _TRANSACTION_TIMEOUT_MS
    discovery_ms: int | None = _DISCOVERY_MS
    maker: OpensRecordMaker | None = None
    dead_letter_topic: str | None = None
    guarantee: DeliveryGuarantee = DeliveryGuarantee.EXACTLY_ONCE
    query: str | None = None
    takes_others: bool = False

    @property
    def promise(self) -> str:
        """Return what a message says about records when the query ends with an error."""
        return _PROMISES[self.guarantee]

    @property
    def is_read_committed(self) -> bool:
        """Return whether open and aborted transactions of the source are left out."""
        return self.source.isolation_level is IsolationLevel.READ_COMMITTED

    def transactional_ids(self, task: int) -> tuple[str, ...]:
        """Return the transactional ids of a task, one for each lane."""
        return tuple(f"{self.prefix}-continuous-{task}-{lane}" for lane in range(self.lanes))

    def has_transactional_id(self, name: str) -> bool:
        """Return whether a task of this query, in any of its plans, may have a transactional id."""
        words = name.removeprefix(f"{self.prefix}-continuous-").split("-")
        is_ours = name.startswith(f"{self.prefix}-continuous-")
        return is_ours and len(words) == 2 and all(word.isdigit() for word in words)


def query_settings(
    config: ContinuousConfig, *, lanes: int, commit_interval_ms: int, maker: OpensRecordMaker | None
) -> QuerySettings:
    """Return what a query does.

    Raises:
        OptionError: source and sink are of two clusters, or a property is malformed.
    """
    source, sink = config.source, config.sink
    connection = connection_settings(source.properties, client_id=_CLIENT_ID)
    _check_same_cluster(connection, sink.properties)
    after_ms = source.discovery.after_ms
    has_timeout = sink.properties.get(_TIMEOUT) is not None
    return QuerySettings(
        connection,
        source,
        config.group_id,
        config.target,
        config.prefix,
        fetch_settings(source.properties),
        produce_settings(sink.properties, sink.delivery_guarantee),
        lanes,
        commit_interval_ms,
        property_value(sink.properties, _TIMEOUT) if has_timeout else _TRANSACTION_TIMEOUT_MS,
        # 0: with every micro-batch, of which there are none
        after_ms if after_ms is None else after_ms or _DISCOVERY_MS,
        maker,
        config.dead_letter_topic,
        sink.delivery_guarantee,
    )


def _check_same_cluster(connection: ConnectionSettings, of_sink: KafkaProperties) -> None:
    sink = connection_settings(of_sink, client_id=_CLIENT_ID)
    is_same = sink.security == connection.security
    if is_same and sorted(sink.bootstrap_servers) == sorted(connection.bootstrap_servers):
        return
    name = "bootstrap.servers" if is_same else "security.protocol"
    key = of_sink.spelled(name)
    raise OptionError(
        "The source and the sink of a continuous query have one connection, but their options differ: see "
        f"'{key}' and the login of both. Nothing was read or written. Leave the connection out of the sink, "
        "or write the same. For two clusters use a stream with micro-batches.",
        option=key,
    )
