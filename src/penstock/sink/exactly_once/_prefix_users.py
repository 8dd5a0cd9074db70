"""Name the other query that writes under a prefix, from the decision log: for a warning, and for an error.

Runs on the driver, and in tasks, which know what recovery has read. Pure. Invariant: a text claims only what
the log shows. If the log shows nothing, the text names every possible cause.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from penstock.errors import NewQueryError, PrefixTakenError
from penstock.sink.exactly_once.decision import DecisionStatus, EndReason, is_batch_write, is_named_write
from penstock.sink.exactly_once.mandate import KnownBatch

STOOD_STILL = (
    " If no other writer is running, this driver stood still, or was cut off from Kafka, for longer than the "
    "time-out of a decision: then restart it."
)
"""For `taken_error`, if a time-out may have aborted the writer's own decision."""

_COMMAND = " Or `penstock transactions recover` or `abort` was run: then restart this query."
_OLDER_DRIVER = (
    "Either this is an older driver of the query and a newer one is running: then let the newer one continue."
)


def taken_error(
    prefix: str,
    doing: str,
    consequence: str,
    *,
    known: Mapping[str, KnownBatch] | None = None,
    query_id: str | None = None,
    batch_id: int | None = None,
    is_written: bool = False,
    **facts: Any,
) -> PrefixTakenError:
    """Return the error for a writer that has lost its prefix to another writer.

    Args:
        prefix: the prefix.
        doing: what this writer was doing.
        consequence: what that means for the rows that it wrote.
        known: the newest known batches of all queries under the prefix.
        query_id: of this writer; None if it is not known.
        batch_id: of this writer; None if it is not known.
        is_written: this writer has written the batch because it was not decided.
        facts: more facts for the error.
    """
    who, rival = _who(known or {}, query_id, batch_id, is_written=is_written)
    told: dict[str, Any] = {"query_id": query_id, "batch_id": batch_id, "other_query_id": rival, **facts}
    return PrefixTakenError(
        f"Another writer has taken the transactional id prefix {prefix} while {doing}. {consequence} This "
        f"query must stop. {who}",
        prefix=prefix,
        **{name: value for name, value in told.items() if value is not None or name == "is_decided"},
    )


def _who(
    known: Mapping[str, KnownBatch], query_id: str | None, batch_id: int | None, *, is_written: bool
) -> tuple[str, str | None]:
    """Return a sentence about the writer that has the prefix now, and the id of the other query, if any."""
    others = other_streams(known, query_id)
    own = None if query_id is None else known.get(query_id)
    if own is not None and batch_id is not None and _is_gone_on(own, batch_id, is_written=is_written):
        return (
            f"It is another driver of the same query: {_shown(own)}, which this driver has not written. Let "
            "the newer driver continue, and make sure that this one does not start again."
        ), None
    if not others or query_id is None:
        last = f" The last query that wrote under it was {_last(others)}." if others else ""
        return (
            f"{_OLDER_DRIVER} Or two queries use the same sink.transactional-id-prefix: then give each query "
            f"its own.{_COMMAND}{last}"
        ), None
    rival, batch = next(iter(others.items()))
    if own is not None and batch.at_ms >= own.at_ms:
        return (
            f"Most likely two queries use the same sink.transactional-id-prefix: query {_last(others)}, "
            f"after the last batch of this query, {query_id}. Give each query its own prefix, or stop one of "
            f"them.{_COMMAND}"
        ), rival
    return (
        f"Either two queries use the same sink.transactional-id-prefix: query {_last(others)}. If that query "
        "still runs, give each query its own prefix. Or this is an older driver of the query and a newer one "
        f"is running: then let the newer one continue.{_COMMAND}"
    ), rival


def _is_gone_on(own: KnownBatch, batch_id: int, *, is_written: bool) -> bool:
    is_decided = own.status in (DecisionStatus.DECIDED, DecisionStatus.FINISHED)
    return own.batch_id > batch_id or (is_written and is_decided and own.batch_id == batch_id)


def new_query_warning(known: Mapping[str, KnownBatch], prefix: str, query_id: str) -> str | None:
    """Return a warning before a query's first batch under a prefix that other queries have used.

    Args:
        known: the newest batches of all queries under the prefix; batch writes do not count.
        prefix: the prefix.
        query_id: of the query; the warning is None if the query is known.
    """
    if query_id in known or is_batch_write(query_id) or is_named_write(query_id):
        return None
    others = other_streams(known, query_id)
    if not others:
        return None
    more = f", and {len(others) - 1} more before" if len(others) > 1 else ""
    return (
        f"Query {query_id} writes under sink.transactional-id-prefix={prefix} for the first time, and "
        f"another query has written under it: {_last(others)}{more}. If this is the same job with a new "
        "checkpoint location, it reads from the startup mode's offsets and may write again what the older "
        "query wrote: continue with the older checkpoint, or start at the offsets where the older query "
        "ended. If it is another job, give it a prefix of its own."
    )


def new_query_error(warning: str, prefix: str, query_id: str) -> NewQueryError:
    """Return the error in place of the warning, if the options ask for it."""
    return NewQueryError(
        f"Not written, because sink.on-new-query = fail. {warning} To write all the same, set "
        "sink.on-new-query = warn until the first batch is written.",
        prefix=prefix,
        query_id=query_id,
    )


def other_streams(known: Mapping[str, KnownBatch], query_id: str | None) -> dict[str, KnownBatch]:
    """Return the other queries under the prefix, without batch writes, the latest writer first."""
    found = {
        each: batch
        for each, batch in reversed(list(known.items()))
        if each != query_id
        and not is_batch_write(each)
        and not is_named_write(each)
        and not _is_shadow(batch)
    }
    return dict(sorted(found.items(), key=lambda item: -item[1].at_ms))


def _is_shadow(batch: KnownBatch) -> bool:
    """Return whether the query has written nothing under the prefix, and never will."""
    return batch.ended is not None and batch.ended.reason is EndReason.SHADOW


def _last(others: Mapping[str, KnownBatch]) -> str:
    query_id, batch = next(iter(others.items()))
    return f"{query_id}, whose {_shown(batch)}"


def _shown(batch: KnownBatch) -> str:
    time = datetime.fromtimestamp(batch.at_ms / 1000, UTC).isoformat(timespec="seconds")
    return f"batch {batch.batch_id} is {batch.status.value} since {time}"
