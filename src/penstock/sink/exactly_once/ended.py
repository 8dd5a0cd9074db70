"""The error of a query that may write nothing more under a prefix, or into its topics.

Runs on the driver, and in tasks. Pure.
"""

from __future__ import annotations

from penstock.errors import QueryEndedError
from penstock.sink.exactly_once.decision import Ended, EndReason


def query_ended_error(prefix: str, query_id: str, ended: Ended) -> QueryEndedError:
    """Return the error for a query that is a shadow, or whose prefix another query has now."""
    if ended.reason is EndReason.SHADOW:
        what = (
            f"Query {query_id} is a shadow of query {ended.heir}: its checkpoint {ended.checkpoint} was made "
            f"by penstock shadow create. It may write neither under sink.transactional-id-prefix={prefix} "
            "nor into the topics of that query, because each of its records is there already"
        )
        to_do = (
            "Give the shadow the topic and the prefix that penstock shadow create has printed. To run the "
            "job in place of the other one, use penstock promote"
        )
    else:
        what = (
            f"Query {query_id} has handed over sink.transactional-id-prefix={prefix} to query {ended.heir}, "
            f"whose checkpoint is {ended.checkpoint}. That query writes the records after those of this one"
        )
        to_do = "Let that query run and stop this one. To go back, use penstock rollback"
    return QueryEndedError(
        f"{what}. Nothing was written. {to_do}.",
        prefix=prefix,
        query_id=query_id,
        heir=ended.heir,
        checkpoint=ended.checkpoint,
        reason=ended.reason.value,
    )
