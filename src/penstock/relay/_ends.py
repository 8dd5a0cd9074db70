"""Say why a task has ended. Runs on the executor. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.client.net import error_codes as codes
from penstock.client.net.broker_errors import error_from_code
from penstock.errors import (
    OffsetOutOfRangeError,
    PenstockError,
    ProducerFencedError,
    RowError,
    TransactionError,
)
from penstock.relay.loop import End, Outcome

_REFUSED_RECORDS = frozenset(
    (
        codes.INVALID_RECORD,
        codes.INVALID_TIMESTAMP,
        codes.MESSAGE_TOO_LARGE,
        codes.POLICY_VIOLATION,
        codes.RECORD_LIST_TOO_LARGE,
    )
)
"""A broker refuses the records themselves, and would refuse them again. So no job may be started again."""


def error_of(
    outcome: Outcome, transactional_ids: Sequence[str], group_id: str, *, is_transactional: bool = True
) -> PenstockError:
    """Return the error of a task that was not told to stop."""
    nothing = (
        "Its open transactions are not committed, so no record is lost or written twice."
        if is_transactional
        else "No offset after a record that was not acknowledged is committed, so the next start writes it."
    )
    facts: dict[str, Any] = {"group_id": group_id}
    ids = ", ".join(transactional_ids)
    what = f"A continuous task with the transactional ids {ids} has ended: {outcome.what}"
    if outcome.error_code:
        what += f" ({codes.NAMES.get(outcome.error_code, outcome.error_code)})"
    if outcome.end is End.FENCED:
        return ProducerFencedError(
            f"{what}. Another producer has taken such an id, or the broker has aborted a transaction after "
            f"transaction.timeout.ms. {nothing}",
            **facts,
        )
    if outcome.end is End.PLAN_OVER:
        return TransactionError(
            f"{what}. Another plan of the query, or another query with the consumer group {group_id!r}, is "
            f"the present one. {nothing}",
            **facts,
        )
    if outcome.error_code == codes.OFFSET_OUT_OF_RANGE:
        return OffsetOutOfRangeError(
            f"{what}. The records were deleted before they were read, or the topic or the offsets of the "
            f"group were changed. {nothing} Set the group's offset to one that the log holds, and start the "
            "query again.",
            **facts,
        )
    if outcome.error_code in _REFUSED_RECORDS:
        return RowError(
            f"{what}. {nothing} Another start would write the same records. Change the function so that it "
            "writes no such record, or change the topic, and start the query again.",
            **facts,
            error_code=outcome.error_code,
        )
    error = error_from_code(outcome.error_code or codes.UNKNOWN_SERVER_ERROR, what, **facts)
    return type(error)(
        f"{error.message} {nothing} Remove the cause, and start the query again.", **error.facts
    )
