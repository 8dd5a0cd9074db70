"""Find out whether a query's batch is written under another prefix, because the query has changed its prefix.

Runs on the driver, before a batch is decided. It reads other logs as rarely as it can:

- A prefix whose log does not know the query leaves a trace of the query there. Then it searches all decision
  logs, once, because its own decision is next. Where it finds the query it leaves a *marker*: "moved to me".
- A prefix that wrote the query's batches into other topics, or in another turn of a function of
  `foreachBatch`, does the same, because its decisions are about other writes. It searches for each topic once
  in a process.
- A prefix whose log knows the query, and has no marker, was the last one to write it.
- A prefix that finds markers in its own log follows them, and the markers that they lead to. Then it leaves
  its own markers there. Its decision takes back those in its log, in one transaction: a driver that cannot
  decide any more must not remove a marker that another prefix relies on.

Before it decides, a prefix takes the prefixes that it moves a query from: after it has left the marker, and
before it looks a last time. An older driver there that stood still has decided before, or never will. A newer
driver there reads the marker.

Invariant: from each prefix that has written a query, markers lead to the prefix that decided last. They are
left before the decision. *Siblings* are prefixes under which a function of `foreachBatch` writes the same
batch. A decision of one of them says nothing about another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from penstock.errors import DecisionLogError, PrefixChangedError, QueryEndedError
from penstock.sink.exactly_once._log_records import LogLocation
from penstock.sink.exactly_once.decision import Decision, DecisionStatus, EndReason
from penstock.sink.exactly_once.ended import query_ended_error
from penstock.sink.exactly_once.log import DecisionLog


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The knowledge of another prefix about the query."""

    log: DecisionLog
    decision: Decision | None

    def concerns(self, batch: Decision) -> bool:
        """Return whether it may have written into a topic of the batch; 0.1.0 did not store topics.

        Each batch of a query that has handed over its prefix is written by its heir. Its decision names only
        the topics of its last batch.
        """
        decision = self.decision
        if decision is None or _may_share_topics(decision, batch):
            return True
        return decision.ended is not None and decision.ended.reason is EndReason.HANDED_OVER

    def holds(self, batch: Decision) -> bool:
        """Return whether it has written this batch or a later one."""
        decision = self.decision
        if decision is None or decision.status is DecisionStatus.WITHDRAWN:
            return False
        return decision.ended is not None or decision.batch_id >= batch.batch_id


def _may_share_topics(one: Decision, other: Decision) -> bool:
    return not one.topics or not other.topics or not one.topic_names.isdisjoint(other.topic_names)


class BatchElsewhere(NamedTuple):
    """The state of a query's batch under other prefixes."""

    holders: list[Elsewhere]
    """The prefixes that have written the batch or a later one. Without any the query is ours."""
    is_known: bool
    """True if this or another prefix has written a batch of the query before."""
    came_back_from: Sequence[LogLocation] = ()
    """The markers in our log that the decision has to take back."""


def find_written(
    log: DecisionLog, batch: Decision, siblings: frozenset[str], take: Callable[[str], None]
) -> BatchElsewhere:
    """Find out whether the batch, or a later one, is written under another prefix.

    Args:
        log: as of `catch_up`; does not hold the batch.
        batch: the decision that is about to be written.
        siblings: other prefixes that write the same batches.
        take: takes another prefix, so that a driver there that has looked before can no longer decide.

    Raises:
        DecisionLogError: a log that has to be read is gone, cannot be read now, or has a later version.
        PenstockError: no answer in time, or no permission to leave a marker.
    """
    others = _whereabouts(log, batch, siblings)
    found = [each for each in others if each.concerns(batch)]
    holders = [each for each in found if each.holds(batch)]
    if not holders:
        holders = [each for each in _move(found, log.location, batch, take) if each.holds(batch)]
    left = log.moved_to(batch.query_id)
    came_back_from = [each.log.location for each in found if each.log.location in left]
    # A trace without a decision is of a start that failed before it wrote anything.
    is_known = log.decision(batch.query_id) is not None or any(each.decision is not None for each in others)
    return BatchElsewhere(holders, is_known, came_back_from)


def _move(
    found: Sequence[Elsewhere], own: LogLocation, batch: Decision, take: Callable[[str], None]
) -> list[Elsewhere]:
    """Leave the markers, take the prefixes, and read what they know now. The order matters."""
    for each in found:
        each.log.mark_moved(batch.query_id, own)
    for each in found:
        if (
            each.log.location.prefix != own.prefix
        ):  # a copy of this prefix's own log, made by a mirroring tool
            take(each.log.location.prefix)
        if not each.log.look():
            raise _gone_error(own, each.log.location, batch)
    return [Elsewhere(each.log, each.log.decision(batch.query_id)) for each in found]


def _whereabouts(log: DecisionLog, batch: Decision, siblings: frozenset[str]) -> list[Elsewhere]:
    """Return the knowledge of the other prefixes that have, or had, the query."""
    ahead = log.moved_to(batch.query_id)
    if _is_something_else(log, batch):
        if log.decision(batch.query_id) is None:
            # If two prefixes begin at the same time, one of them finds the other, and takes it.
            log.leave_trace(batch.query_id)
        ahead += log.locations_of(batch.query_id)
        log.looked_for.update((batch.query_id, name) for name in batch.topic_names)
    seen, found = {log.location}, list[Elsewhere]()
    while ahead:
        location = ahead.pop()
        if location in seen or location.prefix in siblings:
            continue
        seen.add(location)
        other = log.at(location)
        if not other.look():
            raise _gone_error(log.location, location, batch)
        found.append(Elsewhere(other, other.decision(batch.query_id)))
        ahead += other.moved_to(batch.query_id)
    return found


def _is_something_else(log: DecisionLog, batch: Decision) -> bool:
    """Return whether the log's decision about the query says nothing about this batch."""
    own = log.decision(batch.query_id)
    if own is None or own.sibling_count != batch.sibling_count:
        return True
    if _may_share_topics(own, batch):
        return False
    return not log.looked_for.issuperset((batch.query_id, name) for name in batch.topic_names)


def prefix_changed_error(
    own: LogLocation, batch: Decision, holders: Sequence[Elsewhere]
) -> PrefixChangedError | QueryEndedError:
    """Return the error for a batch that is written under other prefixes."""
    for each in holders:
        if each.decision is not None and each.decision.ended is not None:
            return query_ended_error(each.log.location.prefix, batch.query_id, each.decision.ended)
    theirs, held = holders[0].log.location, holders[0].decision or batch
    prefixes = [each.log.location.prefix for each in holders]
    more = f" (also under {', '.join(prefixes[1:])})" if prefixes[1:] else ""
    return PrefixChangedError(
        f"Not written: {held.where} is {held.status.value} under sink.transactional-id-prefix="
        f"{theirs.prefix} (decision log {theirs.topic}){more}. Now batch {batch.batch_id} would go under the "
        f"prefix {own.prefix}, which could double it. If the prefix of the query was changed: start the "
        f"query once more with {theirs.prefix}, let it finish that batch, stop it, then change the prefix. "
        f"If this is a copy of the checkpoint for a second query: do not start it with {theirs.prefix}, "
        "because that would stop the query that has this prefix; give the second query a new checkpoint "
        "location. If a function of foreachBatch writes under both prefixes: let it write them in the same "
        "order as before.",
        prefix=own.prefix,
        previous_prefix=theirs.prefix,
        previous_prefixes=prefixes,
        query_id=batch.query_id,
        batch_id=batch.batch_id,
    )


def _gone_error(own: LogLocation, theirs: LogLocation, batch: Decision) -> DecisionLogError:
    return DecisionLogError(
        f"Query {batch.query_id} left the prefix {own.prefix} for sink.transactional-id-prefix="
        f"{theirs.prefix} before, and the decision log {theirs.topic} of that prefix no longer exists. It is "
        f"unknown whether batch {batch.batch_id} is written under that prefix, so nothing was written. "
        "Compare the target with the source, then start with a prefix that was never used.",
        topic=theirs.topic,
        prefix=own.prefix,
        previous_prefix=theirs.prefix,
        query_id=batch.query_id,
        batch_id=batch.batch_id,
    )
