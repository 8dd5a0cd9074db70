"""The offset of a stream as it lies in Spark's checkpoint: Spark's own `{"topic":{"0":42}}`.

Runs on the driver. Invariant: every offset that this module writes can be read by Spark's own Kafka
source, and every offset that Spark's source wrote can be read here, so that a checkpoint moves between
the two. Spark compares offsets as JSON text, so topics and partitions are always sorted.

What penstock has to remember beyond the end of a range (where the range *starts*, when Spark itself
cannot know it; where a bounded stream stops; the ids of its topics; the
positions of what left the subscription) travels in the key of an entry whose
value is an empty map. Spark's source reads the text as `Map[String, Map[Int, Long]]` and flattens it, which
makes the entry vanish; `$` and a blank are illegal in topic names, so the key cannot be one. See
docs/decisions/0002-offset-json.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
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
_KINDS_OF_POSITIONS = {_WHOLE_START, _PARTIAL_START, _STOP, _WAITING, _LEFT}
_KINDS = {*_KINDS_OF_POSITIONS, _ENDED_RUNS, _TOPIC_IDS}


@dataclass(frozen=True)
class SourceOffset:
    """One offset of a stream: the positions, and where the range that ends here starts if that is special.

    Attributes:
        positions: the next offset of each topic partition.
        whole_start: where the range that ends here starts, for all of its topic partitions. Only in the
            first offset of a query: Spark asks for the initial offset again after a crash in batch 0.
        partial_start: the same for those topic partitions only that the previous offset does not have
            (newly discovered) or has with a position that cannot be used (re-created topic).
        stops: where a bounded stream stops reading; None for one without an end.
        left: the positions of topic partitions that are not read any more, should they come back.
        topic_ids: which topics of these names `positions` and `left` belong to, as far as that is known.
        waiting: topic partitions that were there at the start and did not answer: they begin where the user
            said, like the others, and not at their first record, like later ones.
        ended_runs: how many runs saw a bounded stream at its end; makes each of them report that.
    """

    positions: Positions
    whole_start: Positions | None = None
    partial_start: Positions = field(default_factory=dict)
    stops: Positions | None = None
    ended_runs: int = 0
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    waiting: frozenset[TopicPartition] = frozenset()
    left: Positions = field(default_factory=dict)

    def to_json(self) -> OffsetJson:
        """The offset as Spark shall store it, everything sorted."""
        marked: OffsetJson = {}
        if self.whole_start is not None:
            marked[_marker(_WHOLE_START, self.whole_start)] = {}
        if self.partial_start:
            marked[_marker(_PARTIAL_START, self.partial_start)] = {}
        if self.stops is not None:
            marked[_marker(_STOP, self.stops)] = {}
        if self.ended_runs:
            marked[f"{_MARKER_PREFIX}{MARKER_VERSION} {_ENDED_RUNS} {self.ended_runs}"] = {}
        if self.topic_ids:
            text = json.dumps(dict(sorted(self.topic_ids.items())), separators=(",", ":"))
            marked[f"{_MARKER_PREFIX}{MARKER_VERSION} {_TOPIC_IDS} {text}"] = {}
        if self.waiting:
            # With a zero for each, so that it reads like the other markers.
            marked[_marker(_WAITING, dict.fromkeys(self.waiting, 0))] = {}
        if self.left:
            marked[_marker(_LEFT, self.left)] = {}
        return dict(sorted(marked.items())) | positions_to_json(self.positions)

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
        found = dict(_read_marker(key, value) for key, value in markers.items())
        marked = {
            kind: positions_from_json(found[kind]) for kind in sorted(_KINDS_OF_POSITIONS & found.keys())
        }
        return cls(
            positions=positions_from_json(topics),
            whole_start=marked.get(_WHOLE_START),
            partial_start=marked.get(_PARTIAL_START, {}),
            stops=marked.get(_STOP),
            ended_runs=found.get(_ENDED_RUNS, 0),
            topic_ids=found.get(_TOPIC_IDS, {}),
            waiting=frozenset(marked.get(_WAITING, ())),
            left=marked.get(_LEFT, {}),
        )


def positions_to_json(positions: Positions) -> OffsetJson:
    """`{topic: {partition: offset}}`, topics by name, partitions by number."""
    topics: OffsetJson = {}
    for topic_partition in sorted(positions):
        of_topic = topics.setdefault(topic_partition.topic, {})
        of_topic[str(topic_partition.partition)] = positions[topic_partition]
    return topics


def positions_from_json(raw: object) -> dict[TopicPartition, int]:
    """The inverse of `positions_to_json`; accepts only whole numbers that are not negative."""
    if not isinstance(raw, Mapping):
        raise _unreadable(raw, "it is not a JSON object")
    positions: dict[TopicPartition, int] = {}
    for topic, of_topic in raw.items():
        if not isinstance(of_topic, Mapping):
            raise _unreadable(raw, f"the value of topic {topic!r} is not an object of partitions")
        for partition, offset in of_topic.items():
            topic_partition = TopicPartition(str(topic), _partition_number(raw, partition))
            if type(offset) is not int or offset < 0:
                raise _unreadable(raw, f"the offset of {topic_partition} is {offset!r}, not a position")
            if topic_partition in positions:
                raise _unreadable(raw, f"{topic_partition} is in it twice")
            positions[topic_partition] = offset
    return positions


def _partition_number(raw: object, text: object) -> int:
    if isinstance(text, str) and text.isascii() and text.isdigit():
        return int(text)
    raise _unreadable(raw, f"{text!r} is not the number of a partition")


def _marker(kind: str, positions: Positions) -> str:
    text = json.dumps(positions_to_json(positions), separators=(",", ":"))
    return f"{_MARKER_PREFIX}{MARKER_VERSION} {kind} {text}"


def _read_marker(key: str, value: object) -> tuple[str, Any]:
    """The kind of a marker, and the JSON that it carries."""
    head, _, rest = key.partition(" ")
    kind, _, text = rest.partition(" ")
    if head != f"{_MARKER_PREFIX}{MARKER_VERSION}" or kind not in _KINDS:
        why = f"this version knows {_MARKER_PREFIX}{MARKER_VERSION} only; a newer one wrote it"
        raise _unreadable(key, why)
    if value != {}:
        raise _unreadable(key, "a marker with a value")
    try:
        carried = json.loads(text)
    except json.JSONDecodeError as error:
        raise _unreadable(key, f"a marker that is not JSON: {error}") from error
    if kind == _ENDED_RUNS and (type(carried) is not int or carried < 0):
        raise _unreadable(key, "a marker whose number is none")
    if kind == _TOPIC_IDS and not (
        isinstance(carried, dict) and all(isinstance(topic_id, str) for topic_id in carried.values())
    ):
        raise _unreadable(key, "a marker whose topic ids are none")
    return kind, carried


def _unreadable(raw: object, why: str) -> CheckpointError:
    shown = str(raw)
    shown = shown if len(shown) <= 500 else shown[:500] + " ..."
    return CheckpointError(
        f"An offset of the checkpoint cannot be read: {why}. It is: {shown}. Nothing was read and nothing "
        "was changed. Use the version that wrote this checkpoint, or start with a new checkpoint location.",
        offset=shown,
    )
