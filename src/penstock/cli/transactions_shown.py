"""The output of `penstock transactions`: text for people, JSON for programs.

Runs on the machine of the command. Invariant: nothing here asks the cluster.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import typer

if TYPE_CHECKING:
    from penstock.client.transactions.hanging import Hanging
    from penstock.client.transactions.steps import TransactionDescription
    from penstock.options.by_hand import ByHand
    from penstock.sink.exactly_once.by_hand import OpenTransaction
    from penstock.sink.exactly_once.decision import Decision
    from penstock.sink.exactly_once.foreign import AnyTransaction

_T = TypeVar("_T")


def show_list(
    found: Sequence[_T], if_none: str, to_json: Callable[[_T], object] | None, to_text: Callable[[_T], str]
) -> None:
    """Print one JSON list, or without `to_json` a line for each; for an empty list one sentence."""
    if to_json is not None:
        typer.echo(json.dumps([to_json(each) for each in found]))
        return
    for line in [to_text(each) for each in found] or [if_none]:
        typer.echo(line)


def show_done(plan: dict[str, Any], cluster: str, *, is_done: bool, as_json: bool) -> None:
    """Print the transactions that were ended, or would be."""
    if as_json:
        typer.echo(json.dumps({**plan, "done": is_done}))
        return
    for action, names in (("Committed" if is_done else "Would commit", plan["commit"]),
                          ("Aborted" if is_done else "Would abort", plan["abort"])):  # fmt: skip
        for name in names:
            typer.echo(f"{action} {name}")
    if not plan["commit"] and not plan["abort"]:
        prefix = plan["prefix"]
        typer.echo(f"Nothing to do: no transaction named {prefix}-<number>-<number> is open at {cluster}.")
    elif not is_done:
        typer.echo("Nothing was changed; --yes does it.")


def open_as_json(found: OpenTransaction, hangs: Hanging | None) -> dict[str, Any]:
    """Return an open transaction, for programs."""
    description = found.description
    return {
        "transactional_id": description.identity.transactional_id,
        **_described(description),
        "is_decided": found.decided_by is not None,
        "decided_by": None if found.decided_by is None else found.decided_by.where,
        "hangs": _hanging_as_json(hangs),
    }


def _described(description: TransactionDescription) -> dict[str, Any]:
    return {
        "state": description.state.value,
        "producer_id": description.identity.producer_id,
        "producer_epoch": description.identity.producer_epoch,
        "started_at": _time(description.started_at_ms),
        "timeout_ms": description.timeout_ms,
        "topic_partitions": [list(each) for each in description.topic_partitions],
    }


def _hanging_as_json(hangs: Hanging | None) -> dict[str, Any] | None:
    if hangs is None:
        return None
    return {
        "decided": "commit" if hangs.is_commit else "abort",
        "coordinator": hangs.coordinator,
        "without_leader": [list(each) for each in hangs.leaderless],
    }


def hanging_as_text(transactional_id: str, hangs: Hanging) -> str:
    """Return what a transaction waits for whose end is decided, and what an administrator can do."""
    from penstock.client.transactions.hanging import HANGS_AFTER_S  # noqa: PLC0415 - lazy

    coordinator = "its coordinator" if hangs.coordinator is None else f"broker {hangs.coordinator}"
    if hangs.leaderless:
        todo = f"No broker leads {', '.join(map(str, hangs.leaderless))}. Start the brokers that have it."
    else:
        todo = (
            f"Restart {coordinator}, which has to write the markers: another coordinator then tries again. "
            "If it still hangs, your Kafka may have KAFKA-19999, as 4.0 and 4.1 do: update the brokers."
        )
    lost = " Records that are committed would be lost." if hangs.is_commit else ""
    return (
        f"It hangs: it is decided as {'a commit' if hangs.is_commit else 'an abort'}, and its markers are "
        f"not in all its topic partitions after {HANGS_AFTER_S:.0f} s. No program can use {transactional_id} "
        f"until they are. No command ends it. {todo} Do not abort it with kafka-transactions.sh.{lost}"
    )


def open_as_text(found: OpenTransaction, hangs: Hanging | None) -> str:
    """Return an open transaction, for people."""
    description = found.description
    held_back = ", ".join(map(str, description.topic_partitions)) or "none"
    fate = f"decided by {found.decided_by.where}" if found.decided_by else "not decided"
    return (
        f"{description.identity.transactional_id}  {description.state.value}, {fate}\n"
        f"  since {_time(description.started_at_ms)}, time-out {description.timeout_ms} ms\n"
        f"  readers wait at: {held_back}"
        + (f"\n  {hanging_as_text(description.identity.transactional_id, hangs)}" if hangs else "")
    )


def any_as_json(found: AnyTransaction) -> dict[str, Any]:
    """Return an open transaction of any program, for programs. `prefix` null: the name is not penstock's."""
    description = found.description
    return {
        "transactional_id": found.transactional_id,
        "prefix": found.prefix,
        **_described(description),
        "start_offsets": [found.starts.get(each) for each in description.topic_partitions],
        "hangs": _hanging_as_json(found.hangs),
    }


def any_as_text(found: AnyTransaction, by_hand: ByHand) -> str:
    """Return an open transaction of any program, for people, with what ends it."""
    from penstock.sink.exactly_once.names import continuous_name, how_to_end  # noqa: PLC0415 - lazy

    description = found.description
    name = found.transactional_id
    todo = how_to_end(name, by_hand) if found.hangs is None else hanging_as_text(name, found.hangs)
    continuous = continuous_name(found.transactional_id)
    whose = "not of penstock" if found.prefix is None else f"prefix {found.prefix}"
    if continuous is not None:
        whose = f"task {continuous.task}, lane {continuous.lane} of the continuous query {continuous.prefix}"
    held_back = ", ".join(
        f"{each}{f' at offset {found.starts[each]}' if each in found.starts else ''}"
        for each in description.topic_partitions
    )
    return (
        f"{found.transactional_id}  {description.state.value}, {whose}\n"
        f"  since {_time(description.started_at_ms)}, time-out {description.timeout_ms} ms, producer "
        f"{description.identity.producer_id}\n"
        f"  readers wait at: {held_back or 'none'}\n"
        f"  {todo}"
    )


def others_as_text(prefix: str, others: Sequence[AnyTransaction], by_hand: ByHand) -> str:
    """Return a sentence about open transactions that only begin with the prefix, and each of them."""
    names = ", ".join(each.transactional_id for each in others)
    head = f"Open, but not ended by --prefix {prefix}, are others whose names begin with {prefix}: {names}."
    return "\n".join([head, *(any_as_text(each, by_hand) for each in others)])


def show_foreign_abort(
    transactional_id: str, ongoing: TransactionDescription | None, *, is_done: bool, as_json: bool
) -> None:
    """Print that a transaction of another program was aborted, or would be."""
    if as_json:
        names = [] if ongoing is None else [transactional_id]
        typer.echo(json.dumps({"transactional_id": transactional_id, "abort": names, "done": is_done}))
        return
    if ongoing is None:
        typer.echo(f"Nothing to do: no transaction named {transactional_id} waits for its end.")
        return
    where = ", ".join(map(str, ongoing.topic_partitions)) or "no topic partition"
    typer.echo(
        f"{'Aborted' if is_done else 'Would abort'} {transactional_id}, open since "
        f"{_time(ongoing.started_at_ms)}: its records in {where} stay invisible to read_committed readers. "
        "Its program, if it still runs, gets an error (ProducerFencedException) at its next step."
    )
    if not is_done:
        typer.echo("Nothing was changed; --yes does it.")


def decision_as_json(decision: Decision) -> dict[str, Any]:
    """Return a decision, for programs."""
    return {
        "query_id": decision.query_id,
        "batch_id": decision.batch_id,
        "status": decision.status.value,
        "at": _time(decision.at_ms),
        "record_count": decision.record_count,
        "spark_partition_count": decision.spark_partition_count,
        "transactions": [
            {**each.committable.to_json(), "outcome": each.outcome.value} for each in decision.transactions
        ],
        "ended": None
        if decision.ended is None
        else {"reason": decision.ended.reason.value, "heir": decision.ended.heir},
    }


def decision_as_text(decision: Decision) -> str:
    """Return a decision, for people."""
    lines = [
        f"{decision.where}: {decision.status.value} at {_time(decision.at_ms)}, "
        f"{decision.record_count} records"
    ]
    lines += [f"  {each.outcome.value}: {each.committable}" for each in decision.transactions]
    if (begun := decision.begun) is not None:
        lines.append(f"  continues query {begun.from_query_id} after its batch {begun.after}")
    if (ended := decision.ended) is not None:
        what = "a shadow of" if ended.reason.value == "shadow" else "handed over to"
        lines.append(f"  {what} query {ended.heir}: it writes nothing more (checkpoint {ended.checkpoint})")
    return "\n".join(lines)


def _time(at_ms: int) -> str | None:
    if at_ms < 0:
        return None
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
