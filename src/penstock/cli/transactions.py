"""`penstock transactions`: list the exactly-once sink's transactions, and finish or abort them by hand.

Runs on any machine that reaches the brokers. Invariants: without --yes nothing is changed, and `recover` and
`abort` only show what they would do; warnings and progress go to stderr, so that stdout stays valid JSON.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.connecting import read_properties
from penstock.cli.transactions_shown import (
    decision_as_json,
    decision_as_text,
    open_as_json,
    open_as_text,
    show_done,
    show_list,
)
from penstock.errors import OptionError

if TYPE_CHECKING:
    from penstock.client.settings import ConnectionSettings
    from penstock.sink.exactly_once.by_hand import TransactionTools

transactions_app = typer.Typer(
    help="Transactions of the exactly-once sink: list, describe, recover, abort, prefixes.",
    no_args_is_help=True,
    rich_markup_mode=None,  # it would show <bool> behind flags
)

_PATIENCE_SECONDS = 2.0

_Prefix = Annotated[str, typer.Option("--prefix", help="The query's sink.transactional-id-prefix.")]
_Servers = Annotated[
    str,
    typer.Option("--bootstrap-server", "--bootstrap-servers", "-b", help="The brokers, host:port,host:port."),
]
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
    """Show the open transactions of the prefix: their age, and the topic partitions where readers wait."""
    with _patience(bootstrap_server):
        tools = _tools(prefix, bootstrap_server, command_config, log_topic)
        _warn_of_log(tools)
        found = tools.open_transactions()
    nothing = f"No transaction of prefix {prefix} is open."
    show_list(found, nothing, open_as_json if as_json else None, open_as_text)


@transactions_app.command()
def describe(
    prefix: _Prefix,
    bootstrap_server: _Servers,
    command_config: _Config = None,
    log_topic: _Topic = None,
    as_json: _Json = False,
) -> None:
    """Show the newest decision about each query: its batch, and the outcome of its transactions."""
    with _patience(bootstrap_server):
        tools = _tools(prefix, bootstrap_server, command_config, log_topic)
        _warn_of_log(tools)
        found, has_log = tools.decisions(), tools.has_log()
    nothing = f"Nothing was decided under prefix {prefix}. {_about_log(tools.log_topic, has_log)}"
    show_list(found, nothing, decision_as_json if as_json else None, decision_as_text)


@transactions_app.command()
def recover(
    prefix: _Prefix,
    bootstrap_server: _Servers,
    command_config: _Config = None,
    log_topic: _Topic = None,
    yes: _Yes = False,
    as_json: _Json = False,
) -> None:
    """Commit decided transactions and abort the others, as the next start of the query would."""
    _settle(
        prefix,
        bootstrap_server,
        lambda: _tools(prefix, bootstrap_server, command_config, log_topic),
        lambda tools: tools.recover(),
        yes=yes,
        as_json=as_json,
    )


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
            help="With --query: write-again (the batch is written again as a whole, so that its committed "
            "records are doubled) or take-as-written (the batch is not written again, so that its lost "
            "records stay lost)."
        ),
    ] = None,
    yes: _Yes = False,
    as_json: _Json = False,
) -> None:
    """Do the same as recover, also under the prefix of another program; or end a decision (--query)."""
    if query is None:
        _settle(
            prefix,
            bootstrap_server,
            lambda: _tools(prefix, bootstrap_server, command_config, log_topic),
            lambda tools: tools.abort(),
            yes=yes,
            as_json=as_json,
        )
        return
    with _patience(bootstrap_server):
        tools = _tools(prefix, bootstrap_server, command_config, log_topic)
        _resolve(tools, prefix, query, resolution, yes=yes, as_json=as_json)


@transactions_app.command()
def prefixes(bootstrap_server: _Servers, command_config: _Config = None, as_json: _Json = False) -> None:
    """List the prefixes that have a decision log of the default name on the cluster."""
    from penstock.client.net.connection import connections_for  # noqa: PLC0415 - lazy
    from penstock.sink.exactly_once.by_hand import known_prefixes  # noqa: PLC0415 - lazy

    with _patience(bootstrap_server):
        found = known_prefixes(connections_for(_connection(bootstrap_server, command_config)))
    nothing = "No topic has the name of a decision log, <prefix>-decisions."
    show_list(found, nothing, str if as_json else None, str)


def _settle(
    prefix: str,
    bootstrap_server: str,
    make_tools: Callable[[], TransactionTools],
    action: Callable[[TransactionTools], None],
    *,
    yes: bool,
    as_json: bool,
) -> None:
    """Show the open transactions, and with --yes finish them."""
    with _patience(bootstrap_server):
        tools = make_tools()
        if not yes:
            _warn_of_log(tools)
        planned = tools.open_transactions()
        plan = {
            "prefix": prefix,
            "commit": [each.description.identity.transactional_id for each in planned if each.decided_by],
            "abort": [each.description.identity.transactional_id for each in planned if not each.decided_by],
        }
        if yes:
            action(tools)
        show_done(plan, is_done=yes, as_json=as_json)
        if yes and not as_json:
            for decision in tools.decisions():
                typer.echo(decision_as_text(decision))


def _resolve(
    tools: TransactionTools, prefix: str, query: str, resolution: str | None, *, yes: bool, as_json: bool
) -> None:
    from penstock.sink.exactly_once.by_hand import Resolution, check_resolvable  # noqa: PLC0415 - lazy

    allowed = [each.value for each in Resolution]
    if resolution not in allowed:
        raise OptionError(
            f"--query needs --resolution with one of {', '.join(allowed)}. Nothing was changed.",
            option="--resolution",
            value=resolution,
        )
    if yes:
        decisions = [tools.resolve(query, Resolution(resolution))]
    else:
        _warn_of_log(tools)
        decisions = [each for each in tools.decisions() if each.query_id == query]
        for each in decisions:
            check_resolvable(each)
    if as_json:
        shown = [decision_as_json(each) for each in decisions]
        typer.echo(json.dumps({"prefix": prefix, "done": yes, "resolution": resolution, "decisions": shown}))
        return
    for each in decisions:
        typer.echo(("" if yes else f"Would be resolved as {resolution}: ") + decision_as_text(each))
    if not decisions:
        typer.echo(f"Nothing was decided about query {query}.")
    elif not yes:
        typer.echo("Nothing was changed; --yes does it.")


def _tools(
    prefix: str, bootstrap_server: str, command_config: Path | None, log_topic: str | None
) -> TransactionTools:
    from penstock.sink.exactly_once.by_hand import transaction_tools  # noqa: PLC0415 - lazy
    from penstock.sink.exactly_once.driver_side import ExactlyOnceSettings  # noqa: PLC0415 - lazy

    connection = _connection(bootstrap_server, command_config)
    return transaction_tools(ExactlyOnceSettings(connection, prefix, log_topic))


def _connection(bootstrap_server: str, command_config: Path | None) -> ConnectionSettings:
    from penstock.client.settings import connection_settings  # noqa: PLC0415 - lazy
    from penstock.options.config import KafkaProperties  # noqa: PLC0415 - lazy

    given = {} if command_config is None else read_properties(command_config)
    given["bootstrap.servers"] = bootstrap_server
    return connection_settings(KafkaProperties(tuple(sorted(given.items()))), client_id="penstock-cli")


@contextmanager
def _patience(bootstrap_server: str) -> Iterator[None]:
    """Print to stderr which brokers are being tried, if that takes long."""

    def say() -> None:
        typer.echo(f"trying {bootstrap_server} ...", err=True)

    timer = threading.Timer(_PATIENCE_SECONDS, say)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def _warn_of_log(tools: TransactionTools) -> None:
    problem = tools.log_problem()
    if problem is not None:
        typer.echo(
            f"Warning: {problem} (Name it here with --log-topic.) Transactions that are shown as not decided "
            "may be decided.",
            err=True,
        )


def _about_log(topic: str, exists: bool) -> str:
    if exists:
        return f"Its decision log exists (topic {topic})."
    return (
        f"Its decision log (topic {topic}) does not exist: the prefix was never used or is misspelt, or its "
        "query has a sink.commit-log.topic (--log-topic). `penstock transactions prefixes` lists the known "
        "prefixes."
    )
