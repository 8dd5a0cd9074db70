"""Read the decision logs of what `penstock verify` is asked for, and verify each prefix.

Runs on any machine that reaches the brokers. Invariant: a prefix, a query or a batch that could not be looked
at is a finding, so that the answer is not "proven".
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.cli.receipts import unfinished_of
from penstock.client.cluster.log_offsets import list_offsets
from penstock.client.net.connection import KafkaConnections
from penstock.observe.checkpoint import CheckpointState, read_checkpoint
from penstock.observe.verify.check import verify, with_checkpoint
from penstock.observe.verify.found import Finding, Report, Verdict
from penstock.options.config import IsolationLevel
from penstock.sink.exactly_once.by_hand import logs_of, transaction_tools
from penstock.sink.exactly_once.decision import Decision, EndReason
from penstock.sink.exactly_once.driver_side import ExactlyOnceSettings
from penstock.sink.exactly_once.receipt import Receipt, newest
from penstock.types import LogEnd, TopicPartition

_COMMIT_TAKES_S = 2
"""How long to wait for the end of a transaction of a log: a running query commits one for each batch."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the user asks for.

    Attributes:
        prefix: None: all that have written the query of the checkpoint.
        checkpoint: None: all queries of the prefix.
        log_topic: the decision log, if its name is another than the default one.
        times: of the decisions, in milliseconds since 1970.
        copied: the columns that the query copies; None: it may do anything.
        is_only_writer: no other program writes the target topics.
        has_other_writers: other programs write them too.
    """

    prefix: str | None
    checkpoint: str | None
    log_topic: str | None
    times: range
    copied: tuple[str, ...] | None = None
    is_only_writer: bool = False
    has_other_writers: bool = False


@dataclass(frozen=True, slots=True)
class _Logged:
    """What decision logs say. `open_at`: where an open transaction hides the rest of one, and its name."""

    receipts: list[Receipt]
    decisions: list[Decision]
    open_at: tuple[tuple[str, int], ...] = ()


def report_of(target: KafkaConnections, source: KafkaConnections, wanted: Wanted) -> Report:
    """Verify all batches that the user asks for.

    Raises:
        PenstockError: a cluster, the checkpoint or a receipt cannot be read.
    """
    state = None if wanted.checkpoint is None else read_checkpoint(wanted.checkpoint)
    if wanted.prefix is not None:
        logs = [_read_log(target, wanted.prefix, wanted.log_topic)]
    else:
        query_id = "" if state is None or state.query_id is None else state.query_id
        places = logs_of(target, query_id, wanted.log_topic) if query_id else []
        logs = [_read_log(target, each.prefix, each.topic) for each in places]
    if state is not None:
        logs = [_of_query(each, state.query_id) for each in logs]
    whole = Report([])
    if wanted.prefix is None:
        whole.findings += _siblings_missing(logs)
    if len(logs) > 1 and not _have_siblings(logs):
        logs = [_joined(logs)]  # the query has moved from one prefix to another
    everything = [receipt for each in logs for receipt in each.receipts]
    for each in logs:
        part = _verify(target, source, wanted, state, each, everything)
        whole.batches += part.batches
        whole.findings += part.findings
        whole.other_writers += part.other_writers
    return whole


def _read_log(connections: KafkaConnections, prefix: str, log_topic: str | None) -> _Logged:
    tools = transaction_tools(ExactlyOnceSettings(connections.settings, prefix, log_topic), connections)
    if not tools.has_log():
        tools.check_not_continuous()
        return _Logged([], [])
    open_offset = _open_offset(connections, tools.log_topic)
    open_at = () if open_offset is None else ((tools.log_topic, open_offset),)
    return _Logged(tools.receipts(), tools.decisions(), open_at)


def _open_offset(connections: KafkaConnections, topic: str) -> int | None:
    """Return where an open transaction hides the end of a decision log; None if all of it can be read."""
    at = TopicPartition(topic, 0)
    end = list_offsets(connections, {at: LogEnd.LATEST})[at]
    deadline, backoff = time.monotonic() + _COMMIT_TAKES_S, connections.new_backoff()
    while True:
        stable = list_offsets(connections, {at: LogEnd.LATEST}, IsolationLevel.READ_COMMITTED)[at]
        if stable >= end:
            return None
        if not backoff.pause(deadline):
            return stable


def _of_query(log: _Logged, query_id: str | None) -> _Logged:
    return _Logged(
        [each for each in log.receipts if each.query_id == query_id],
        [each for each in log.decisions if each.query_id == query_id],
        log.open_at,
    )


def _have_siblings(logs: Sequence[_Logged]) -> bool:
    """Return whether a function of `foreachBatch` has written batches under several prefixes."""
    if any(decision.sibling_count for each in logs for decision in each.decisions):
        return True
    found = Counter((one.query_id, one.batch_id) for each in logs for one in each.receipts)
    return any(count > 1 for count in found.values())


def _siblings_missing(logs: Sequence[_Logged]) -> list[Finding]:
    most = max((decision.sibling_count for each in logs for decision in each.decisions), default=0)
    if most < len(logs) or not logs:
        return []
    text = (
        f"Expected the decision logs of {most + 1} prefixes that have written each batch, found {len(logs)}. "
        "Give --log-topic if the query has sink.commit-log.topic, or verify the others with --prefix."
    )
    return [Finding(Verdict.NOT_PROVABLE, "other-prefix", text)]


def _joined(logs: Sequence[_Logged]) -> _Logged:
    return _Logged(
        newest(sorted((one for each in logs for one in each.receipts), key=lambda each: each.at_ms)),
        [one for each in logs for one in each.decisions],
        tuple(one for each in logs for one in each.open_at),
    )


def _verify(
    target: KafkaConnections,
    source: KafkaConnections,
    wanted: Wanted,
    state: CheckpointState | None,
    log: _Logged,
    everything: Sequence[Receipt],
) -> Report:
    receipts = log.receipts
    if wanted.checkpoint is not None:
        receipts = with_checkpoint(receipts, wanted.checkpoint)
    part = verify(
        target,
        source,
        receipts,
        [each for each in receipts if each.at_ms in wanted.times],
        dict(unfinished_of(log.decisions)),
        copied=wanted.copied,
        is_only_writer=wanted.is_only_writer and not log.open_at,
        has_other_writers=wanted.has_other_writers,
        newest=_newest(wanted, state, log),
        beside=everything,
    )
    part.findings += [_hidden(topic, offset) for topic, offset in log.open_at]
    return part


def _newest(wanted: Wanted, state: CheckpointState | None, log: _Logged) -> dict[str, int]:
    """Return the newest batch of each query that is known to be decided or done."""
    with_receipts = {each.query_id for each in log.receipts}
    found: dict[str, int] = {}
    for each in log.decisions:
        if each.ended is not None and each.ended.reason is EndReason.SHADOW:
            continue  # it has written nothing here
        if each.begun is not None:
            continue  # its batch 0 is what another query has done
        if each.query_id in with_receipts or each.at_ms in wanted.times:
            found[each.query_id] = max(each.batch_id, found.get(each.query_id, each.batch_id))
    if state is not None and state.query_id is not None and state.batch_id is not None:
        found[state.query_id] = max(state.batch_id, found.get(state.query_id, state.batch_id))
    return found


def _hidden(topic: str, offset: int) -> Finding:
    text = (
        f"An open transaction hides the decision log {topic} from offset {offset} on. Receipts behind it "
        "were not read. Ask again when the transaction has ended: `penstock transactions list` shows it."
    )
    return Finding(Verdict.NOT_PROVABLE, "open", text, TopicPartition(topic, 0), offset)
