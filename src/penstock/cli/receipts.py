"""`penstock receipts`: show what each batch of an exactly-once sink has read and written.

Runs on any machine that reaches the brokers. Invariants: nothing is changed; with --json, stdout is JSON; if
the decision log says that a batch is not finished, its receipt says so too.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.connecting import (
    ClusterName,
    CommandConfig,
    OptionalServers,
    connection_of,
    find_cluster,
    naming,
)
from penstock.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.cli.connecting import Cluster
    from penstock.sink.exactly_once.decision import Decision
    from penstock.sink.exactly_once.receipt import Receipt

Prefix = Annotated[str, typer.Option("--prefix", help="The query's sink.transactional-id-prefix.")]
LogTopic = Annotated[
    str | None, typer.Option("--log-topic", help="The query's sink.commit-log.topic, if it has one.")
]
From = Annotated[
    str | None,
    typer.Option("--from", help="Batches decided from this time on, such as 2026-11-26T00:00:00Z."),
]
To = Annotated[str | None, typer.Option("--to", help="Batches decided before this time.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_UNFINISHED = {
    "decided": "decided, but not all of its transactions are known to be committed",
    "lost": "lost in part: the broker aborted some of its transactions, which wait for a replay",
    "withdrawn": "withdrawn: it does not count as written, and a replay of it is written",
}


def receipts(
    prefix: Prefix,
    begin: From = None,
    end: To = None,
    bootstrap_server: OptionalServers = None,
    name: ClusterName = None,
    command_config: CommandConfig = None,
    log_topic: LogTopic = None,
    as_json: Json = False,
) -> None:
    """Show what each decided batch of a prefix has read and written."""
    chosen = between(begin, end)
    cluster = find_cluster(bootstrap_server, name, command_config)
    typer.echo(f"Cluster: {cluster}", err=True)
    with naming(cluster):
        all_found, unfinished = receipts_of(cluster, prefix, log_topic)
    found = [each for each in all_found if each.at_ms in chosen]
    if as_json:
        typer.echo(json.dumps([as_json_of(each, unfinished) for each in found]))
        return
    for each in found:
        typer.echo(_text(each, unfinished))
    if not found:
        typer.echo(
            f"No receipt of prefix {prefix} was found for this time. The decision log keeps those of about "
            "the last 10,000 batches, and batches of older versions have none."
        )


def receipts_of(
    cluster: Cluster, prefix: str, log_topic: str | None
) -> tuple[Sequence[Receipt], Mapping[tuple[str, int], str]]:
    """Return the receipts of a prefix, in order of time, and the status of each batch that is not finished.

    The log has the status of the newest batch of each query, by query id and number of the batch.
    """
    from penstock.sink.exactly_once.by_hand import transaction_tools  # noqa: PLC0415 - lazy
    from penstock.sink.exactly_once.driver_side import ExactlyOnceSettings  # noqa: PLC0415 - lazy

    tools = transaction_tools(ExactlyOnceSettings(connection_of(cluster), prefix, log_topic))
    return tools.receipts(), unfinished_of(tools.decisions())


def unfinished_of(decisions: Iterable[Decision]) -> dict[tuple[str, int], str]:
    """Return the status of each batch that is not finished, from the newest decision of each query."""
    found = (((each.query_id, each.batch_id), each.status.value) for each in decisions)
    return {batch: status for batch, status in found if status in _UNFINISHED}


def between(begin: str | None, end: str | None, options: tuple[str, str] = ("--from", "--to")) -> range:
    """Return the milliseconds since 1970 from one time to another. `options`: for messages.

    Raises:
        OptionError: a text is not a time in ISO 8601.
    """
    first = -(1 << 62) if begin is None else _ms(begin, options[0])
    return range(first, (1 << 62) if end is None else _ms(end, options[1]))


def _ms(text: str, option: str) -> int:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise OptionError(
            f"Expected a time such as 2026-11-26T00:00:00Z for {option}, got {text!r}.",
            option=option,
            value=text,
        ) from None
    return round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


def at(at_ms: int) -> str:
    """Return a time as text in UTC."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")


def as_json_of(receipt: Receipt, unfinished: Mapping[tuple[str, int], str]) -> dict[str, Any]:
    """Return a receipt, for programs."""
    from penstock.sink.exactly_once.receipt import ranges_to_json  # noqa: PLC0415 - lazy

    return {
        "query_id": receipt.query_id,
        "batch_id": receipt.batch_id,
        "at": at(receipt.at_ms),
        "status": unfinished.get((receipt.query_id, receipt.batch_id)),
        "read": None if receipt.read is None else ranges_to_json(receipt.read),
        "previous_batch_id": receipt.previous,
        "taken_as_written_without": receipt.taken_lost,
        "taken_as_written_unknown": sum(each.content.record_count for each in receipt.unknown),
        "record_count": receipt.content.record_count,
        "digest": str(receipt.content),
        "written": [
            {"topic": topic, "partition": partition, "records": count}
            for (topic, partition), count in sorted(receipt.written().items())
        ],
        "transactions": len(receipt.transactions),
        "penstock": receipt.penstock,
        "spark": receipt.spark,
    }


def _text(receipt: Receipt, unfinished: Mapping[tuple[str, int], str]) -> str:
    by_topic: dict[str, int] = {}
    for (topic, _), count in receipt.written().items():
        by_topic[topic] = by_topic.get(topic, 0) + count
    known = [f"{topic} {count:,}" for topic, count in sorted(by_topic.items())]
    unknown = receipt.content.record_count - sum(by_topic.values())
    if known and unknown:
        known.append(f"other topics {unknown:,}")
    into = ", ".join(known) or "topics unknown"
    read = "what it read is not in the receipt"
    if receipt.read is not None:
        read = "read " + (", ".join(map(str, receipt.read)) or "nothing of Kafka")
    status = unfinished.get((receipt.query_id, receipt.batch_id))
    return (
        f"{at(receipt.at_ms)}  {receipt.where}: {receipt.content.record_count:,} records ({into}), "
        f"digest {receipt.content}, {read}, penstock {receipt.penstock}, Spark {receipt.spark}"
        + _taken(receipt)
        + ("" if status is None else f". It is {_UNFINISHED[status]}")
    )


def _taken(receipt: Receipt) -> str:
    """Return what a receipt says if its batch was taken as written by hand; else nothing."""
    told = f". It was taken as written without {receipt.taken_lost:,} records" if receipt.taken_lost else ""
    if receipt.unknown:
        count = sum(each.content.record_count for each in receipt.unknown)
        told += f". It was taken as written while it was unknown whether {count:,} records are committed"
    return told
