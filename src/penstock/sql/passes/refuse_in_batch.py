"""Parts of a query that only a stream has, and what a join with a table of now is in a batch.

Runs on the driver. Invariant: the plan of a batch is run by Spark alone.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.sql.passes.context import PassContext
from penstock.sql.passes.engine.inputs import defined
from penstock.sql.plan.expressions import Call, Column, Expression
from penstock.sql.plan.nodes import AsOfJoin, FromChangelog, Join, Node, Output, ToChangelog, Window
from penstock.sql.plan.rewrite import transformed_with_queries

OF_STREAMS = (
    "FOR SYSTEM_TIME AS OF another time than PROCTIME() is served in streams only. Use ROW_NUMBER() in a "
    "batch."
)
_NO_CLOCK = (
    "windows over PROCTIME() are not served, because a batch has one time for all of its rows. Use a time of "
    "the record."
)


def refuse_in_batch(plan: Output, context: PassContext) -> Output:
    """Return the plan. A batch reads each table as it is now, so FOR SYSTEM_TIME AS OF PROCTIME() is a join.

    Raises:
        SqlError: it has a part of a stream.
    """

    def change(node: Node) -> Node:  # noqa: RET503 - `refuse` does not return
        match node:
            case AsOfJoin():
                if not _is_clock(node.time, node.left):
                    context.refuse(node.offset, OF_STREAMS)
                return Join(node.left, node.right, node.kind, node.conditions, node.offset, is_as_of=True)
            case Window() if _is_clock(node.time, node.input):
                context.refuse(node.offset, _NO_CLOCK)
            case FromChangelog() | ToChangelog():
                name = "FROM_CHANGELOG" if isinstance(node, FromChangelog) else "TO_CHANGELOG"
                context.refuse(node.offset, f"{name} is served in streams only, as in Flink.")
            case _:
                return node

    return replace(plan, input=transformed_with_queries(plan.input, change))


def _is_clock(time: Expression, rows: Node) -> bool:
    """Return whether a value is PROCTIME(), which a query below may have computed."""
    found = defined(rows, time) if isinstance(time, Column) else time
    return isinstance(found, Call) and found.name == "PROCTIME"
