"""`penstock verify`: prove from the receipts that each record was written once, or name what differs.

Runs on any machine that reaches the brokers. Invariants: nothing is changed; with --json, stdout is JSON; the
exit code says what was found, and no error is taken for a proof or a difference.
"""

from __future__ import annotations

import json
from collections import Counter
from contextlib import contextmanager, nullcontext
from traceback import format_exception
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
from penstock.cli.receipts import From, Json, LogTopic, To, at, between
from penstock.errors import OptionError, PenstockError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from penstock.cli._verified import Wanted
    from penstock.client.net.connection import KafkaConnections
    from penstock.observe.verify.found import BatchResult, Finding, Report

PROVEN, DIFFERS, USAGE, NOT_ALL_PROVABLE, FAILED = range(5)
"""The exit codes."""
_COLUMNS = ("key", "value", "headers")

Prefix = Annotated[
    str | None,
    typer.Option(
        "--prefix",
        help="The query's sink.transactional-id-prefix. Without it: --checkpoint, and all prefixes that have "
        "written its query.",
    ),
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
OtherWriters = Annotated[
    bool,
    typer.Option(
        "--other-writers",
        help="Other programs write the target topics too. Then records that no receipt names are counted "
        "only. Without it, they are not provable: they may double records of a batch.",
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
    other_writers: OtherWriters = False,
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
    with errors_as_exit_codes("verify", "Nothing is proven."):
        wanted = _wanted(prefix, checkpoint, log_topic, between(begin, end), copy, only_writer, other_writers)
        cluster = find_cluster(bootstrap_server, name, command_config)
        typer.echo(f"Cluster: {cluster}", err=True)
        with connected(cluster) as target:
            source: AbstractContextManager[KafkaConnections] = nullcontext(target)
            if source_bootstrap_server is not None:
                source = connected(find_cluster(source_bootstrap_server, None, command_config))
            with source as source_connections:
                report = _report(target, source_connections, wanted)
        for line in [json.dumps(report.to_json())] if as_json else _lines(report):
            typer.echo(line)
    raise typer.Exit(_exit_code(report))


@contextmanager
def errors_as_exit_codes(command: str, consequence: str) -> Iterator[None]:
    """End the process with 2 after wrong options and with 4 after any other error: 1 means "differs"."""
    try:
        yield
    except PenstockError as error:
        typer.secho(f"penstock: {error}", fg="red", err=True)
        if (asked := error.facts.get(ASKED_CLUSTER)) is not None:
            typer.secho(f"The cluster that was asked: {asked}", fg="red", err=True)
        raise typer.Exit(USAGE if isinstance(error, OptionError) else FAILED) from error
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except (Exception, KeyboardInterrupt) as error:  # Python's own exit code, 1, would mean "differs"
        typer.secho("".join(format_exception(error)), err=True)
        typer.secho(f"penstock: {command} failed ({type(error).__name__}). {consequence}", fg="red", err=True)
        raise typer.Exit(FAILED) from error


def _wanted(
    prefix: str | None,
    checkpoint: str | None,
    log_topic: str | None,
    times: range,
    copy: str | None,
    only_writer: bool,
    other_writers: bool,
) -> Wanted:
    from penstock.cli._verified import Wanted  # noqa: PLC0415 - lazy

    if prefix is None and checkpoint is None:
        raise OptionError("Expected --prefix or --checkpoint, got none of them. Nothing was read.")
    if only_writer and other_writers:
        raise OptionError("Expected --only-writer or --other-writers, got both. Nothing was read.")
    copied = None if copy is None else columns_of(copy)
    return Wanted(prefix, checkpoint, log_topic, times, copied, only_writer, other_writers)


def columns_of(text: str, option: str = "--copy") -> tuple[str, ...]:
    """Return the columns that the user names; OptionError for others."""
    found = tuple(each.strip() for each in text.split(","))
    if not set(found) <= set(_COLUMNS) or len(set(found)) < len(found):
        raise OptionError(
            f"Expected some of key, value and headers for {option}, got {text!r}. Nothing was read.",
            option=option,
            value=text,
        )
    return found


def _report(target: KafkaConnections, source: KafkaConnections, wanted: Wanted) -> Report:
    from penstock.cli._verified import report_of  # noqa: PLC0415 - lazy

    return report_of(target, source, wanted)


def _exit_code(report: Report) -> int:
    from penstock.observe.verify.found import Verdict  # noqa: PLC0415 - lazy

    codes = {Verdict.PROVEN: PROVEN, Verdict.DIFFERS: DIFFERS, Verdict.NOT_PROVABLE: NOT_ALL_PROVABLE}
    return codes[report.verdict]


def _lines(report: Report) -> list[str]:
    if not report.batches:
        return [
            "Nothing is proven: no receipt was found for this time. The decision log keeps those of about "
            "the last 10,000 batches, and batches of older versions have none. Without --prefix, decision "
            "logs on which this user does not have the right READ are left out.",
            *(f"  {_place(each)}{each.text}" for each in report.findings),
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
