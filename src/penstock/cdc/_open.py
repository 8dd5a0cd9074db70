"""The newest transaction of each topic partition between two batches, and what errors say of exchanged keys.

Runs on the driver, and `reason_of` on executors too; pure. Invariant: parts of a topic partition are followed
in the order of their offsets, those of a batch after those of the batch before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from penstock.cdc._exchanged import MOST_ROWS, Events, ExchangeError, Open, followed

OpenTransactions = Mapping[str, Mapping[int, Open]]
"""The newest transaction of topic partitions, by topic and partition."""
_ADVICE = (
    "Leave the topic out of the pattern, and keep its table by penstock.changelog.normalize and "
    "materialize, which keep such rows"
)


class Followed(NamedTuple):
    """The newest transactions after a batch, and why topics give no rows."""

    newest: dict[str, dict[int, Open]]
    failures: dict[str, str]


def follow(before: OpenTransactions, edges: Mapping[str, Mapping[int, Sequence[Events]]]) -> Followed:
    """Return the newest transactions after a batch.

    Args:
        before: those of the batch before.
        edges: `EVENTS` of the parts of each topic partition, by topic and partition.
    """
    newest = {topic: dict(partitions) for topic, partitions in before.items()}
    failures: dict[str, str] = {}
    for topic, partitions in edges.items():
        for partition, parts in partitions.items():
            known = newest.get(topic, {}).get(partition)
            try:
                for events in parts:
                    known = followed(known, events)
            except ExchangeError as error:
                failures.setdefault(topic, f"partition {partition}: {reason_of(error)}")
            else:
                if known is not None:
                    newest.setdefault(topic, {})[partition] = known
    return Followed(newest, failures)


def reason_of(error: ExchangeError) -> str:
    """Return why a topic gives no rows."""
    if error.is_known:
        return (
            f"Offset {error.offset} has the end of the old row of a key, and a message before it, of the "
            "same transaction, has the new row of that key. So rows have exchanged their primary keys, and "
            f"the copy would lose the new row. {_ADVICE}"
        )
    return (
        f"Offset {error.offset} has the end of a row, and its transaction has made more than {MOST_ROWS:,} "
        "new rows before. penstock does not remember them all, so it is unknown whether the end is that of "
        f"the old row of a key which has a new row now. {_ADVICE}. If no rows exchange their keys, build the "
        "table again with larger batches, so that one task has the whole transaction"
    )
