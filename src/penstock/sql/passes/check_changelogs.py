"""TO_CHANGELOG over rows whose changes are told as Flink tells them.

Runs on the driver. Invariant: an update below TO_CHANGELOG is -U and +U. The engines are chosen before, and
times of batches are kept, because both may divide an update into a delete and an insert.
"""

from __future__ import annotations

from penstock.sql.passes.context import PassContext
from penstock.sql.plan.nodes import (
    Changelog,
    FromChangelog,
    Node,
    Output,
    PlainTimes,
    Project,
    Scan,
    SetOperation,
    Stateful,
    ToChangelog,
    Watermark,
)
from penstock.sql.plan.operators import Aggregation, Deduplication, Normalization
from penstock.sql.plan.rewrite import every_node

_DIVIDED = (
    "TO_CHANGELOG is not served over {name} here, because an update comes as a delete and an insert, and "
    "Flink tells UPDATE_BEFORE and UPDATE_AFTER. It is served over a table, GROUP BY and a deduplication, "
    "with WHERE and UNION ALL. NOW() and other clocks are served behind it. Or write the rows into a table "
    "of 'debezium-json', and read that."
)
_TELLING = (Aggregation, Deduplication, Normalization)


def check_changelogs(plan: Output, context: PassContext) -> Output:
    """Return the plan.

    Raises:
        SqlError: TO_CHANGELOG would give other codes than in Flink.
    """
    for node in every_node(plan):
        if isinstance(node, ToChangelog):
            changed = context.traits(node.input).changed
            if changed and not _tells_updates(node.input):
                context.refuse(node.offset, _DIVIDED.format(name=changed))
    return plan


def _tells_updates(node: Node) -> bool:
    """Return whether an update of rows that change is told as one, as in Flink."""
    match node:
        case Project() | Watermark() | PlainTimes():
            return _tells_updates(node.input)
        case SetOperation():
            return _tells_updates(node.left) and _tells_updates(node.right)
        case Stateful():
            return node.changelog is Changelog.APPEND or isinstance(node.operator, _TELLING)
        case _:
            return isinstance(node, (Scan, FromChangelog, ToChangelog))
