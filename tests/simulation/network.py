"""The cluster and the network between it and the processes: every request passes here, and meets the plan.

The cluster is the fake Kafka, with three brokers, on virtual time. Invariant: what happens at a request
depends only on its number and the plan; a process that has died sends nothing more.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from penstock.client.net.connection import PendingResponse
from penstock.errors import PenstockError
from penstock.sink.exactly_once.names import LOG_SUFFIX
from penstock.testing.fake import _state
from penstock.testing.fake._coordinator import ONGOING, Transaction
from penstock.testing.fake._state import Node
from penstock.testing.fake._wire import Frame
from penstock.testing.fake.control import Action, LoseAnswer, LoseRequest, SeenRequest, Twice
from penstock.testing.fake.rights import ANONYMOUS
from tests.deaths import Death
from tests.simulation.plan import Fault, Kind, Plan
from tests.unit.compaction import compact
from tests.unit.direct_client import DirectKafka, _BrokerSide
from tests.unit.sink_cluster import SinkClient, decision_topic
from tests.unit.turns import Turns
from tests.unit.virtual_time import VIRTUAL

TARGET, PARTITION_COUNT = "target", 2
LOG = f"shared{LOG_SUFFIX}"
_LEAPS_MS = {1: 500, 2: 2_000, 3: 10_000, 5: 61_000, 10: 61_000, 30: 300_000, 100: 901_000}
"""How much time passes: less than any time-out, longer than a committer's, longer than a task's."""


class Network:
    """One cluster, and what happens to requests.

    Attributes:
        kafka: the cluster.
        trace: one line for each request and each fault.
        is_calm: nothing happens any more.
        on_operator: called when somebody runs `penstock transactions`.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.chance = random.Random(f"history {plan.seed}")
        self.turns = Turns()
        self.trace: list[str] = []
        self.is_calm = False
        self.on_operator: Callable[[], None] = lambda: None
        self.step = 0
        self._faults: dict[int, list[Fault]] = {}
        for fault in plan.faults:
            self._faults.setdefault(fault.at, []).append(fault)
        self.pause_after: int | None = None
        """The actor that runs now makes way again when this request is reached."""
        self.kafka = DirectKafka(clock=VIRTUAL, transaction_version=2 if plan.is_v2 else 0)
        state = self.kafka._state
        state.nodes |= {node_id: Node(node_id, "fake", node_id) for node_id in (2, 3)}
        state.transactions.ids = _WornIds(plan.first_epoch)
        self.kafka.create_topic(TARGET, PARTITION_COUNT)

    def say(self, what: str) -> None:
        """Add a line to the trace."""
        self.trace.append(f"{self.step:4} {VIRTUAL.now_ms() % 100_000_000:8} {what}")

    # ----- faults

    def faults_now(self, process: Process) -> list[Fault]:
        """Count a request. Return its faults, and make way for another actor if the plan says so."""
        self.step += 1
        faults = [] if self.is_calm else self._faults.pop(self.step, [])
        for fault in faults:
            self.say(f"FAULT {fault.kind.name} {fault.length}")
            if fault.kind is Kind.TIME:
                VIRTUAL.sleep(_LEAPS_MS[fault.length] / 1000)
            elif fault.kind is Kind.COMPACT:
                self.compact_log()
            elif fault.kind is Kind.OPERATOR:
                self.on_operator()
            elif fault.kind is Kind.PAUSE:
                self.make_way(fault.length)
        if self.pause_after is not None and self.step >= self.pause_after:
            self.pause_after = None
            self.say("makes way")
            self.turns.pause()
        if process.is_dead:
            raise Death
        return faults

    def make_way(self, length: int) -> None:
        """Let another actor run, for so many requests if the present one still wants to go on then."""
        self.pause_after = self.step + length
        self.turns.pause()

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

    # ----- what the cluster has

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

    def send(self, request: Any, node_id: int, timeout_ms: int | None = None) -> PendingResponse:
        network = self.network
        if self.is_dead:
            raise Death
        kinds = {fault.kind for fault in network.faults_now(self)}
        self._die_if(Kind.KILL in kinds)
        name = type(request).__name__
        request.API_VERSION = version = self._versions.api_version(request)
        key = type(request).API_KEY
        api = self._direct._served[key].api.name
        seen = SeenRequest(api, version, request, node_id, ANONYMOUS, None)
        connection = _BrokerSide(node_id)
        self._direct._act(connection, Frame(key, version, 1, b""), seen, _action(kinds))
        network.say(f"{self.name} {api} {_told(request)} -> {_answer(connection.response)}")
        self._die_if(Kind.KILL_AFTER in kinds)
        pending = PendingResponse(name, 1_000)
        if connection.response is None:
            pending.fail(self._no_answer(name, timeout_ms or self.settings.request_timeout_ms))
        else:
            pending.succeed(connection.response)
        return pending

    def _die_if(self, dies: bool) -> None:
        if dies:
            self.is_dead = True
            raise Death


def _action(kinds: set[Kind]) -> Action | None:
    if Kind.LOSE_REQUEST in kinds:
        return LoseRequest()
    if Kind.LOSE_ANSWER in kinds:
        return LoseAnswer()
    return Twice() if Kind.TWICE in kinds else None


_SHOWN = ("transactional_id", "v3_and_below_transactional_id", "producer_id", "producer_epoch", "committed")


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
