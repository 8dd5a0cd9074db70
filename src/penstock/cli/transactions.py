"""`penstock transactions`: list open transactions, and finish or abort them by hand.

Runs on any machine that reaches the brokers. Invariants: without --yes nothing is changed, and `recover` and
`abort` only show what they would do; the cluster, warnings and progress go to stderr, so that stdout stays
valid JSON. No command says that nothing is open while a transaction is, whose name begins with the prefix.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.connecting import (
    Cluster,
    ClusterName,
    CommandConfig,
    OptionalServers,
    by_hand_of,
    connected,
    connection_of,
    find_cluster,
    naming,
)
from penstock.cli.transactions_shown import (
    any_as_json,
    any_as_text,
    decision_as_json,
    decision_as_text,
    open_as_json,
    open_as_text,
    others_as_text,
    show_done,
    show_foreign_abort,
    show_list,
)
from penstock.errors import MissingOptionError, OptionError

if TYPE_CHECKING:
    from penstock.client.transactions.hanging import Hanging
    from penstock.sink.exactly_once.by_hand import OpenTransaction, TransactionTools
    from penstock.sink.exactly_once.foreign import AnyTransaction

transactions_app = typer.Typer(
    help="Open transactions of a cluster, and those of the exactly-once sink: list, describe, recover, "
    "abort, prefixes.",
    no_args_is_help=True,
    rich_markup_mode=None,  # it would show <bool> behind flags
)

LEFT_OPEN_STATUS = 1
_PATIENCE_SECONDS = 2.0

_Prefix = Annotated[str, typer.Option("--prefix", help="The query's sink.transactional-id-prefix.")]
_Topic = Annotated[
    str | None, typer.Option("--log-topic", help="The query's sink.commit-log.topic, if it has one.")
]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_Yes = Annotated[bool, typer.Option("--yes", help="Do it. A query that still runs is stopped by an error.")]


@transactions_app.command("list")
def list_transactions(
    prefix: Annotated[
        str | None,
        typer.Option("--prefix", help="A query's sink.transactional-id-prefix; all by default."),
    ] = None,
    bootstrap_server: OptionalServers = None,
    name: ClusterName = None,
    command_config: CommandConfig = None,
    log_topic: _Topic = None,
    as_json: _Json = False,
) -> None:
    """Show open transactions of a query's prefix, or of all programs: their age, and where readers wait."""
    with _asking(bootstrap_server, name, command_config) as cluster:
        if prefix is None:
            _list_all(cluster, as_json=as_json)
            return
        tools = _tools(prefix, cluster, log_topic)
        _warn_of_log(tools)
        found = tools.open_transactions()
        hanging = _hanging(cluster, found)
        others = _others(cluster, prefix, found)
    nothing = f"No transaction named {prefix}-<number>-<number> is open at {cluster}."

    def hangs(each: OpenTransaction) -> Hanging | None:
        return hanging.get(each.description.identity.transactional_id)

    to_json = (lambda each: open_as_json(each, hangs(each))) if as_json else None
    show_list(found, nothing, to_json, lambda each: open_as_text(each, hangs(each)))
    _say_others(cluster, prefix, others, is_on_stderr=as_json)


def _list_all(cluster: Cluster, *, as_json: bool) -> None:
    from penstock.sink.exactly_once.foreign import open_on_cluster  # noqa: PLC0415 - lazy

    with connected(cluster) as connections:
        found = open_on_cluster(connections)
    by_hand = by_hand_of(cluster)
    nothing = (
        f"No open transaction is shown at {cluster}. Kafka leaves out those that this user may not describe."
    )
    show_list(found, nothing, any_as_json if as_json else None, lambda each: any_as_text(each, by_hand))


def _hanging(cluster: Cluster, found: Sequence[OpenTransaction]) -> dict[str, Hanging]:
    """Return those whose end is decided and does not come, by their transactional ids."""
    from penstock.client.transactions.hanging import find_hanging  # noqa: PLC0415 - lazy

    with connected(cluster) as connections:
        return find_hanging(connections, [each.description for each in found])


def _others(cluster: Cluster, prefix: str, own: Sequence[OpenTransaction]) -> list[AnyTransaction]:
    """Return the other open transactions whose names begin with the prefix."""
    from penstock.sink.exactly_once.foreign import open_on_cluster  # noqa: PLC0415 - lazy

    names = {each.description.identity.transactional_id for each in own}
    with connected(cluster) as connections:
        found = open_on_cluster(connections, lambda each: each.startswith(prefix))
    return [each for each in found if each.transactional_id not in names and each.prefix != prefix]


def _say_others(
    cluster: Cluster, prefix: str, others: Sequence[AnyTransaction], *, is_on_stderr: bool
) -> None:
    if others:
        typer.echo(others_as_text(prefix, others, by_hand_of(cluster)), err=is_on_stderr)


@transactions_app.command()
def describe(
    prefix: _Prefix,
    bootstrap_server: OptionalServers = None,
    name: ClusterName = None,
    command_config: CommandConfig = None,
    log_topic: _Topic = None,
    as_json: _Json = False,
) -> None:
    """Show the newest decision about each query: its batch, and the outcome of its transactions."""
    with _asking(bootstrap_server, name, command_config) as cluster:
        tools = _tools(prefix, cluster, log_topic)
        _warn_of_log(tools)
        found, has_log = tools.decisions(), tools.has_log()
    nothing = f"Nothing was decided under prefix {prefix}. {_about_log(tools.log_topic, has_log)}"
    show_list(found, nothing, decision_as_json if as_json else None, decision_as_text)


@transactions_app.command()
def recover(
    prefix: _Prefix,
    bootstrap_server: OptionalServers = None,
    name: ClusterName = None,
    command_config: CommandConfig = None,
    log_topic: _Topic = None,
    yes: _Yes = False,
    as_json: _Json = False,
) -> None:
    """Commit decided transactions and abort the others, as the next start of the query would."""
    with _asking(bootstrap_server, name, command_config) as cluster:
        tools = _tools(prefix, cluster, log_topic)
        _settle(cluster, prefix, tools, tools.recover, yes=yes, as_json=as_json)


@transactions_app.command()
def abort(  # noqa: PLR0913, PLR0917 - each is an option of the command
    prefix: Annotated[
        str | None, typer.Option("--prefix", help="The query's sink.transactional-id-prefix.")
    ] = None,
    transactional_id: Annotated[
        str | None,
        typer.Option(
            "--transactional-id",
            help="Instead of --prefix: the whole name of a transaction of another program. That program is "
            "fenced: if it still runs, it stops with an error.",
        ),
    ] = None,
    bootstrap_server: OptionalServers = None,
    name: ClusterName = None,
    command_config: CommandConfig = None,
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
    """Do the same as recover, also under the prefix of another program; or end a decision (--query).

    With --transactional-id: abort one transaction of another program.
    """
    if (prefix is None) == (transactional_id is None):
        raise MissingOptionError(
            "Name what to abort: --prefix PREFIX (a query's, or a Flink job's) or --transactional-id ID (a "
            "transaction of another program). Nothing was changed.",
            option="--prefix",
        )
    if transactional_id is not None and (query, resolution, log_topic) != (None, None, None):
        raise OptionError(
            "--query, --resolution and --log-topic are for --prefix. A transaction of another program has no "
            "decision. Nothing was changed.",
            option="--transactional-id",
        )
    with _asking(bootstrap_server, name, command_config) as cluster:
        if transactional_id is not None:
            _abort_foreign(cluster, transactional_id, yes=yes, as_json=as_json)
        elif prefix is not None:
            tools = _tools(prefix, cluster, log_topic)
            if query is not None:
                _resolve(tools, prefix, query, resolution, yes=yes, as_json=as_json)
            elif not _settle(cluster, prefix, tools, tools.abort, yes=yes, as_json=as_json):
                raise typer.Exit(LEFT_OPEN_STATUS)


def _abort_foreign(cluster: Cluster, transactional_id: str, *, yes: bool, as_json: bool) -> None:
    from penstock.sink.exactly_once.foreign import abort_foreign, check_foreign, find_ongoing  # noqa: PLC0415

    check_foreign(transactional_id)
    with connected(cluster) as connections:
        ongoing = find_ongoing(connections, transactional_id)
        if yes and ongoing is not None:
            abort_foreign(connections, ongoing)
    show_foreign_abort(transactional_id, ongoing, is_done=yes, as_json=as_json)


@transactions_app.command()
def prefixes(
    bootstrap_server: OptionalServers = None,
    name: ClusterName = None,
    command_config: CommandConfig = None,
    as_json: _Json = False,
) -> None:
    """List the prefixes that have a decision log of the default name on the cluster."""
    from penstock.sink.exactly_once.by_hand import known_prefixes  # noqa: PLC0415 - lazy

    with _asking(bootstrap_server, name, command_config) as cluster, connected(cluster) as connections:
        found = known_prefixes(connections)
    nothing = f"No topic at {cluster} has the name of a decision log, <prefix>-decisions."
    show_list(found, nothing, str if as_json else None, str)


def _settle(
    cluster: Cluster,
    prefix: str,
    tools: TransactionTools,
    action: Callable[[], None],
    *,
    yes: bool,
    as_json: bool,
) -> bool:
    """Show the open transactions, and with --yes finish them.

    Return False if none is of the prefix, and others are open whose names begin with it.
    """
    if not yes:
        _warn_of_log(tools)
    planned = tools.open_transactions()
    others = _others(cluster, prefix, planned)
    plan = {
        "prefix": prefix,
        "commit": [each.description.identity.transactional_id for each in planned if each.decided_by],
        "abort": [each.description.identity.transactional_id for each in planned if not each.decided_by],
    }
    if yes:
        action()
    show_done(plan, str(cluster), is_done=yes, as_json=as_json)
    _say_others(cluster, prefix, others, is_on_stderr=as_json)
    if yes and not as_json:
        for decision in tools.decisions():
            typer.echo(decision_as_text(decision))
    return bool(planned) or not others


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


def _tools(prefix: str, cluster: Cluster, log_topic: str | None) -> TransactionTools:
    from penstock.sink.exactly_once.by_hand import transaction_tools  # noqa: PLC0415 - lazy
    from penstock.sink.exactly_once.driver_side import ExactlyOnceSettings  # noqa: PLC0415 - lazy

    return transaction_tools(ExactlyOnceSettings(connection_of(cluster), prefix, log_topic))


@contextmanager
def _asking(
    bootstrap_server: str | None, name: str | None, command_config: CommandConfig
) -> Iterator[Cluster]:
    """Find the cluster, and say which it is: on stderr, also in an error."""
    cluster = find_cluster(bootstrap_server, name, command_config)
    typer.echo(f"Cluster: {cluster}", err=True)
    with naming(cluster), _patience(cluster.servers):
        yield cluster


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
