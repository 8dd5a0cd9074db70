"""`penstock dead-letters`: show dead letters, and put them back into their topics, each once.

Runs on any machine that reaches the brokers. Invariants: without --yes nothing is changed; what `requeue` has
put back it never puts back again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.connecting import ClusterName, CommandConfig, OptionalServers, connected, find_cluster
from penstock.cli.receipts import between
from penstock.errors import OptionError

if TYPE_CHECKING:
    from penstock.client.net.connection import KafkaConnections
    from penstock.sink.dead_letters.found import DeadLetter
    from penstock.sink.dead_letters.requeue import Edit

dead_letters_app = typer.Typer(
    help="Dead letters: show, requeue.",
    no_args_is_help=True,
    rich_markup_mode=None,  # it would show <bool> behind flags
)

_TIME_OPTIONS = ("--since", "--until")
Topic = Annotated[str, typer.Argument(help="The topic of the dead letters: scan.dead-letter.topic.")]
Reason = Annotated[str | None, typer.Option("--reason", help="Only those whose reason has this text in it.")]
OfTopic = Annotated[
    str | None, typer.Option("--of-topic", help="Only records that were read from this topic.")
]
Since = Annotated[
    str | None,
    typer.Option("--since", help="Only records with this time or a later one, such as 2026-11-26T00:00:00Z."),
]
Until = Annotated[str | None, typer.Option("--until", help="Only records with an earlier time.")]


@dead_letters_app.command()
def show(
    topic: Topic,
    reason: Reason = None,
    of_topic: OfTopic = None,
    since: Since = None,
    until: Until = None,
    bootstrap_server: OptionalServers = None,
    name: ClusterName = None,
    command_config: CommandConfig = None,
) -> None:
    """Show dead letters, and which are back already."""
    from penstock.sink.dead_letters.requeue import Requeue  # noqa: PLC0415 - lazy

    times = between(since, until, _TIME_OPTIONS)
    cluster = find_cluster(bootstrap_server, name, command_config)
    typer.echo(f"Cluster: {cluster}", err=True)
    with connected(cluster) as connections:
        known = Requeue(connections, topic).known()
        count = 0
        for each in _chosen(connections, topic, reason, of_topic, times):
            count += 1
            typer.echo(f"{_line(each)}{_where(each, known.get(each.origin))}")
    typer.echo(f"Dead letters: {count:,}.", err=True)


@dead_letters_app.command()
def requeue(  # noqa: PLR0913, PLR0917 - each is an option of the command
    topic: Topic,
    reason: Reason = None,
    of_topic: OfTopic = None,
    since: Since = None,
    until: Until = None,
    into: Annotated[
        str | None,
        typer.Option("--into", help="The topic to put them into; by default that of each record."),
    ] = None,
    edit: Annotated[
        Path | None,
        typer.Option(
            "--edit",
            help="A Python file with a function `edit(value)`. It gets the bytes of a value and returns the "
            "new ones.",
        ),
    ] = None,
    new_time: Annotated[
        bool, typer.Option("--new-time", help="The records get the present time, and not their own.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do it. Without, only show what would be done.")] = False,
    bootstrap_server: OptionalServers = None,
    name: ClusterName = None,
    command_config: CommandConfig = None,
) -> None:
    """Put dead letters back, each once: key, headers and timestamp stay, the headers of penstock go."""
    from penstock.sink.dead_letters.requeue import Requeue  # noqa: PLC0415 - lazy

    times = between(since, until, _TIME_OPTIONS)
    change = None if edit is None else _edit_of(edit)
    cluster = find_cluster(bootstrap_server, name, command_config)
    typer.echo(f"Cluster: {cluster}", err=True)
    count = 0
    with connected(cluster) as connections:
        back = Requeue(connections, topic, into, change, is_new_time=new_time)
        letters = _chosen(connections, topic, reason, of_topic, times)
        if yes:
            for each in back.run(letters):
                count += 1
                typer.echo(f"back in {into or each.origin.topic}: {_line(each)}")
            typer.echo(f"Dead letters that are back now: {count:,}.", err=True)
            _tell_left_out(back.left_out)
            return
        known, left_out, seen = back.known(), Counter[tuple[str, str]](), set[object]()
        for each in letters:
            if each.origin in known:
                left_out[known[each.origin], back.wanted(each)] += 1
            elif each.origin not in seen:
                seen.add(each.origin)
                count += 1
                typer.echo(f"would go to {back.place(each)}: {_line(each)}")
                if change is not None:
                    typer.echo(f"  value {_text(each.value)}\n  new   {_text(back.edited(each))}")
    typer.echo(f"Dead letters that would be put back: {count:,}. Nothing was changed. Add --yes.", err=True)
    _tell_left_out(left_out)


def _where(letter: DeadLetter, topic: str | None) -> str:
    """Return where the record of a dead letter is now; nothing if it was not put back."""
    if topic is None:
        return ""
    origin = letter.origin.topic
    return " (is back)" if topic == origin else f" (is in {topic}, and not back in {origin})"


def _tell_left_out(left_out: Mapping[tuple[str, str], int]) -> None:
    """Say how many dead letters are somewhere already. `left_out`: by that topic and the one wanted now."""
    for (topic, wanted), count in sorted(left_out.items()):
        text = f"Left out: {count:,} dead letters, whose records were put into {topic} before."
        if topic != wanted:
            text += (
                f" requeue puts each record back once, so it does not put these into {wanted} too. Copy them "
                "there by hand, if they belong there (docs/bad-records.md)."
            )
        typer.echo(text, err=True)


def _warn_if_compacted(connections: KafkaConnections, topic: str) -> None:
    from penstock.client.transactions.limits import topic_config  # noqa: PLC0415 - lazy

    policy = (topic_config(connections, topic, ("cleanup.policy",)) or {}).get("cleanup.policy") or ""
    if "compact" in policy:
        typer.echo(
            f"Warning: topic {topic} has cleanup.policy={policy}, so Kafka keeps only the newest dead letter "
            "of each key. Older ones may be gone already. Set cleanup.policy=delete.",
            err=True,
        )


def _chosen(
    connections: KafkaConnections, topic: str, reason: str | None, of_topic: str | None, times: range
) -> Iterator[DeadLetter]:
    """Yield the dead letters that the topic holds now and the user wants, one partition after another."""
    from penstock.sink.dead_letters.found import places_of, read_dead_letters  # noqa: PLC0415 - lazy

    places = places_of(connections, topic)
    _warn_if_compacted(connections, topic)
    for place in places:
        if place.open_count:
            typer.echo(
                f"Warning: {place.open_count:,} offsets of {place.offsets.topic_partition} from "
                f"{place.offsets.stopping_offset} on are behind an open transaction, and were not looked at. "
                "Run the command again when it has ended.",
                err=True,
            )
    for each in read_dead_letters(connections, places):
        is_wanted = reason is None or reason in each.reason
        if is_wanted and of_topic in (None, each.origin.topic) and each.origin.timestamp_ms in times:
            yield each


def _edit_of(path: Path) -> Edit:
    """Return the function `edit` of a file.

    Raises:
        OptionError: the file has none, or cannot be run.
    """
    names: dict[str, object] = {"__file__": str(path)}
    try:
        exec(compile(path.read_bytes(), str(path), "exec"), names)  # noqa: S102 - the user's own file
    except Exception as error:
        raise OptionError(
            f"The file {path} of --edit cannot be run: {type(error).__name__}: {error}. Nothing was changed.",
            option="--edit",
        ) from error
    found = names.get("edit")
    if not callable(found):
        raise OptionError(
            f"Expected a function edit(value) in {path}, found none. Nothing was changed.", option="--edit"
        )
    edit: Edit = found
    return edit


def _line(letter: DeadLetter) -> str:
    origin = letter.origin
    return (
        f"{letter.place} offset {letter.offset}: record {origin.topic}-{origin.partition} offset "
        f"{origin.offset}, key {_text(letter.key)}: {letter.reason}"
    )


def _text(value: bytes | None) -> str:
    from penstock.cli.record_lines import as_text  # noqa: PLC0415 - lazy

    return as_text(value)
