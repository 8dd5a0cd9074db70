"""Say how an open transaction of any program is ended by hand.

Runs in commands. Pure. Invariant: the text says when that is right, because it can lose what a program that
still runs is writing.
"""

from __future__ import annotations

from penstock.options.by_hand import ByHand
from penstock.sink.exactly_once.names import prefix_of
from penstock.types import TopicPartition


def how_to_end(transactional_id: str, by_hand: ByHand) -> str:
    """Return the sentence for an open transaction that has a coordinator."""
    prefix = prefix_of(transactional_id)
    if prefix is not None:
        return (
            f"{transactional_id} has a name of the prefix {prefix}, as penstock and Flink give them. If its "
            f"query no longer runs, start it again, or run `{by_hand.of_prefix('recover', prefix, '--yes')}`."
        )
    return (
        f"{transactional_id} is not a transaction of penstock. If its program no longer runs, run "
        f"`{by_hand.abort_foreign(transactional_id)}`: it aborts the transaction and fences the program."
    )


def how_to_end_hanging(topic_partition: TopicPartition, start_offset: int, by_hand: ByHand) -> str:
    """Return the sentence for an open transaction that no coordinator shows."""
    command = by_hand.abort_hanging(*topic_partition, start_offset)
    return (
        f"The transaction at {topic_partition} is hidden from this user (right DESCRIBE on its transactional "
        f"id), or no time-out ends it. In that case run `{command}`."
    )
