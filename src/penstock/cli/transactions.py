"""`penstock transactions`: what the exactly-once sink has open, and finishing or aborting it by hand.

Runs on any machine that reaches the brokers. Invariant: without --yes nothing is changed: `recover` and
`abort` then only show what they would do.
"""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.errors import OptionError

if TYPE_CHECKING:
    from penstock.sink.decision import Decision
    from penstock.sink.recovery_tools import OpenTransaction, TransactionTools

transactions_app = typer.Typer(
    help="Transactions of the exactly-once sink: list, describe, recover, abort.", no_args_is_help=True
)

_Prefix = Annotated[str, typer.Option("--prefix", help="The query's sink.transactional-id-prefix.")]
_Servers = Annotated[str, typer.Option("--bootstrap-server", help="The brokers, host:port,host:port.")]
_Config = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        help="A file of Kafka client properties (key=value), for TLS and logins.",
        exists=True,
        dir_okay=False,
    ),
]
_Topic = Annotated[
    str | None, typer.Option("--log-topic", help="The query's sink.commit-log.topic, if it has one.")
]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_Yes = Annotated[bool, typer.Option("--yes", help="Do it. A query that still runs is stopped by an error.")]


@transactions_app.command("list")
def list_transactions(
    prefix: _Prefix,
    bootstrap_server: _Servers,
    command_config: _Config = None,
    log_topic: _Topic = None,
    as_json: _Json = False,
) -> None:
    """Show the open transactions of the prefix: since when, and which topic partitions wait for them."""
    found = _tools(prefix, bootstrap_server, command_config, log_topic).open_transactions()
    if as_json:
        typer.echo(json.dumps([_open_as_json(each) for each in found]))
        return
    if not found:
        typer.echo(f"No transaction of prefix {prefix} is open.")
    for each in found:
        typer.echo(_open_as_text(each))


@transactions_app.command()
def describe(
    prefix: _Prefix,
    bootstrap_server: _Servers,
    command_config: _Config = None,
    log_topic: _Topic = None,
    as_json: _Json = False,
) -> None:
    """Show the newest decision about each query: which batch, and what became of its transactions."""
    found = _tools(prefix, bootstrap_server, command_config, log_topic).decisions()
    if as_json:
        typer.echo(json.dumps([_decision_as_json(each) for each in found]))
        return
    if not found:
        typer.echo(f"Nothing was decided under prefix {prefix}.")
    for each in found:
        typer.echo(_decision_as_text(each))


@transactions_app.command()
def recover(
    prefix: _Prefix,
    bootstrap_server: _Servers,
    command_config: _Config = None,
    log_topic: _Topic = None,
    yes: _Yes = False,
    as_json: _Json = False,
) -> None:
    """Commit what is decided and abort what is not, as the next start of the query would."""
    tools = _tools(prefix, bootstrap_server, command_config, log_topic)
    planned = tools.open_transactions()
    plan = {
        "prefix": prefix,
        "commit": [each.description.identity.transactional_id for each in planned if each.decided_by],
        "abort": [each.description.identity.transactional_id for each in planned if not each.decided_by],
    }
    if yes:
        tools.recover()
    _show_done(plan, is_done=yes, as_json=as_json)
    if yes and not as_json:
        for decision in tools.decisions():
            typer.echo(_decision_as_text(decision))


@transactions_app.command()
def abort(
    prefix: _Prefix,
    bootstrap_server: _Servers,
    command_config: _Config = None,
    log_topic: _Topic = None,
    query: Annotated[
        str | None, typer.Option("--query", help="End the decision about this query id, see --resolution.")
    ] = None,
    resolution: Annotated[
        str | None,
        typer.Option(
            help="With --query: write-again (the batch's replay is written whole, what is committed of it is "
            "doubled) or take-as-written (the replay is drained, what is lost of it stays lost)."
        ),
    ] = None,
    yes: _Yes = False,
    as_json: _Json = False,
) -> None:
    """Abort the open transactions that no decision names; or, with --query, end a decision by hand."""
    tools = _tools(prefix, bootstrap_server, command_config, log_topic)
    if query is not None:
        _resolve(tools, prefix, query, resolution, yes=yes, as_json=as_json)
        return
    planned = [each for each in tools.open_transactions() if each.decided_by is None]
    names = [each.description.identity.transactional_id for each in planned]
    if yes:
        names = tools.abort()
    _show_done({"prefix": prefix, "commit": [], "abort": names}, is_done=yes, as_json=as_json)


def _resolve(
    tools: TransactionTools, prefix: str, query: str, resolution: str | None, *, yes: bool, as_json: bool
) -> None:
    from penstock.sink.recovery_tools import Resolution  # noqa: PLC0415 - lazy

    allowed = [each.value for each in Resolution]
    if resolution not in allowed:
        raise OptionError(
            f"--query wants --resolution with one of {', '.join(allowed)}. Nothing was changed.",
            option="--resolution",
            value=resolution,
        )
    if yes:
        decisions = [tools.resolve(query, Resolution(resolution))]
    else:
        decisions = [each for each in tools.decisions() if each.query_id == query]
    if as_json:
        shown = [_decision_as_json(each) for each in decisions]
        typer.echo(json.dumps({"prefix": prefix, "done": yes, "resolution": resolution, "decisions": shown}))
        return
    for each in decisions:
        typer.echo(("" if yes else f"Would be resolved as {resolution}: ") + _decision_as_text(each))
    if not decisions:
        typer.echo(f"Nothing was decided about query {query}.")
    elif not yes:
        typer.echo("Nothing was changed; --yes does it.")


def _show_done(plan: dict[str, Any], *, is_done: bool, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({**plan, "done": is_done}))
        return
    for action, names in (("Committed" if is_done else "Would commit", plan["commit"]),
                          ("Aborted" if is_done else "Would abort", plan["abort"])):  # fmt: skip
        for name in names:
            typer.echo(f"{action} {name}")
    if not plan["commit"] and not plan["abort"]:
        typer.echo("No open transaction needs anything.")
    if not is_done:
        typer.echo("Nothing was changed; --yes does it.")


def _tools(
    prefix: str, bootstrap_server: str, command_config: Path | None, log_topic: str | None
) -> TransactionTools:
    from penstock.client.properties import connection_settings  # noqa: PLC0415 - lazy
    from penstock.options.config import KafkaProperties  # noqa: PLC0415 - lazy
    from penstock.sink.committer_driver import ExactlyOnceSettings  # noqa: PLC0415 - lazy
    from penstock.sink.recovery_tools import TransactionTools  # noqa: PLC0415 - lazy

    given = {} if command_config is None else _read_properties(command_config)
    given["bootstrap.servers"] = bootstrap_server
    connection = connection_settings(KafkaProperties(tuple(sorted(given.items()))), client_id="penstock-cli")
    return TransactionTools(ExactlyOnceSettings(connection, prefix, log_topic))


def _read_properties(path: Path) -> dict[str, str]:
    """A Java properties file as people write them: one key=value a line, # for remarks."""
    text = path.read_text(encoding="utf-8").replace("\\\n", "")
    lines = [line.strip() for line in text.splitlines()]
    pairs = (line.partition("=") for line in lines if line and line[0] not in "#!")
    return {key.strip(): value.strip() for key, _, value in pairs}


def _open_as_json(found: OpenTransaction) -> dict[str, Any]:
    description = found.description
    return {
        "transactional_id": description.identity.transactional_id,
        "state": description.state.value,
        "producer_id": description.identity.producer_id,
        "producer_epoch": description.identity.producer_epoch,
        "started_at": _time(description.started_at_ms),
        "timeout_ms": description.timeout_ms,
        "topic_partitions": [list(each) for each in description.topic_partitions],
        "is_decided": found.decided_by is not None,
        "decided_by": None if found.decided_by is None else found.decided_by.where,
    }


def _open_as_text(found: OpenTransaction) -> str:
    description = found.description
    held_back = ", ".join(map(str, description.topic_partitions)) or "none"
    fate = f"decided by {found.decided_by.where}" if found.decided_by else "not decided"
    return (
        f"{description.identity.transactional_id}  {description.state.value}, {fate}\n"
        f"  since {_time(description.started_at_ms)}, time-out {description.timeout_ms} ms\n"
        f"  readers wait at: {held_back}"
    )


def _decision_as_json(decision: Decision) -> dict[str, Any]:
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
    }


def _decision_as_text(decision: Decision) -> str:
    lines = [
        f"{decision.where}: {decision.status.value} at {_time(decision.at_ms)}, "
        f"{decision.record_count} records"
    ]
    lines += [f"  {each.outcome.value}: {each.committable}" for each in decision.transactions]
    return "\n".join(lines)


def _time(at_ms: int) -> str | None:
    if at_ms < 0:
        return None
    return datetime.fromtimestamp(at_ms / 1000, timezone.utc).isoformat(timespec="milliseconds")
