"""Find what a decision log says of the query of a checkpoint, for commands that continue or repeat it.

Runs on the driver's machine. Changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.errors import OptionError
from penstock.sink.exactly_once.by_hand import TransactionTools
from penstock.sink.exactly_once.decision import Decision


def decision_of(
    tools: TransactionTools,
    decisions: Iterable[Decision],
    query_id: str,
    *,
    prefix: str,
    checkpoint: str,
    nothing: str,
) -> Decision:
    """Return the newest decision about a query.

    Args:
        tools: of the prefix.
        decisions: of the prefix.
        query_id: of the query.
        prefix: that the user has given.
        checkpoint: of the query, for the message.
        nothing: the sentence that says what was not done.

    Raises:
        OptionError: the query has written nothing under the prefix, or it is a continuous query.
    """
    found = next((each for each in decisions if each.query_id == query_id), None)
    if found is not None:
        return found
    tools.check_not_continuous()
    raise OptionError(
        f"The decision log {tools.log_topic} has no batch of query {query_id}, to which the checkpoint "
        f"{checkpoint} belongs. {nothing} Give the query's sink.transactional-id-prefix, and --log-topic if "
        "it has a sink.commit-log.topic.",
        option="--prefix",
        value=prefix,
    )
