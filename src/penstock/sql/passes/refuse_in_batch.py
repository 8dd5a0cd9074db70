"""Parts of a query that only a stream has.

Runs on the driver. Invariant: the plan of a batch is run by Spark alone.
"""

from __future__ import annotations

from penstock.sql.passes.context import PassContext
from penstock.sql.plan.nodes import AsOfJoin, Output
from penstock.sql.plan.rewrite import every_node

OF_STREAMS = "FOR SYSTEM_TIME AS OF is served in streams only. Use ROW_NUMBER() in a batch."


def refuse_in_batch(plan: Output, context: PassContext) -> Output:
    """Return the plan.

    Raises:
        SqlError: it has a part of a stream.
    """
    for node in every_node(plan):
        if isinstance(node, AsOfJoin):
            context.refuse(node.offset, OF_STREAMS)
    return plan
