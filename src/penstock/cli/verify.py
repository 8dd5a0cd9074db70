"""`penstock verify`: prove from the receipts that each record was written once, or name what differs.

Runs on any machine that reaches the brokers. Invariants: nothing is changed; with --json, stdout is JSON; the
exit code says what was found, and an error is never taken for a proof.
"""

from __future__ import annotations

import json
from collections import Counter
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.connecting import (
    ASKED_CLUSTER,
    ClusterName,
    CommandConfig,
    OptionalServers,
    connected,
    find_cluster,
)
from penstock.cli.receipts import From, Json, LogTopic, To, at, between, unfinished_of
from penstock.errors import OptionError, PenstockError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from penstock.client.net.connection import KafkaConnections
    from penstock.observe.verify.found import BatchResult, Finding, Report
    from penstock.sink.exactly_once.receipt import Receipt

PROVEN, DIFFERS, USAGE, NOT_ALL_PROVABLE, FAILED = range(5)
"""The exit codes."""
_COLUMNS = ("key", "value", "headers")

Prefix = Annotated[
    str | None,
    typer.Option("--prefix", help="The query's sink.transactional-id-prefix. Without it: --checkpoint."),
]
Checkpoint = Annotated[
    str | None, typer.Option("--checkpoint", help="The query's checkpointLocation: only its batches.")
]
Copy = Annotated[
    str | None,
    typer.Option(
        "--copy",
        help="The query copies these columns of each record and changes nothing: key,value,headers or some "
        "of them. Then a row that is not in the target is a difference.",
    ),
]
OnlyWriter = Annotated[
    bool,
    typer.Option(
        "--only-writer",
        help="No other program writes the target topics. Then a record between those of the batches that no "
        "receipt names is a difference.",
    ),
]
SourceServers = Annotated[
    str | None,
    typer.Option("--source-bootstrap-server", help="The brokers of the source, if they are others."),
]


def verify(  # noqa: PLR0913, PLR0917 - each is an option of the command
    prefix: Prefix = None,
    checkpoint: Checkpoint = None,
    begin: From = None,
    end: To = None,
    copy: Copy = None,
    only_writer: OnlyWriter = False,
    source_bootstrap_server: SourceServers = None,
    bootstrap_server: OptionalServers = None,
    name: ClusterName = None,
    command_config: CommandConfig = None,
    log_topic: LogTopic = None,
    as_json: Json = False,
) -> None:
    """Read the topics again, and prove that each record of each batch was written once.

    Exit codes: 0 all is proven, 1 something differs, 2 wrong options, 3 not all can be proven, 4 the command
    failed.
    """
    try:
        if prefix is None and checkpoint is None:
            raise OptionError("Expected --prefix or --checkpoint, got none of them. Nothing was read.")
        copied = None if copy is None else _columns(copy)
        chosen = between(begin, end)
        cluster = find_cluster(bootstrap_server, name, command_config)
        typer.echo(f"Cluster: {cluster}", err=True)
        with connected(cluster) as target:
            source: AbstractContextManager[KafkaConnections] = nullcontext(target)
            if source_bootstrap_server is not None:
                source = connected(find_cluster(source_bootstrap_server, None, command_config))
            with source as source_connections:
                report = _report(
                    target,
                    source_connections,
                    _Wanted(prefix, checkpoint, log_topic, chosen),
                    copied,
                    is_only_writer=only_writer,
                )
    except PenstockError as error:
        typer.secho(f"penstock: {error}", fg="red", err=True)
        if (asked := error.facts.get(ASKED_CLUSTER)) is not None:
            typer.secho(f"The cluster that was asked: {asked}", fg="red", err=True)
        raise typer.Exit(USAGE if isinstance(error, OptionError) else FAILED) from error
    if as_json:
        typer.echo(json.dumps(report.to_json()))
    else:
        for line in _lines(report):
            typer.echo(line)
    raise typer.Exit(_exit_code(report))


class _Wanted:
    """The batches that the user asks for."""

    def __init__(
        self, prefix: str | None, checkpoint: str | None, log_topic: str | None, times: range
    ) -> None:
        self.prefix, self.checkpoint, self.log_topic, self.times = prefix, checkpoint, log_topic, times


def _columns(text: str) -> tuple[str, ...]:
    found = tuple(each.strip() for each in text.split(","))
    if not set(found) <= set(_COLUMNS) or len(set(found)) < len(found):
        raise OptionError(
            f"Expected some of key, value and headers for --copy, got {text!r}. Nothing was read.",
            option="--copy",
            value=text,
        )
    return found


def _report(
    target: KafkaConnections,
    source: KafkaConnections,
    wanted: _Wanted,
    copied: tuple[str, ...] | None,
    *,
    is_only_writer: bool,
) -> Report:
    from penstock.observe.checkpoint import read_checkpoint  # noqa: PLC0415 - lazy
    from penstock.observe.verify.check import verify as check  # noqa: PLC0415 - lazy
    from penstock.observe.verify.check import with_checkpoint  # noqa: PLC0415 - lazy
    from penstock.observe.verify.found import Report  # noqa: PLC0415 - lazy

    query_id = None if wanted.checkpoint is None else read_checkpoint(wanted.checkpoint).query_id
    for prefix in _prefixes(target, wanted.prefix):
        receipts, statuses = _receipts(target, prefix, wanted.log_topic)
        if wanted.checkpoint is not None:
            if query_id not in {each.query_id for each in receipts}:
                continue
            receipts = with_checkpoint(receipts, wanted.checkpoint)
        chosen = [
            each
            for each in receipts
            if each.at_ms in wanted.times and (wanted.checkpoint is None or each.query_id == query_id)
        ]
        return check(target, source, receipts, chosen, statuses, copied=copied, is_only_writer=is_only_writer)
    return Report([])


def _prefixes(connections: KafkaConnections, prefix: str | None) -> list[str]:
    from penstock.sink.exactly_once.by_hand import known_prefixes  # noqa: PLC0415 - lazy

    return known_prefixes(connections) if prefix is None else [prefix]


def _receipts(
    connections: KafkaConnections, prefix: str, log_topic: str | None
) -> tuple[list[Receipt], dict[tuple[str, int], str]]:
    from penstock.sink.exactly_once.by_hand import transaction_tools  # noqa: PLC0415 - lazy
    from penstock.sink.exactly_once.driver_side import ExactlyOnceSettings  # noqa: PLC0415 - lazy

    tools = transaction_tools(ExactlyOnceSettings(connections.settings, prefix, log_topic), connections)
    return tools.receipts(), dict(unfinished_of(tools.decisions()))


def _exit_code(report: Report) -> int:
    from penstock.observe.verify.found import Verdict  # noqa: PLC0415 - lazy

    codes = {Verdict.PROVEN: PROVEN, Verdict.DIFFERS: DIFFERS, Verdict.NOT_PROVABLE: NOT_ALL_PROVABLE}
    return codes[report.verdict]


def _lines(report: Report) -> list[str]:
    if not report.batches:
        return [
            "Nothing is proven: no receipt was found for this time. The decision log keeps those of about "
            "the last 10,000 batches, and batches of older versions have none."
        ]
    lines = [f"{'batch':<60} {'verdict':<13} {'inputs':<13} {'read':>12} {'wrote':>12} {'found':>12}"]
    for each in report.batches:
        lines += _of_batch(each)
    lines += [f"  {_place(each)}{each.text}" for each in report.findings]
    counts = Counter(each.verdict.value for each in report.batches)
    inputs = Counter(each.inputs.value for each in report.batches)
    return [
        *lines,
        f"Batches: {', '.join(f'{count} {name}' for name, count in sorted(counts.items()))}. "
        f"Inputs: {', '.join(f'{count} {name}' for name, count in sorted(inputs.items()))}. "
        f"Records of other writers between them: {report.other_writers:,}.",
        f"Result: {report.verdict.value}.",
    ]


def _of_batch(each: BatchResult) -> list[str]:
    read = "" if each.input_records is None else f"{each.input_records:,}"
    wrote, found = f"{each.receipt.content.record_count:,}", f"{each.found_records:,}"
    line = (
        f"{each.receipt.where:<60} {each.verdict.value:<13} {each.inputs.value:<13} {read:>12} {wrote:>12} "
        f"{found:>12}"
    )
    return [line, *(f"  {at(each.receipt.at_ms)} {_place(one)}{one.text}" for one in each.findings)]


def _place(finding: Finding) -> str:
    if finding.topic_partition is None:
        return f"{finding.kind}: "
    where = str(finding.topic_partition)
    if finding.first is not None and finding.end is not None:
        where += f"[{finding.first}, {finding.end})"
    return f"{finding.kind} at {where}: "
