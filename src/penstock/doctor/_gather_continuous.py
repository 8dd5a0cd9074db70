"""Ask what a continuous query depends on. Runs on the driver's machine. Invariant: it changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.client.cluster.log_offsets import CHECKPOINT_NOTE, committed_notes
from penstock.client.cluster.membership import has_only_member
from penstock.client.net.connection import KafkaConnections
from penstock.client.transactions.rights import may_write_ids
from penstock.client.transactions.steps import TransactionProtocol, Transactions
from penstock.doctor.facts import ContinuousFacts, GroupFacts, TopicFacts
from penstock.errors import PenstockError
from penstock.types import TopicPartition

_TRANSACTION_TIMEOUT_MS = 10_000
"""As `penstock.relay.settings` sets it if the user does not."""


@dataclass(frozen=True)
class ContinuousSubjects:
    """What the user asks about.

    Attributes:
        group_id: of the query.
        prefix: of its transactional ids.
    """

    group_id: str
    prefix: str


def continuous_facts(
    connections: KafkaConnections,
    wanted: ContinuousSubjects,
    group: GroupFacts,
    sources: Sequence[TopicFacts],
    topic_facts: Callable[[KafkaConnections, str], TopicFacts],
    transaction_timeout_ms: int | None,
    timeout_ms: int,
) -> ContinuousFacts:
    """Ask the cluster. Raise nothing: what cannot be found out is a fact, too."""
    found: dict[str, Any] = {}

    def note(name: str, error_name: str, ask: Callable[[], Any]) -> None:
        try:
            found[name] = ask()
        except PenstockError as error:
            found[error_name] = error.message

    transactions = Transactions(connections)
    ids = f"{wanted.prefix}-continuous"

    def write_error() -> str:
        refused = may_write_ids(connections, ids, timeout_ms=timeout_ms)
        return "" if refused is None else refused.message

    def is_protocol_2() -> bool:
        return transactions.protocol(timeout_ms=timeout_ms) is TransactionProtocol.V2

    def refuses() -> bool:
        return transactions.refuses_late_writes(timeout_ms=timeout_ms)

    def has_offsets_of_stream() -> bool:
        places = [TopicPartition(one.topic, each) for one in sources for each in range(one.partition_count)]
        notes = committed_notes(connections, wanted.group_id, places, is_stable=False, timeout_ms=timeout_ms)
        return any(each.note == CHECKPOINT_NOTE for each in notes.values())

    note("write_error", "ids_error", write_error)
    note("is_protocol_2", "protocol_error", is_protocol_2)
    note("refuses_late_writes", "protocol_error", refuses)
    if not group.error and group.may_describe is not False:
        note(
            "is_running",
            "offsets_error",
            lambda: has_only_member(connections, wanted.group_id, timeout_ms=timeout_ms),
        )
        note("has_offsets_of_stream", "offsets_error", has_offsets_of_stream)
    return ContinuousFacts(
        wanted.prefix,
        group,
        tuple(topic_facts(connections, each) for each in ("__transaction_state", "__consumer_offsets")),
        transaction_timeout_ms or _TRANSACTION_TIMEOUT_MS,
        **found,
    )
