"""The rights (ACLs) that each operation of penstock needs.

Pure data; docs/rights.md shows it. Invariant: tests/kafka/test_rights.py runs each operation with exactly
these rights, and again without each one of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Resource(Enum):
    """The kinds of resources in Kafka's ACLs."""

    TOPIC = "topic"
    GROUP = "consumer group"
    TRANSACTIONAL_ID = "transactional ids that begin with"
    CLUSTER = "cluster"


@dataclass(frozen=True)
class Right:
    """One right. `name` has placeholders.

    They are {topic}, {group}, {prefix}, {log} and {dead_letters}, and for commands on a job that copies
    {source}, {target}, {shadow} and {shadow_log}.
    A right on transactional ids is for all ids that begin with the name (a prefixed ACL).
    """

    operation: str
    resource: Resource
    name: str = ""

    def __str__(self) -> str:
        shown = f" {self.name}" if self.name else ""
        return f"{self.operation} on the {self.resource.value}{shown}"


@dataclass(frozen=True)
class NeededRights:
    """One operation, as users call it, and its rights."""

    key: str
    operation: str
    rights: tuple[Right, ...]


READ_TOPIC = Right("READ", Resource.TOPIC, "{topic}")
WRITE_TOPIC = Right("WRITE", Resource.TOPIC, "{topic}")
READ_GROUP = Right("READ", Resource.GROUP, "{group}")
READ_LOG = Right("READ", Resource.TOPIC, "{log}")
WRITE_LOG = Right("WRITE", Resource.TOPIC, "{log}")
CREATE_LOG = Right("CREATE", Resource.TOPIC, "{log}")
WRITE_IDS = Right("WRITE", Resource.TRANSACTIONAL_ID, "{prefix}-")
DESCRIBE_IDS = Right("DESCRIBE", Resource.TRANSACTIONAL_ID, "{prefix}-")
DESCRIBE_TOPIC = Right("DESCRIBE", Resource.TOPIC, "{topic}")
DESCRIBE_GROUP = Right("DESCRIBE", Resource.GROUP, "{group}")
READ_DEAD_LETTERS = Right("READ", Resource.TOPIC, "{dead_letters}")
READ_NOTES = Right("READ", Resource.TOPIC, "{dead_letters}-requeued")
READ_SOURCE = Right("READ", Resource.TOPIC, "{source}")
READ_TARGET = Right("READ", Resource.TOPIC, "{target}")
READ_SHADOW = Right("READ", Resource.TOPIC, "{shadow}")
READ_SHADOW_LOG = Right("READ", Resource.TOPIC, "{shadow_log}")
DESCRIBE_TARGET = Right("DESCRIBE", Resource.TOPIC, "{target}")
DESCRIBE_SHADOW = Right("DESCRIBE", Resource.TOPIC, "{shadow}")
DESCRIBE_CLUSTER = Right("DESCRIBE", Resource.CLUSTER)

NEEDED: tuple[NeededRights, ...] = (
    NeededRights("list", "describe a topic; list topics or find them by a pattern", (DESCRIBE_TOPIC,)),
    NeededRights("read-batch", "read as a batch", (READ_TOPIC,)),
    NeededRights("read-stream", "read as a stream without a consumer group", (READ_TOPIC,)),
    NeededRights("read-stream-commits", "read as a stream that commits to a group", (READ_TOPIC, READ_GROUP)),
    NeededRights(
        "read-from-committed", "start from a group's committed offsets", (READ_TOPIC, DESCRIBE_GROUP)
    ),
    NeededRights(
        "read-max-bytes", "read with a limit of bytes for each batch", (READ_TOPIC, DESCRIBE_CLUSTER)
    ),
    NeededRights(
        "dead-letters",
        "read with dead letters",
        (READ_TOPIC, Right("WRITE", Resource.TOPIC, "{dead_letters}")),
    ),
    NeededRights("write-at-least-once", "write at-least-once", (WRITE_TOPIC,)),
    NeededRights("write-exactly-once", "write exactly-once", (WRITE_TOPIC, READ_LOG, WRITE_LOG, WRITE_IDS)),
    NeededRights(
        "create-log",
        "the first exactly-once write of a prefix, which creates the decision log",
        (WRITE_TOPIC, CREATE_LOG, READ_LOG, WRITE_LOG, WRITE_IDS),
    ),
    NeededRights(
        "read-outcome",
        "recover an exactly-once write whose outcome only the topic shows any more (rare)",
        (READ_TOPIC,),
    ),
    NeededRights("transactions-look", "`penstock transactions list`, `describe`", (READ_LOG, DESCRIBE_IDS)),
    NeededRights(
        "transactions-change", "`penstock transactions recover`, `abort`", (READ_LOG, WRITE_LOG, WRITE_IDS)
    ),
    NeededRights(
        "dead-letters-show",
        "`penstock dead-letters show`",
        (READ_DEAD_LETTERS, READ_NOTES),
    ),
    NeededRights(
        "dead-letters-requeue",
        "`penstock dead-letters requeue`",
        (
            READ_DEAD_LETTERS,
            WRITE_TOPIC,
            Right("CREATE", Resource.TOPIC, "{dead_letters}-requeued"),
            READ_NOTES,
            Right("WRITE", Resource.TOPIC, "{dead_letters}-requeued"),
            Right("WRITE", Resource.TRANSACTIONAL_ID, "{dead_letters}-requeue"),
        ),
    ),
    NeededRights("receipts", "`penstock receipts`", (READ_LOG,)),
    NeededRights("verify", "`penstock verify`", (READ_LOG, READ_SOURCE, READ_TARGET)),
    NeededRights(
        "shadow-create",
        "`penstock shadow create`",
        (READ_LOG, WRITE_LOG, DESCRIBE_TARGET, DESCRIBE_SHADOW),
    ),
    NeededRights(
        "shadow-compare",
        "`penstock shadow compare`",
        (READ_LOG, READ_SHADOW_LOG, READ_TARGET, READ_SHADOW),
    ),
    NeededRights("promote-look", "`penstock promote`, `rollback` without `--yes`", (READ_LOG,)),
    NeededRights("promote", "`penstock promote` with `--yes`", (READ_LOG, WRITE_LOG, WRITE_IDS)),
    NeededRights("rollback", "`penstock rollback` with `--yes`", (READ_LOG, WRITE_LOG, WRITE_IDS)),
    NeededRights("lag-checkpoint", "`penstock lag`, `penstock top` of a checkpoint", (DESCRIBE_TOPIC,)),
    NeededRights(
        "lag-group", "`penstock lag`, `penstock top` of a consumer group", (DESCRIBE_TOPIC, DESCRIBE_GROUP)
    ),
)
