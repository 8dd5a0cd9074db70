"""What a seed stands for: a job, and the faults of its history. Plain values, which JSON can hold.

Invariant: a plan is a pure function of its seed. A fault is at the number of a request, or at the number of a
request of one `Aim`, so leaving one out leaves those before it as they are.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum


class Kind(str, Enum):
    """What happens at a request. `length` of a fault: how many requests later something ends or comes."""

    KILL = "its process dies before it is sent"
    KILL_AFTER = "its process dies when it is answered"
    LOSE_REQUEST = "it is lost"
    LOSE_ANSWER = "its answer is lost"
    TWICE = "it comes twice"
    PAUSE = "its process stands still, and another driver runs"
    TIME = "time passes"
    OPERATOR = "somebody runs penstock transactions"
    COMPACT = "the decision log is compacted"
    LATE = "it gets no answer, and comes later"
    AGAIN = "it comes a second time later"
    FAIL_OVER = "all coordinators move to another broker, which loads for a while"
    MARKERS = "no markers are written for a while"
    DEAF = "it is lost, and for a while all others of its API"
    NEIGHBOUR = "a driver of another prefix leaves a decision open in the shared log"
    OLD_CHECKPOINT = "the next start finds an older checkpoint"
    RECREATE = "the target topic is deleted and created again"
    CATCH = "the next batch that fails is passed over, as by foreachBatch that catches the error"
    NO_OFFSET = "its write is done, and its broker answers that it has had it before, without its offset"


class Aim(str, Enum):
    """Which requests a fault counts: all, or those at which a mistake costs data."""

    ANY = "request"
    RECORD = "record of the decision log"
    DECISION = "end of the committer's transaction"
    END = "end of a task's transaction"
    LIST = "list of open transactions"
    TAKE = "take-over of the prefix"
    WRITE = "write of a task"


WEIGHTS = {
    Kind.KILL: 4, Kind.KILL_AFTER: 4, Kind.LOSE_REQUEST: 2, Kind.LOSE_ANSWER: 4, Kind.TWICE: 2,
    Kind.PAUSE: 5, Kind.TIME: 2, Kind.OPERATOR: 1, Kind.COMPACT: 1,
    Kind.LATE: 4, Kind.AGAIN: 3, Kind.FAIL_OVER: 3, Kind.MARKERS: 3,
    Kind.NEIGHBOUR: 2, Kind.OLD_CHECKPOINT: 3, Kind.RECREATE: 1, Kind.CATCH: 1,
}  # fmt: skip
LENGTHS = (1, 2, 3, 5, 10, 30, 100)
MOST_FAULTS = 8

_AIMED = (
    ((Aim.RECORD, Kind.TIME, 100),),
    ((Aim.RECORD, Kind.PAUSE, 100),),
    ((Aim.RECORD, Kind.KILL_AFTER, 1),),
    ((Aim.DECISION, Kind.PAUSE, 30),),
    ((Aim.DECISION, Kind.LOSE_ANSWER, 1),),
    ((Aim.DECISION, Kind.DEAF, 10),),
    ((Aim.DECISION, Kind.MARKERS, 30), (Aim.DECISION, Kind.KILL_AFTER, 1)),
    ((Aim.END, Kind.TIME, 100),),
    ((Aim.END, Kind.KILL, 1),),
    ((Aim.END, Kind.KILL_AFTER, 1),),
    ((Aim.END, Kind.PAUSE, 30),),
    ((Aim.END, Kind.DEAF, 5),),
    ((Aim.LIST, Kind.PAUSE, 100), (Aim.END, Kind.PAUSE, 100)),
    ((Aim.LIST, Kind.PAUSE, 30),),
    ((Aim.TAKE, Kind.PAUSE, 30),),
    ((Aim.TAKE, Kind.OPERATOR, 1), (Aim.LIST, Kind.PAUSE, 30)),
    ((Aim.RECORD, Kind.NEIGHBOUR, 1), (Aim.DECISION, Kind.KILL_AFTER, 1)),
    ((Aim.DECISION, Kind.LATE, 10),),
    ((Aim.DECISION, Kind.OLD_CHECKPOINT, 1), (Aim.DECISION, Kind.KILL_AFTER, 1)),
    ((Aim.END, Kind.TIME, 100), (Aim.END, Kind.OLD_CHECKPOINT, 1)),
    ((Aim.END, Kind.TIME, 100), (Aim.END, Kind.OPERATOR, 1)),
    ((Aim.END, Kind.TIME, 100), (Aim.END, Kind.CATCH, 1)),
    ((Aim.RECORD, Kind.OLD_CHECKPOINT, 2), (Aim.RECORD, Kind.KILL, 1)),
    ((Aim.RECORD, Kind.OLD_CHECKPOINT, 3), (Aim.RECORD, Kind.KILL, 1)),
    ((Aim.TAKE, Kind.RECREATE, 1),),
    ((Aim.END, Kind.RECREATE, 1),),
    ((Aim.WRITE, Kind.RECREATE, 1),),
    ((Aim.WRITE, Kind.LOSE_ANSWER, 1), (Aim.END, Kind.TIME, 100)),
    ((Aim.WRITE, Kind.PAUSE, 30), (Aim.WRITE, Kind.PAUSE, 30)),
    ((Aim.RECORD, Kind.PAUSE, 100), (Aim.END, Kind.PAUSE, 30)),
    ((Aim.DECISION, Kind.LATE, 30), (Aim.DECISION, Kind.DEAF, 30)),
    ((Aim.DECISION, Kind.OPERATOR, 1), (Aim.END, Kind.PAUSE, 30)),
    ((Aim.ANY, Kind.OPERATOR, 1), (Aim.ANY, Kind.PAUSE, 10), (Aim.LIST, Kind.PAUSE, 100)),
    ((Aim.END, Kind.TIME, 100), (Aim.END, Kind.OLD_CHECKPOINT, 5)),
    ((Aim.TAKE, Kind.PAUSE, 100), (Aim.DECISION, Kind.PAUSE, 30)),
)
"""What happens around a decision and its commits: aim, kind and length. Those in one row happen together."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that happens at the request with this number, of those that `aim` counts."""

    at: int
    kind: Kind
    length: int = 1
    aim: Aim = Aim.ANY

    def __str__(self) -> str:
        return f"{self.aim.value} {self.at}: {self.kind.value} ({self.kind.name}, {self.length})"


@dataclass(frozen=True, slots=True)
class Plan:
    """A job and its faults.

    Attributes:
        seed: from which it was made.
        is_v2: whether the cluster has transaction protocol 2.
        batch_count: how many batches the source has.
        task_count: Spark partitions of a batch.
        first_epoch: of each new transactional id. Near the last one, epochs wear out.
        is_speculative: whether some tasks have a second attempt, whose report is not used.
        faults: in the order of their requests.
        is_old: whether the brokers do not even know the requests of protocol 2.
    """

    seed: int
    is_v2: bool
    batch_count: int
    task_count: int
    first_epoch: int
    is_speculative: bool
    faults: tuple[Fault, ...]
    is_old: bool = False

    def without(self, left_out: Sequence[Fault]) -> Plan:
        """Return the plan without some faults."""
        return replace(self, faults=tuple(each for each in self.faults if each not in left_out))

    def to_json(self) -> str:
        """Return a text from which `plan_from_json` makes the same plan."""
        fields = asdict(self)
        fields["faults"] = [[each.at, each.kind.name, each.length, each.aim.name] for each in self.faults]
        return json.dumps(fields)


def plan_from_json(text: str) -> Plan:
    """Return the plan of a text that `to_json` made."""
    fields = json.loads(text)
    faults = tuple(Fault(at, Kind[kind], length, Aim[aim]) for at, kind, length, aim in fields.pop("faults"))
    return Plan(**fields, faults=faults)


def plan_of(seed: int) -> Plan:
    """Return the plan of a seed."""
    chance = random.Random(f"plan {seed}")
    is_v2 = chance.random() < 0.6
    batch_count, task_count = chance.choice((1, 2, 2, 3, 4)), chance.choice((1, 2, 2, 3))
    is_quiet = chance.random() < 0.05
    count = 0 if is_quiet else chance.randint(0, MOST_FAULTS)
    kinds = chance.choices(list(WEIGHTS), list(WEIGHTS.values()), k=count)
    last = last_request(batch_count)
    faults = [Fault(chance.randint(1, last), kind, chance.choice(LENGTHS)) for kind in kinds]
    for _ in range(0 if is_quiet else chance.choice((0, 1, 1, 2, 2, 3))):
        row, at = chance.choice(_AIMED), chance.randint(1, 2 * batch_count + 1)
        if row[0][0] is Aim.ANY:  # at the very beginning
            faults += [Fault(1, kind, length, aim) for aim, kind, length in row]
        else:
            faults += [Fault(at + chance.randint(0, 1), kind, length, aim) for aim, kind, length in row]
    return Plan(
        seed=seed,
        is_v2=is_v2,
        batch_count=batch_count,
        task_count=task_count,
        first_epoch=chance.choice((0, 0, 32_760, 32_763, 32_764, 32_765)),
        is_speculative=chance.random() < (0.7 if is_quiet else 0.4),
        faults=tuple(sorted(faults, key=lambda each: each.at)),
        is_old=not is_v2 and chance.random() < 0.5,
    )


def last_request(batch_count: int) -> int:
    """Return about how many requests a history without faults sends, so that faults reach its last batch."""
    return 60 + 45 * batch_count
