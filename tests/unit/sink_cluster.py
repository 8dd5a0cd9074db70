"""A cluster in memory for the tests of the exactly-once sink: the fake Kafka without sockets, and its client.

The sink's transactions and its decision log are the real ones, so that a driver dies, waits or loses an
answer at each request that it really sends. A time-out passes in virtual time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa
from kafka.protocol.metadata import MetadataRequest

from penstock.client.cluster.metadata import fetch_metadata
from penstock.client.net.backoff import Backoff
from penstock.client.net.broker_errors import is_retriable
from penstock.client.net.connection import PendingResponse
from penstock.client.settings import ConnectionSettings
from penstock.client.transactions.append import write_record_batch
from penstock.client.transactions.markers import Witness
from penstock.client.transactions.steps import TransactionIdentity, TransactionProtocol
from penstock.codec import BatchHeaders, RecordBatchBuilder, RecordBatchDecoder, RecordColumns
from penstock.errors import PenstockError
from penstock.sink.exactly_once._log_records import LogRecord
from penstock.sink.exactly_once.committable import TargetTopic
from penstock.sink.exactly_once.kafka import KafkaSinkTransactions
from penstock.sink.exactly_once.log_topic import DecisionTopic, DecisionTopicSettings
from penstock.sink.exactly_once.names import LOG_SUFFIX
from penstock.testing.fake._coordinator import ONGOING, Transaction
from penstock.testing.fake._state import State
from penstock.testing.fake.control import Action, Control, LoseAnswer, SeenRequest
from penstock.types import TopicPartition
from tests.unit.direct_client import DirectClient, DirectKafka
from tests.unit.virtual_time import VIRTUAL

TARGET = TopicPartition("target", 0)
LOG = f"shared{LOG_SUFFIX}"
PATIENCE_MS = 2_000
"""How long a client asks again before an error."""
_SETTINGS = ConnectionSettings(
    ("fake:1",), "fake", request_timeout_ms=PATIENCE_MS // 2, default_api_timeout_ms=PATIENCE_MS
)
_COMMIT = 1
_CHANGING = {"AddPartitionsToTxn", "CreateTopics", "EndTxn", "InitProducerId", "Produce"}


class SinkClient(DirectClient):
    """The connections of one process.

    Attributes:
        moment: called before each request is sent, and again when the broker has answered it; may raise.
        sent: the requests.
        timed_out: the transactional ids whose transaction the broker has aborted because the client waited.
    """

    def __init__(self, kafka: DirectKafka) -> None:
        super().__init__(kafka, _SETTINGS)
        self.moment: Callable[[Any], None] = lambda request: None
        self.sent: list[Any] = []
        self.timed_out: list[str] = []
        self.is_closed = False

    def new_backoff(self) -> Backoff:
        settings = self.settings
        return Backoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms, _pause)

    def request(self, request: Any, *, node_id: int | None = None, timeout_ms: int | None = None) -> Any:
        deadline = VIRTUAL.monotonic() + (timeout_ms or PATIENCE_MS) / 1000
        backoff = self.new_backoff()
        while True:
            try:
                return super().request(request, node_id=node_id, timeout_ms=timeout_ms)
            except PenstockError as error:
                if not is_retriable(error) or not backoff.pause(deadline):
                    raise

    def send(self, request: Any, node_id: int, timeout_ms: int | None = None) -> PendingResponse:
        self.moment(request)
        self.sent.append(request)
        self._note_time_outs()
        pending = super().send(request, node_id, timeout_ms)
        self.moment(request)
        return pending

    def _note_time_outs(self) -> None:
        before = open_ids(self._state)
        with self._state.changed:
            self._state.expire()
        self.timed_out += before - open_ids(self._state)

    def _no_answer(self, what: str, wait_ms: int) -> PenstockError:
        VIRTUAL.sleep(wait_ms / 1000)
        return super()._no_answer(what, wait_ms)


def _pause(seconds: float) -> bool:
    VIRTUAL.sleep(seconds)
    return False


class SinkCluster:
    """One target topic, of one topic partition usually, and one decision log, and a process that uses them.

    Attributes:
        kafka: the cluster.
        client: of that process, as are `transactions` and `log_store`.
    """

    def __init__(
        self,
        protocol: TransactionProtocol = TransactionProtocol.V2,
        max_versions: Mapping[str, int] | None = None,
        *,
        partitions: int = 1,
    ) -> None:
        self.protocol = protocol
        self._partitions = partitions
        version = 2 if protocol is TransactionProtocol.V2 else 0
        self.kafka = DirectKafka(clock=VIRTUAL, transaction_version=version, max_versions=max_versions)
        self._coordinator = self.kafka._state.transactions
        self.kafka.create_topic(TARGET.topic, self._partitions)
        self.client = SinkClient(self.kafka)
        self._observer = SinkClient(self.kafka)
        """Of the test, so that its requests are not seen among those of the process."""
        self.transactions = KafkaSinkTransactions(self.client.connections)
        self.log_store = decision_topic(self.client)

    # ----- what tasks do

    def write(
        self, identity: TransactionIdentity, values: Iterable[str], at: TopicPartition = TARGET
    ) -> Witness:
        """Write into the transaction. Return the offset of the first record."""
        return write(self.client, identity, values, at)

    def take(self, transactional_id: str, timeout_ms: int = 60_000) -> TransactionIdentity:
        """Take a transactional id."""
        return self.transactions.init_producer(
            transactional_id, transaction_timeout_ms=timeout_ms, protocol=self.protocol
        )

    # ----- the target

    def target(self) -> TargetTopic:
        """Return the current target topic."""
        topic_id = fetch_metadata(self._observer.connections, [TARGET.topic]).topics[TARGET.topic].topic_id
        return TargetTopic(TARGET.topic, None if topic_id is None else str(topic_id))

    def recreate_target(self) -> None:
        """Delete the target topic and create it again. Its records are gone."""
        self.kafka.delete_topic(TARGET.topic)
        self.kafka.create_topic(TARGET.topic, self._partitions)

    def restore_target(self) -> None:
        """Create the target topic if it was deleted."""
        if TARGET.topic not in self.kafka._state.topics:
            self.kafka.create_topic(TARGET.topic, self._partitions)

    def delete_target_records(self) -> None:
        """Delete all records of the target, as a retention does."""
        with self.kafka.log(TARGET.topic) as log:
            log.delete_before(log.end_offset)

    @property
    def committed(self) -> list[str]:
        """Return the committed values in the target, in the order of the commits."""
        found: list[str] = []
        written: defaultdict[int, list[str]] = defaultdict(list)
        with self.kafka.log(TARGET.topic) as log:
            batches = list(log.batches)
        for batch in batches:
            if not batch.is_control:
                written[batch.producer_id] += _values(batch.data, batch.base_offset, batch.last_offset + 1)
                continue
            values = written.pop(batch.producer_id, [])
            header = next(BatchHeaders(batch.data, *TARGET))
            found += values if header.control_type == _COMMIT else []
        return found

    # ----- transactional ids

    @property
    def ids(self) -> dict[str, Transaction]:
        """Return what the coordinator knows."""
        return self._coordinator.ids

    def open_ids(self) -> set[str]:
        return open_ids(self.kafka._state)

    def time_out(self, transactional_id: str, epochs: int = 1) -> None:
        """Abort the transaction as the broker does by itself, which raises the epoch."""
        found = self.ids[transactional_id]
        assert found.state == ONGOING
        with self.kafka._state.changed:
            self._coordinator.fence(found)
        found.epoch += epochs - 1

    def expire(self, transactional_id: str) -> None:
        """Let the coordinator forget the id."""
        self.kafka.expire_transactional_id(transactional_id)

    # ----- the decision log

    @property
    def has_log(self) -> bool:
        return LOG in self.kafka._state.topics

    @property
    def log(self) -> list[LogRecord]:
        """Return the committed records of the decision log."""
        with self.kafka.log(LOG) as log:
            return decision_topic(self._observer).read(log.start_offset, log.last_stable_offset)

    def cut_log_back(self) -> None:
        """Lose all records of the decision log."""
        with self.kafka.log(LOG) as log:
            log.truncate(0)

    def delete_log(self, *, is_created_again: bool) -> None:
        """Delete the decision log's topic."""
        config = self.kafka._state.topics[LOG].configs
        self.kafka.delete_topic(LOG)
        if is_created_again:
            self.kafka.create_topic(LOG, config=config)

    # ----- what was sent

    @property
    def changes(self) -> list[str]:
        """Return the requests until now that change something."""
        names = (type(each).__name__.removesuffix("Request") for each in self.client.sent)
        return [name for name in names if name in _CHANGING]

    def metadata_count(self, topic: str | None) -> int:
        """Return how often a topic (None: all topics) was asked for."""
        asked = [each for each in self.client.sent if isinstance(each, MetadataRequest)]
        return sum(
            each.topics is None if topic is None else topic in [it.name for it in each.topics or ()]
            for each in asked
        )

    # ----- faults

    def lose_answers(
        self, api: str, transactional_id: str | None, *, is_commit: bool | None = None
    ) -> Control:
        """Lose the answers to requests of an API, as `lose` does."""
        return self.lose(api, transactional_id, LoseAnswer(), is_commit=is_commit)

    def lose(
        self, api: str, transactional_id: str | None, what: Action, *, is_commit: bool | None = None
    ) -> Control:
        """Lose requests of an API, or their answers, until the control is ended.

        Args:
            api: "Produce", "EndTxn" or "InitProducerId".
            transactional_id: of the requests; None: outside of a transaction.
            what: is lost.
            is_commit: with EndTxn: only to commits, or only to aborts.
        """

        def choose(seen: SeenRequest) -> Action | None:
            is_wanted = seen.body.transactional_id == transactional_id and (
                is_commit is None or api != "EndTxn" or seen.body.committed == is_commit
            )
            return what if is_wanted else None

        return self.kafka.control(api, choose, times=None)

    def once_before(self, api: str, happens: Callable[[], object]) -> None:
        """Let something happen before the next request of an API is sent; it may send requests, too."""
        self._once(api, 1, happens)

    def once_after(self, api: str, happens: Callable[[], object]) -> None:
        """Let something happen when the next request of an API is answered; it may send requests, too."""
        self._once(api, 2, happens)

    def _once(self, api: str, moment_count: int, happens: Callable[[], object]) -> None:
        seen: list[Any] = []

        def moment(request: Any) -> None:
            if type(request).__name__ == f"{api}Request":
                seen.append(request)
            if len(seen) == moment_count:
                self.client.moment = lambda request: None
                happens()

        self.client.moment = moment


def open_ids(state: State) -> set[str]:
    """Return the transactional ids with an open transaction."""
    return {name for name, found in state.transactions.ids.items() if found.state == ONGOING}


def decision_topic(client: SinkClient, topic: str = LOG) -> DecisionTopic:
    """Return the real decision log of a process."""
    return DecisionTopic(client.connections, topic, DecisionTopicSettings(timeout_ms=PATIENCE_MS))


def write(
    client: SinkClient, identity: TransactionIdentity, values: Iterable[str], at: TopicPartition = TARGET
) -> Witness:
    """Write into the transaction. Return the offset of the first record."""
    connections = client.connections
    KafkaSinkTransactions(connections).add_topic_partitions(identity, [at])
    builder = RecordBatchBuilder(*at, max_record_bytes=1 << 20, is_transactional=True)
    rows = pa.record_batch({"value": pa.array([each.encode() for each in values], pa.binary())})
    indices = pa.array(range(rows.num_rows), pa.int32())
    builder.append(RecordColumns(rows), indices, default_timestamp_ms=VIRTUAL.now_ms())
    data = builder.build(
        producer_id=identity.producer_id, producer_epoch=identity.producer_epoch, base_sequence=0
    )
    offset = write_record_batch(connections, identity, at, data, timeout_ms=PATIENCE_MS)
    return Witness(at, offset)


def _values(data: bytes, first_offset: int, end_offset: int) -> list[str]:
    decoder = RecordBatchDecoder(
        *TARGET, starting_offset=first_offset, stopping_offset=end_offset, columns=["value"]
    )
    batches = [*decoder.decode(data), decoder.flush()]
    return [each.decode() for rows in batches if rows is not None for each in rows.column(0).to_pylist()]
