"""Compare what two queries have written of the same input: counts, digests, and then rows.

Runs anywhere. Changes nothing. Each side is read once for its digest, and twice more if the digests differ.
Memory does not grow with the number of records (see `_rows`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from penstock.client.net.connection import KafkaConnections
from penstock.observe.verify._read import Part
from penstock.observe.verify._rows import RowDifference, differences
from penstock.observe.verify._written import copied_content, written_pieces
from penstock.observe.verify.shadow.ranges import Group, Side, groups, without_counterpart
from penstock.sink.exactly_once.digest import NO_RECORDS, RecordDigest
from penstock.sink.exactly_once.receipt import Receipt
from penstock.types import TopicPartition

_ROWS_MAX = 20
_GROUPS_WITH_ROWS = 3
"""In how many groups that differ to look for rows. Each takes two more readings of both sides."""
_LOOKED_AT_MAX = 10_000
"""How many rows that differ to pair by their keys."""


class Outcome(str, Enum):
    """What is known of a group."""

    EQUAL = "equal"
    NOT_COMPARED = "not compared"
    DIFFERS = "differs"


class RowPlace(NamedTuple):
    """Where a record is, and the batch that wrote it."""

    topic_partition: TopicPartition
    offset: int
    batch_id: int

    def to_json(self) -> dict[str, Any]:
        """Return plain values, for programs."""
        topic, partition = self.topic_partition
        return {"topic": topic, "partition": partition, "offset": self.offset, "batch_id": self.batch_id}


class Row(NamedTuple):
    """A record that only one of the two has written, or more often, or a pair of records with one key.

    `kind`: "only-live", "only-shadow", "more-often" or "changed". `times`: how often the running job and the
    shadow have written it; None if it is changed.
    """

    kind: str
    key: bytes | None
    live: RowPlace | None
    shadow: RowPlace | None
    times: tuple[int, int] | None = None

    @property
    def text(self) -> str:
        """Return a sentence about it."""
        key = "without a key" if self.key is None else f"with key {_shown(self.key)}"
        live, shadow = (
            None if one is None else f"offset {one.offset} of {one.topic_partition} (batch {one.batch_id})"
            for one in (self.live, self.shadow)
        )
        if self.kind == "changed":
            return f"The record {key} differs: {live} of the running job, {shadow} of the shadow."
        who = "shadow" if self.live is None else "running job"
        if self.kind == "more-often" and self.times is not None:
            return (
                f"The running job has written the record {key} {self.times[0]} times, and the shadow "
                f"{self.times[1]} times: the last one of the {who} is at {live or shadow}."
            )
        return f"Only the {who} has written the record {key} at {live or shadow}."

    def to_json(self) -> dict[str, Any]:
        """Return plain values, for programs."""
        places = {"live": self.live, "shadow": self.shadow}
        shown = {name: None if one is None else one.to_json() for name, one in places.items()}
        key = None if self.key is None else _shown(self.key)
        times = None if self.times is None else dict(zip(places, self.times, strict=True))
        return {"kind": self.kind, "key": key, **shown, "times": times}


@dataclass
class Compared:
    """A group, and what was found."""

    group: Group
    outcome: Outcome = Outcome.EQUAL
    live: RecordDigest = NO_RECORDS
    shadow: RecordDigest = NO_RECORDS
    why: str | None = None
    rows: list[Row] = field(default_factory=list)
    more_rows: bool = False

    @property
    def text(self) -> str:
        """Return a sentence about it."""
        (first, last), (shadow_first, shadow_last) = self.group.live, self.group.shadow
        read = ", ".join(map(str, self.group.read)) or "nothing"
        head = (
            f"Batches {first} to {last} of the running job and {shadow_first} to {shadow_last} of the shadow "
            f"(read {read}): "
        )
        if self.outcome is Outcome.NOT_COMPARED:
            return f"{head}not compared, because {self.why}."
        if self.outcome is Outcome.EQUAL:
            return f"{head}equal, {self.live.record_count:,} records each."
        counts = f"{self.live.record_count:,} and {self.shadow.record_count:,} records"
        return f"{head}differ, {counts}, digests {self.live} and {self.shadow}."

    def to_json(self) -> dict[str, Any]:
        """Return plain values, for programs."""
        sides = (("live", self.group.live, self.live), ("shadow", self.group.shadow, self.shadow))
        return {
            "outcome": self.outcome.value,
            "why": self.why,
            "read": [
                [*each.topic_partition, each.starting_offset, each.stopping_offset]
                for each in self.group.read
            ],
            **{
                name: {"batches": list(batches), "record_count": found.record_count, "digest": str(found)}
                for name, batches, found in sides
            },
            "rows": [each.to_json() for each in self.rows],
            "more_rows": self.more_rows,
        }


@dataclass
class Comparison:
    """All groups, and what has no counterpart yet.

    Attributes:
        groups: in order.
        notes: sentences about the rest.
        is_cut: it is unknown what later batches have read or written.
    """

    groups: list[Compared]
    notes: list[str]
    is_cut: bool = False

    @property
    def outcome(self) -> Outcome:
        """Return EQUAL if there are groups and all are equal. What has no counterpart yet does not count."""
        outcomes = {each.outcome for each in self.groups}
        if Outcome.DIFFERS in outcomes:
            return Outcome.DIFFERS
        is_equal = outcomes == {Outcome.EQUAL} and not self.is_cut
        return Outcome.EQUAL if is_equal else Outcome.NOT_COMPARED

    def to_json(self) -> dict[str, Any]:
        """Return plain values, for programs."""
        return {
            "version": 1,
            "outcome": self.outcome.value,
            "groups": [each.to_json() for each in self.groups],
            "notes": self.notes,
        }


def compare(
    connections: KafkaConnections,
    live: Side,
    shadow: Side,
    columns: Sequence[str],
    unfinished: Mapping[tuple[str, int], str],
    *,
    has_state: bool = False,
) -> Comparison:
    """Compare what both have written of the same input.

    Args:
        connections: to the cluster of both topics.
        live: of the running job.
        shadow: of the changed job.
        columns: that are compared: some of key, value, headers.
        unfinished: the status of batches that are not finished, by query id and number.
        has_state: both keep a state. Their records may differ where they have read in other batches.

    Raises:
        PenstockError: the cluster does not answer.
    """
    found = [_compare(connections, each, columns, unfinished) for each in groups(live, shadow)]
    for each in found if has_state else ():
        _excuse_other_batches(each)
    differing = [each for each in found if each.outcome is Outcome.DIFFERS]
    for each in differing[:_GROUPS_WITH_ROWS]:
        _add_rows(connections, each, columns)
    is_cut = live.stopped is not None or shadow.stopped is not None
    return Comparison(found, list(_notes(found, live, shadow)), is_cut)


def _notes(found: Sequence[Compared], live: Side, shadow: Side) -> Iterator[str]:
    for name, side, numbers in (
        ("the running job", live, [each.group.live for each in found]),
        ("the shadow", shadow, [each.group.shadow for each in found]),
    ):
        last = numbers[-1][1] if numbers else -1
        rest = without_counterpart(side, last)
        if rest:
            yield (
                f"Batches {rest[0]} to {rest[-1]} of {name} were not compared: no batches of the other one "
                "end at the same offsets yet."
            )
        if side.stopped is not None:
            yield f"Later batches of {name} were not compared: {side.stopped}."


def _compare(
    connections: KafkaConnections,
    group: Group,
    columns: Sequence[str],
    unfinished: Mapping[tuple[str, int], str],
) -> Compared:
    compared = Compared(group)
    contents = []
    for name, receipts in zip(("running job", "shadow"), group.written, strict=True):
        content, why = _content(connections, receipts, columns, unfinished)
        contents.append(content)
        if why is not None and compared.why is None:
            compared.why = f"of the {name}, {why}"
    compared.live, compared.shadow = contents
    if compared.why is not None:
        compared.outcome = Outcome.NOT_COMPARED
    elif compared.live != compared.shadow:
        compared.outcome = Outcome.DIFFERS
    return compared


def _excuse_other_batches(compared: Compared) -> None:
    """Let a group that differs count as not compared, if a side has read it in several batches."""
    group = compared.group
    if compared.outcome is Outcome.DIFFERS and any(
        first != last for first, last in (group.live, group.shadow)
    ):
        compared.outcome = Outcome.NOT_COMPARED
        compared.why = (
            "both keep a state and have read these records in other batches. Their records differ, which may "
            "have no other reason"
        )


def _content(
    connections: KafkaConnections,
    receipts: Sequence[Receipt],
    columns: Sequence[str],
    unfinished: Mapping[tuple[str, int], str],
) -> tuple[RecordDigest, str | None]:
    """Return the digest of what batches have written, and why it is not all of it."""
    content, why = NO_RECORDS, None
    for receipt in receipts:
        status = unfinished.get((receipt.query_id, receipt.batch_id))
        if receipt.taken_lost or receipt.unknown:
            why = why or f"batch {receipt.batch_id} was taken as written by hand"
        elif any(each.content.record_count and not each.spans for each in receipt.transactions):
            why = why or f"the receipt of batch {receipt.batch_id} does not say where its records are"
        visible, hole = NO_RECORDS, None
        for piece in written_pieces(connections, receipt):
            if isinstance(piece, Part):
                visible += copied_content(piece.rows, columns)
            else:
                hole = piece
        if status is not None:
            why = why or f"batch {receipt.batch_id} is {status}"
        elif visible.record_count != receipt.content.record_count:
            counts = f"batch {receipt.batch_id} has written {receipt.content.record_count:,} records, and "
            told = f": {hole.why.value}" if hole is not None else ""
            why = why or f"{counts}{visible.record_count:,} can be read now{told}"
        content += visible
    return content, why


def _parts(connections: KafkaConnections, receipts: Sequence[Receipt]) -> Iterator[Part]:
    for receipt in receipts:
        yield from (each for each in written_pieces(connections, receipt) if isinstance(each, Part))


def _add_rows(connections: KafkaConnections, compared: Compared, columns: Sequence[str]) -> None:
    """Find rows by which a group differs, and pair those with one key."""
    live, shadow = compared.group.written
    sides = partial(_parts, connections, live), partial(_parts, connections, shadow)
    by = ["key"] if "key" in columns else list(columns)
    found = list(islice(differences(*sides, columns, by), _LOOKED_AT_MAX))
    rows = list(islice(_rows(found), _ROWS_MAX + 1))
    compared.more_rows = len(rows) > _ROWS_MAX
    wanted = [each for pair in rows[:_ROWS_MAX] for each in pair if each is not None]
    keys = _keys(connections, (*live, *shadow), {each.place for each in wanted})
    for pair in rows[:_ROWS_MAX]:
        if all(each is None or each.place in keys for each in pair):
            compared.rows.append(_row(*pair, keys))
        else:  # retention has deleted it since it was compared
            compared.more_rows = True


class _Found(NamedTuple):
    """A row of one side that the other side has less often."""

    place: tuple[TopicPartition, int]
    times: tuple[int, int]
    """How often the running job has it, and the shadow."""


def _rows(found: Sequence[RowDifference]) -> Iterator[tuple[_Found | None, _Found | None]]:
    by_key: dict[int, tuple[list[_Found], list[_Found]]] = {}
    for each in found:
        place = each.place
        by_key.setdefault(each.key, ([], []))[0 if each.is_lost else 1].append(
            _Found((place.topic_partition, place.offset), (each.read.count, each.written.count))
        )
    for live, shadow in by_key.values():
        paired = min(len(live), len(shadow))
        yield from zip(live[:paired], shadow[:paired], strict=True)
        yield from ((each, None) for each in live[paired:])
        yield from ((None, each) for each in shadow[paired:])


def _keys(
    connections: KafkaConnections, receipts: Sequence[Receipt], places: set[tuple[TopicPartition, int]]
) -> dict[tuple[TopicPartition, int], tuple[bytes | None, int]]:
    """Return key and batch of the records at some places."""
    found: dict[tuple[TopicPartition, int], tuple[bytes | None, int]] = {}
    for receipt in receipts:
        for part in _parts(connections, [receipt]):
            offsets, keys = part.rows.column("offset").to_pylist(), part.rows.column("key")
            for number, offset in enumerate(offsets):
                if (place := (part.topic_partition, offset)) in places:
                    found[place] = keys[number].as_py(), receipt.batch_id
    return found


def _row(
    live: _Found | None,
    shadow: _Found | None,
    keys: Mapping[tuple[TopicPartition, int], tuple[bytes | None, int]],
) -> Row:
    times = None if live and shadow else next(one.times for one in (live, shadow) if one is not None)
    kind = (
        "changed" if times is None else "more-often" if all(times) else "only-live" if live else "only-shadow"
    )
    places = [None if one is None else RowPlace(*one.place, keys[one.place][1]) for one in (live, shadow)]
    key = next(keys[one.place][0] for one in (live, shadow) if one is not None)
    return Row(kind, key, places[0], places[1], times)


def _shown(key: bytes) -> str:
    try:
        text = key.decode()
    except UnicodeDecodeError:
        text = f"0x{key.hex()}"
    return text if len(text) <= 60 else f"{text[:60]}..."
