"""The cluster and the network between it and the processes: every request passes here, and meets the plan.

The cluster is the fake Kafka, with three brokers, on virtual time. Invariant: what happens at a request
depends only on its number and the plan; a process that has died sends nothing more.
"""

from __future__ import annotations

import random
import uuid
import zlib
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kafka.errors import IncompatibleBrokerVersion

from penstock.client.net.connection import PendingResponse
from penstock.client.net.error_codes import COORDINATOR_LOAD_IN_PROGRESS, DUPLICATE_SEQUENCE_NUMBER
from penstock.client.transactions.append import ProducerSession, _record_batch, write_record_batch
from penstock.client.transactions.steps import TransactionProtocol, Transactions
from penstock.errors import PenstockError
from penstock.sink.exactly_once._log_records import NO_QUERY, encode_started, key_of
from penstock.sink.exactly_once.decision import Decision
from penstock.sink.exactly_once.names import LOG_SUFFIX, TransactionNames
from penstock.testing.fake import _state
from penstock.testing.fake._coordinator import ONGOING, PREPARE, Transaction
from penstock.testing.fake._state import Node
from penstock.testing.fake._wire import Frame
from penstock.testing.fake.control import Action, LoseAnswer, LoseRequest, Refuse, SeenRequest, Twice
from penstock.testing.fake.rights import ANONYMOUS
from penstock.types import TopicPartition
from tests.deaths import Death
from tests.simulation.decided import decisions_of, must_be_committed
from tests.simulation.plan import Aim, Fault, Kind, Plan
from tests.unit.compaction import compact
from tests.unit.direct_client import DirectKafka, _BrokerSide
from tests.unit.sink_cluster import PATIENCE_MS, SinkClient, decision_topic
from tests.unit.turns import Turns
from tests.unit.virtual_time import VIRTUAL

TARGET, PARTITION_COUNT, BROKERS = "target", 2, 3
LOG = f"shared{LOG_SUFFIX}"
PREFIX = "app"
QUERY = "query-1"
_NEIGHBOUR = "neighbour"
_LEAPS_MS = {1: 500, 2: 2_000, 3: 10_000, 5: 61_000, 10: 61_000, 30: 300_000, 100: 901_000}
"""How much time passes: less than any time-out, longer than a committer's, longer than a task's."""

_OLD = {"Produce": 10, "EndTxn": 3, "InitProducerId": 4, "AddPartitionsToTxn": 3}
"""The requests of Kafka 3.5. Its coordinators do not know protocol 2."""

_LAST_AIMED = 400
"""From this request on no fault is waited for whose aim the history does not reach."""

_OF_COORDINATORS = frozenset(
    ("AddPartitionsToTxn", "DescribeTransactions", "EndTxn", "InitProducerId", "ListTransactions")
)


class Network:
    """One cluster, and what happens to requests.

    Attributes:
        kafka: the cluster.
        trace: one line for each request and each fault.
        broken: rules that a process has broken, which the end of the history may not show.
        is_calm: nothing happens any more.
        on_operator: called when somebody runs `penstock transactions`.
        on_user: called when a user does something else.
        on_decision_record: called with each Produce request of the committer.
        disturbed_at: the last request at which time passed, or another process had run.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.chance = random.Random(f"history {plan.seed}")
        self.turns = Turns()
        self.trace: list[str] = []
        self.broken: list[str] = []
        self.is_calm = False
        self.on_operator: Callable[[], None] = lambda: None
        self.on_user: Callable[[Kind, int], None] = lambda kind, length: None
        self.on_decision_record: Callable[[Any], None] = lambda request: None
        self.step = self.disturbed_at = self.failed_task_count = 0
        self._faults: dict[tuple[Aim, int], list[Fault]] = {}
        for fault in plan.faults:
            self._faults.setdefault((fault.aim, fault.at), []).append(fault)
        self._counts = dict.fromkeys(Aim, 0)
        self._deaf_until: dict[str, int] = {}
        self.pause_after: int | None = None
        """The actor that runs now makes way again when this request is reached."""
        self.kafka = DirectKafka(
            clock=VIRTUAL,
            transaction_version=2 if plan.is_v2 else 0,
            max_versions=_OLD if plan.is_old else {},
        )
        state = self.kafka._state
        state.nodes |= {node_id: Node(node_id, "fake", node_id) for node_id in range(2, BROKERS + 1)}
        state.transactions.ids = _WornIds(plan.first_epoch)
        state.coordinator_of = self._coordinator_of  # type: ignore[method-assign]
        self.kafka.create_topic(TARGET, PARTITION_COUNT)
        self._moves = self._loads_until = 0
        self._releases_at: int | None = None
        self._late: list[_Late] = []
        self._neighbour_count = 0

    def say(self, what: str) -> None:
        """Add a line to the trace."""
        self.trace.append(f"{self.step:4} {VIRTUAL.now_ms() % 100_000_000:8} {what}")

    # ----- faults

    def may_have_faults(self) -> bool:
        """Return whether a fault may still come. Not every aim is reached."""
        is_aimed = any(aim is not Aim.ANY for aim, _ in self._faults)
        last = max((at for aim, at in self._faults if aim is Aim.ANY), default=0)
        return self.step < last or (is_aimed and self.step < _LAST_AIMED)

    def faults_now(self, process: Process, request: Any) -> list[Fault]:
        """Count a request. Return its faults, and make way for another actor if the plan says so."""
        self.step += 1
        self._let_late_ones_come()
        faults: list[Fault] = []
        for aim in (Aim.ANY, *_aims(request)):
            self._counts[aim] += 1
            faults += [] if self.is_calm else self._faults.pop((aim, self._counts[aim]), [])
        for fault in faults:
            self._happen(fault, request)
        if self.pause_after is not None and self.step >= self.pause_after:
            self.pause_after = None
            self.say("makes way")
            self.turns.pause()
            self.disturbed_at = self.step
        if process.is_dead:
            raise Death
        return faults

    def _happen(self, fault: Fault, request: Any) -> None:
        """Let happen what does not concern the request alone."""
        self.say(f"FAULT {fault.kind.name} {fault.length}")
        if fault.kind is Kind.TIME:
            VIRTUAL.sleep(_LEAPS_MS[fault.length] / 1000)
            self.disturbed_at = self.step
        elif fault.kind is Kind.COMPACT:
            self.compact_log()
        elif fault.kind is Kind.OPERATOR:
            self.on_operator()
        elif fault.kind is Kind.NEIGHBOUR:
            self._begin_neighbour()
        elif fault.kind in (Kind.OLD_CHECKPOINT, Kind.RECREATE, Kind.CATCH):
            self.on_user(fault.kind, fault.length)
        elif fault.kind is Kind.PAUSE:
            self.make_way(fault.length)
        elif fault.kind is Kind.FAIL_OVER:
            self._moves, self._loads_until = self._moves + 1, self.step + fault.length
        elif fault.kind is Kind.MARKERS:
            self.kafka.hold_markers()
            self._releases_at = self.step + fault.length
        elif fault.kind is Kind.DEAF:
            self._deaf_until[_name(request)] = self.step + fault.length

    def keep_for_later(self, request: Any, version: int, node_id: int, length: int) -> None:
        """Let a request come (again) when so many others have been sent."""
        self._late.append(_Late(self.step + length, request, version, node_id))

    def _let_late_ones_come(self) -> None:
        due = [each for each in self._late if each.at <= self.step or self.is_calm]
        self._late = [each for each in self._late if each not in due]
        for each in due:
            self.disturbed_at = self.step
            response = self.serve(each.request, each.version, each.node_id, None)
            self.say(f"LATE {_name(each.request)} {_told(each.request)} -> {_answer(response)}")
        if self._releases_at is not None and (self.step >= self._releases_at or self.is_calm):
            self._releases_at = None
            self.kafka.release_markers()

    def serve(self, request: Any, version: int, node_id: int, action: Action | None) -> Any:
        """Let a broker handle a request. Return the answer that reaches the client; None: none does."""
        key, api = type(request).API_KEY, _name(request)
        if api in _OF_COORDINATORS and self.step < self._loads_until and not self.is_calm:
            action = action or Refuse(COORDINATOR_LOAD_IN_PROGRESS)
        if self.step < self._deaf_until.get(api, 0) and not self.is_calm:
            action = LoseRequest()
        seen = SeenRequest(api, version, request, node_id, ANONYMOUS, None)
        connection = _BrokerSide(node_id)
        self.kafka.dispatcher._act(connection, Frame(key, version, 1, b""), seen, action)
        return connection.response

    def _coordinator_of(self, kind: int, key: str) -> int:
        return 1 + (zlib.crc32(key.encode()) + self._moves) % BROKERS

    def make_way(self, length: int) -> None:
        """Let another actor run, for so many requests if the present one still wants to go on then."""
        self.pause_after = self.step + length
        self.turns.pause()
        self.disturbed_at = self.step

    def compact_log(self) -> None:
        """Leave of each key in the decision log the newest record, up to some offset."""
        if LOG not in self.kafka._state.topics:
            return
        with self.kafka.log(LOG) as log:
            stable = log.last_stable_offset
            start = log.start_offset
        # An observer reads what is committed. Its requests are not part of the history.
        records = decision_topic(SinkClient(self.kafka), LOG).read(start, stable)
        newest = {record.key: record.offset for record in records}
        with self.kafka.log(LOG) as log:
            compact(log, set(newest.values()), self.chance.randint(0, stable))

    def _begin_neighbour(self) -> None:
        """Let a driver of another prefix die while it decides. It and its requests meet no faults."""
        if LOG not in self.kafka._state.topics:
            return
        self._neighbour_count += 1
        client = SinkClient(self.kafka)
        transactions = Transactions(client.connections)
        protocol = TransactionProtocol.V2 if self.plan.is_v2 else TransactionProtocol.V1
        prefix = f"{_NEIGHBOUR}{self._neighbour_count}"
        name, place = TransactionNames(prefix).committer_id, TopicPartition(LOG, 0)
        identity = transactions.init_producer(name, transaction_timeout_ms=60_000, protocol=protocol)
        transactions.add_topic_partitions(identity, [place])
        data = _record_batch(ProducerSession(identity), place, [(key_of(prefix, NO_QUERY), encode_started())])
        write_record_batch(client.connections, identity, place, data, timeout_ms=PATIENCE_MS)

    def end_neighbours(self) -> None:
        """Let the time pass after which the brokers end the decisions of neighbours."""
        if self._neighbour_count:
            VIRTUAL.sleep(_LEAPS_MS[5] / 1000)
            with self.kafka._state.changed:
                self.kafka._state.expire()

    # ----- what the cluster has

    def decisions(self) -> list[Decision]:
        """Return the newest decision of each query that readers of the log see now."""
        return decisions_of(self.kafka, LOG, PREFIX)

    def is_committing(self, producer_id: int) -> bool:
        """Return whether a producer's transaction is committed, and its markers are about to be written."""
        found = self.kafka._state.transactions.ids.values()
        # The markers name the producer that has written. Its id may have been used up with this transaction.
        return any(each.marker[0] == producer_id and each.state == PREPARE[True] for each in found)

    def open_ids(self) -> list[str]:
        """Return the transactional ids whose transactions are not ended, by name."""
        found = self.kafka._state.transactions.ids.items()
        return sorted(name for name, each in found if each.state == ONGOING or each.is_prepared)


class Process(SinkClient):
    """The connections of one process. All its requests meet the plan."""

    def __init__(self, network: Network, name: str) -> None:
        super().__init__(network.kafka)
        self.network = network
        self.name = name
        self.is_dead = False
        self._told_open: set[str] = set()

    def send(self, request: Any, node_id: int, timeout_ms: int | None = None) -> PendingResponse:
        network = self.network
        if self.is_dead:
            raise Death
        faults = {fault.kind: fault.length for fault in network.faults_now(self, request)}
        self._die_if(Kind.KILL in faults)
        name = type(request).__name__
        pending = PendingResponse(name, 1_000)
        try:
            request.API_VERSION = version = self._versions.api_version(request)
        except IncompatibleBrokerVersion as error:
            pending.fail(error)
            return pending
        for kind in (each for each in (Kind.LATE, Kind.AGAIN) if each in faults):
            network.keep_for_later(request, version, node_id, faults[kind])
        is_decided = _is_abort(request) and must_be_committed(
            network.kafka, LOG, PREFIX, request.transactional_id, request.producer_id, request.producer_epoch
        )
        if name == "ProduceRequest" and request.transactional_id == TransactionNames(PREFIX).committer_id:
            network.on_decision_record(request)
        response = network.serve(request, version, node_id, _action(faults))
        if is_decided and response is not None and not response.error_code:
            network.broken.append(f"{self.name} aborts {request.transactional_id}, which is decided")
        if Kind.NO_OFFSET in faults and response is not None:
            _forget_offsets(response)
        self._watch_ids(request, response)
        network.say(f"{self.name} {_name(request)} {_told(request)} -> {_answer(response)}")
        self._die_if(Kind.KILL_AFTER in faults)
        if response is None:
            pending.fail(self._no_answer(name, timeout_ms or self.settings.request_timeout_ms))
        else:
            pending.succeed(response)
        return pending

    def _watch_ids(self, request: Any, response: Any) -> None:
        """Note which tasks' transactions this process was told to be open: it must not take their ids."""
        if _name(request) == "InitProducerId" and request.transactional_id in self._told_open:
            self.network.broken.append(f"{self.name} takes {request.transactional_id}, which is in use")
        is_told = _name(request) == "DescribeTransactions" and response is not None
        for each in response.transaction_states if is_told else ():
            is_of_task = TransactionNames(PREFIX).parse(each.transactional_id) is not None
            self._told_open.discard(each.transactional_id)
            if is_of_task and each.transaction_state == ONGOING:
                self._told_open.add(each.transactional_id)

    def _die_if(self, dies: bool) -> None:
        if dies:
            self.is_dead = True
            raise Death


@dataclass(frozen=True)
class _Late:
    """A request that comes at a later step."""

    at: int
    request: Any
    version: int
    node_id: int


def _aims(request: Any) -> list[Aim]:
    """Return for what a fault may aim at a request, besides its number."""
    api = _name(request)
    if api == "ListTransactions":
        return [Aim.LIST]
    if api == "InitProducerId":
        return [Aim.TAKE] if request.transactional_id == TransactionNames(PREFIX).committer_id else []
    if api not in {"EndTxn", "Produce"}:
        return []
    if TransactionNames(PREFIX).parse(request.transactional_id or "") is not None:
        return [Aim.END if api == "EndTxn" else Aim.WRITE]
    return [Aim.DECISION if api == "EndTxn" else Aim.RECORD]


def _forget_offsets(response: Any) -> None:
    """Let the answer to a write say that the broker has had it before, and does not know its offset."""
    for answered in (each for topic in response.responses for each in topic.partition_responses):
        if not answered.error_code:
            answered.error_code, answered.base_offset = DUPLICATE_SEQUENCE_NUMBER, -1


def _is_abort(request: Any) -> bool:
    return Aim.END in _aims(request) and not request.committed


def _action(kinds: Collection[Kind]) -> Action | None:
    if Kind.LOSE_REQUEST in kinds or Kind.LATE in kinds:
        return LoseRequest()
    if Kind.LOSE_ANSWER in kinds:
        return LoseAnswer()
    return Twice() if Kind.TWICE in kinds else None


_SHOWN = ("transactional_id", "v3_and_below_transactional_id", "producer_id", "producer_epoch", "committed")


def _name(request: Any) -> str:
    return type(request).__name__.removesuffix("Request")


def _told(request: Any) -> str:
    return " ".join(str(value) for name in _SHOWN if (value := getattr(request, name, None)) is not None)


def _answer(response: Any) -> str:
    if response is None:
        return "nothing"
    epoch = getattr(response, "producer_epoch", None)
    return f"{getattr(response, 'error_code', None)}{'' if epoch is None else f' epoch {epoch}'}"


class _WornIds(dict[str, Transaction]):
    """Transactional ids that begin at a later epoch, as if they had been used for long."""

    def __init__(self, first_epoch: int) -> None:
        super().__init__()
        self._first_epoch = first_epoch

    def __setitem__(self, name: str, found: Transaction) -> None:
        if name not in self and self._first_epoch:
            found.epoch = self._first_epoch
        super().__setitem__(name, found)


class SeededIds:
    """Stands in for the module `uuid`, so that topic ids are the same in each run of a seed."""

    UUID = uuid.UUID

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(f"ids {seed}")

    def uuid4(self) -> uuid.UUID:
        """Return the next id."""
        return uuid.UUID(int=self._chance.getrandbits(128), version=4)


def ignoring_errors(action: Callable[[], object]) -> Callable[[], None]:
    """Return the action without the errors that penstock tells its user."""

    def run() -> None:
        with suppress(PenstockError):
            action()

    return run


def seeded_ids(seed: int) -> Iterable[tuple[Any, str, Any]]:
    """Return what to replace so that ids are those of the seed."""
    return [(_state, "uuid", SeededIds(seed))]
