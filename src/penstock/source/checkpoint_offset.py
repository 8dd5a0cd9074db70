"""The offset of a stream in Spark's checkpoint: Spark's own `{"topic":{"0":42}}`, and markers of penstock.

Runs on the driver. Invariant: Spark's own Kafka source can read every offset that this module writes, and
this module can read every offset that Spark's source wrote. So a checkpoint can move between the two. Topics
and partitions are always sorted, because Spark compares offsets as JSON text.

A marker holds what penstock has to remember beyond the end of a range. It is the key of an entry whose value
is an empty map. Spark's source reads the text as `Map[String, Map[Int, Long]]` and flattens it, and so drops
the entry. The key cannot be a topic, because `$` and a blank are illegal in topic names. See
docs/decisions/0002-offset-json.md.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from penstock.errors import CheckpointError
from penstock.types import TopicPartition

Positions: TypeAlias = Mapping[TopicPartition, int]
"""For each topic partition the offset of the next record to read."""

OffsetJson: TypeAlias = dict[str, dict[str, int]]
"""What Spark gets and gives: parsed JSON."""

MARKER_VERSION = 1
_MARKER_PREFIX = "$penstock/"
_WHOLE_START = "start"
_PARTIAL_START = "from"
_STOP = "stop"
_ENDED_RUNS = "ended"
_TOPIC_IDS = "topics"
_WAITING = "wait"
_LEFT = "left"
_PLANNED_AT = "now"
_KINDS_OF_POSITIONS = {_WHOLE_START, _PARTIAL_START, _STOP, _WAITING, _LEFT}
_KINDS_OF_NUMBERS = {_ENDED_RUNS, _PLANNED_AT}
_KINDS = {*_KINDS_OF_POSITIONS, *_KINDS_OF_NUMBERS, _TOPIC_IDS}


@dataclass(frozen=True)
class Markers:
    """What an offset carries besides its positions. Spark's own source does not see it.

    Attributes:
        whole_start: where the range that ends at this offset starts, for all of its topic partitions. Only
            the first offset of a query has it, because Spark asks for the initial offset again after a crash
            in batch 0.
        partial_start: where the range starts in the topic partitions that the previous offset does not have
            (newly discovered), or has with a position that cannot be used (recreated topic).
        stops: where a bounded stream stops reading; None for a stream without an end.
        ended_runs: how many runs saw a bounded stream at its end. The number makes the offset of each of
            these runs a new one for Spark.
        topic_ids: the ids of the topics that `positions` and `left` belong to, where they are known.
        waiting: topic partitions that existed at the start and did not answer. They begin where the user
            said, and not at their first record like topic partitions that are found later.
        left: the positions of topic partitions that are not read any more. If one comes back, it is read
            from there.
        planned_at_ms: when the query was first planned, in milliseconds since 1970. It is set only while a
            start before now (`-10 min`) still has to be resolved for some topic partitions.
    """

    whole_start: Positions | None = None
    partial_start: Positions = field(default_factory=dict)
    stops: Positions | None = None
    ended_runs: int = 0
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    waiting: frozenset[TopicPartition] = frozenset()
    left: Positions = field(default_factory=dict)
    planned_at_ms: int | None = None

    def to_json(self) -> OffsetJson:
        return {f"{_MARKER_PREFIX}{MARKER_VERSION} {key}": {} for key in sorted(self._keys())}

    def _keys(self) -> Iterator[str]:
        positions = {
            _WHOLE_START: self.whole_start,
            _PARTIAL_START: self.partial_start or None,
            _STOP: self.stops,
            _WAITING: dict.fromkeys(self.waiting, 0) or None,  # zeros, so that it reads like the others
            _LEFT: self.left or None,
        }
        for kind, of_kind in positions.items():
            if of_kind is not None:
                yield f"{kind} {_json_text(positions_to_json(of_kind))}"
        if self.ended_runs:
            yield f"{_ENDED_RUNS} {self.ended_runs}"
        if self.planned_at_ms is not None:
            yield f"{_PLANNED_AT} {self.planned_at_ms}"
        if self.topic_ids:
            yield f"{_TOPIC_IDS} {_json_text(dict(sorted(self.topic_ids.items())))}"

    @classmethod
    def from_json(cls, raw: Mapping[str, object]) -> Markers:
        """Read what `to_json` wrote.

        Raises:
            CheckpointError: it is something else, or a newer penstock wrote it.
        """
        found = dict(_read_marker(key, value) for key, value in raw.items())
        positions = {
            kind: positions_from_json(found[kind]) for kind in sorted(_KINDS_OF_POSITIONS & found.keys())
        }
        return cls(
            whole_start=positions.get(_WHOLE_START),
            partial_start=positions.get(_PARTIAL_START, {}),
            stops=positions.get(_STOP),
            ended_runs=found.get(_ENDED_RUNS, 0),
            topic_ids=found.get(_TOPIC_IDS, {}),
            waiting=frozenset(positions.get(_WAITING, ())),
            left=positions.get(_LEFT, {}),
            planned_at_ms=found.get(_PLANNED_AT),
        )


@dataclass(frozen=True)
class SourceOffset:
    """One offset of a stream: the next offset of each topic partition, and markers with all else."""

    positions: Positions
    markers: Markers = field(default_factory=Markers)

    def to_json(self) -> OffsetJson:
        """Return the offset as Spark has to store it: markers first, everything sorted."""
        return self.markers.to_json() | positions_to_json(self.positions)

    @classmethod
    def from_json(cls, raw: object) -> SourceOffset:
        """Read what this class or Spark's own Kafka source wrote.

        Raises:
            CheckpointError: the text is neither, or a newer penstock wrote it.
        """
        if not isinstance(raw, Mapping):
            raise _unreadable(raw, "it is not a JSON object")
        markers = {key: value for key, value in raw.items() if str(key).startswith("$")}
        topics = {key: value for key, value in raw.items() if key not in markers}
        return cls(positions_from_json(topics), Markers.from_json(markers))


def positions_to_json(positions: Positions) -> OffsetJson:
    """Return `{topic: {partition: offset}}`, topics by name, partitions by number."""
    topics: OffsetJson = {}
    for topic_partition in sorted(positions):
        of_topic = topics.setdefault(topic_partition.topic, {})
        of_topic[str(topic_partition.partition)] = positions[topic_partition]
    return topics


def positions_from_json(raw: object) -> dict[TopicPartition, int]:
    """Read what `positions_to_json` wrote.

    Raises:
        CheckpointError: an offset is not a whole number of at least 0, or the text has another form.
    """
    if not isinstance(raw, Mapping):
        raise _unreadable(raw, "it is not a JSON object")
    positions: dict[TopicPartition, int] = {}
    for topic, of_topic in raw.items():
        if not isinstance(of_topic, Mapping):
            raise _unreadable(raw, f"the value of topic {topic!r} is not an object of partitions")
        for partition, offset in of_topic.items():
            topic_partition = TopicPartition(str(topic), _partition_number(raw, partition))
            if type(offset) is not int or offset < 0:
                raise _unreadable(
                    raw, f"expected a number of at least 0 for {topic_partition}, got {offset!r}"
                )
            if topic_partition in positions:
                raise _unreadable(raw, f"{topic_partition} is in it twice")
            positions[topic_partition] = offset
    return positions


def _partition_number(raw: object, text: object) -> int:
    if isinstance(text, str) and text.isascii() and text.isdigit():
        return int(text)
    raise _unreadable(raw, f"expected the number of a partition, got {text!r}")


def _json_text(value: Mapping[str, object]) -> str:
    return json.dumps(value, separators=(",", ":"))


def _read_marker(key: str, value: object) -> tuple[str, Any]:
    """Return the kind of a marker, and the JSON that it carries."""
    head, _, rest = key.partition(" ")
    kind, _, text = rest.partition(" ")
    if head != f"{_MARKER_PREFIX}{MARKER_VERSION}" or kind not in _KINDS:
        raise _unreadable(
            key, f"expected a marker of {_MARKER_PREFIX}{MARKER_VERSION}; a newer version wrote this one"
        )
    if value != {}:
        raise _unreadable(key, f"expected {{}} as the value of a marker, got {value!r}")
    try:
        carried = json.loads(text)
    except json.JSONDecodeError as error:
        raise _unreadable(key, f"expected JSON in a marker: {error}") from error
    if kind in _KINDS_OF_NUMBERS and (type(carried) is not int or carried < 0):
        raise _unreadable(key, f"expected a number of at least 0 in a marker, got {carried!r}")
    if kind == _TOPIC_IDS and not (
        isinstance(carried, dict) and all(isinstance(topic_id, str) for topic_id in carried.values())
    ):
        raise _unreadable(key, f"expected topics with their ids in a marker, got {carried!r}")
    return kind, carried


def _unreadable(raw: object, why: str) -> CheckpointError:
    shown = str(raw)
    shown = shown if len(shown) <= 500 else shown[:500] + " ..."
    return CheckpointError(
        f"An offset of the checkpoint cannot be read: {why}. It is: {shown}. Nothing was read and nothing "
        "was changed. Use the version that wrote this checkpoint, or start with a new checkpoint location.",
        offset=shown,
    )


def parse_reported(offset: Any) -> Any:
    """Return the offset in a progress report of Spark, parsed. None and other values stay.

    Raises:
        ValueError: it is a text that is not an offset.
    """
    if not isinstance(offset, str):
        return offset
    try:
        return json.loads(offset)
    except json.JSONDecodeError:
        pass
    try:
        return ast.literal_eval(offset)  # PySpark 4.1 gives the text of a dict of Python
    except (SyntaxError, TypeError, MemoryError, RecursionError):
        raise ValueError(f"expected an offset, got {offset!r}") from None
