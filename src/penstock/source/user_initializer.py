"""Ask a Python object of the user where reading starts or ends.

Runs on the driver, at first planning. The object came in an option (see options/python_objects.py), made by
penstock.KafkaSource.builder(). Invariants: it is asked once for the topic partitions that exist. Its answer
has to have an offset (or -2 earliest, -1 latest, -3 committed) for each of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from penstock.errors import OptionError, PenstockError
from penstock.options.config import OffsetsSpec
from penstock.options.offset_text import COMMITTED_OFFSET, where_of
from penstock.options.python_objects import INITIALIZER
from penstock.source._configured_lookup import OffsetLookUps
from penstock.source._positions import resolve_positions
from penstock.source.checkpoint_offset import Positions
from penstock.types import LogEnd, OffsetRange, TopicPartition, Where

if TYPE_CHECKING:
    import pyarrow as pa

_ENDS_BY_STRATEGY = {"earliest": LogEnd.EARLIEST, "latest": LogEnd.LATEST}


class PartitionOffsetsRetriever:
    """The questions of an offsets initializer to the cluster, like Flink's `PartitionOffsetsRetriever`.

    Each call is batched over its topic partitions and ends within the time-outs of the client.
    """

    def __init__(self, look_ups: OffsetLookUps, starts: Positions | None = None) -> None:
        self._look_ups = look_ups
        self._starts = starts

    def starting_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return where reading starts; for initializers of the end of a stream.

        Raises:
            OptionError: it is not known: this is not the first planning of a stream, or a topic partition did
                not answer.
        """
        known, asked = self._starts, _plain(partitions)
        if known is None:
            raise OptionError(
                "Where reading starts is known only at the first planning of a stream. Nothing was read. If "
                "another query made the checkpoint, e.g. one without an end, use a new checkpoint location."
            )
        missing = sorted(str(tp) for tp in asked if tp not in known)
        if missing:
            raise OptionError(
                f"Where {', '.join(missing)} starts could not be looked up, and without it the end of the "
                "stream cannot be found. Nothing was read. Start the query again when its brokers answer."
            )
        return {tp: known[tp] for tp in asked}

    def records(self, offset_range: OffsetRange) -> Iterator[pa.RecordBatch]:
        """Yield the records of one range in small batches, with all columns of KafkaRecords."""
        return self._look_ups.records(offset_range)

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset of the first record of each log."""
        return self.offsets_at(partitions, LogEnd.EARLIEST)

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset after the last record; under read_committed the last stable offset."""
        return self.offsets_at(partitions, LogEnd.LATEST)

    def offsets_at(self, partitions: Iterable[TopicPartition], where: Where) -> dict[TopicPartition, int]:
        """Return the offset of a position in each log; for a time after the last record that is the end."""
        wanted = dict.fromkeys(_plain(partitions), where)
        return dict(resolve_positions(wanted, self._look_ups).all_or_raise("Looking up offsets"))

    def offsets_for_times(self, timestamps_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the first offset whose record is not older; topic partitions without one are left out."""
        wanted = {TopicPartition(*tp): time_ms for tp, time_ms in timestamps_ms.items()}
        return dict(self._look_ups.for_times(wanted).all_or_raise("Looking up offsets by time"))

    def committed_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the committed offsets of the group; topic partitions without one are left out."""
        return dict(self._look_ups.committed(_plain(partitions)))


def ask_initializer(
    text: str,
    topic_partitions: Collection[TopicPartition],
    look_ups: OffsetLookUps,
    starts: Positions | None = None,
) -> OffsetsSpec:
    """Return the offsets that the object in `text` gives for these topic partitions.

    Args:
        text: of the option.
        topic_partitions: the subscribed ones.
        look_ups: answers the questions.
        starts: where reading starts, to find an end; None if it is not known.

    Raises:
        OptionError: the object cannot be loaded here, failed, or did not give one offset for each.
        ClientError: a look-up that the object asked for failed.
    """
    initializer = INITIALIZER.load(text, "scan.startup.initializer")
    name = type(initializer).__qualname__
    asked = sorted(topic_partitions)
    try:
        given = initializer.get_partition_offsets(asked, PartitionOffsetsRetriever(look_ups, starts))
        strategy = initializer.get_auto_offset_reset_strategy()
    except PenstockError:
        raise
    except Exception as error:
        raise OptionError(
            f"The offsets initializer {name} failed: {type(error).__name__}: {error}. Nothing was read. "
            "The initializer runs on the driver, when the query is first planned.",
            initializer=name,
        ) from error
    offsets = _checked(name, given, asked)
    each = tuple((tp, where_of(offset)) for tp, offset in sorted(offsets.items()))
    without_committed = _ENDS_BY_STRATEGY.get(getattr(strategy, "value", strategy))
    return OffsetsSpec(each=each, without_committed=without_committed)


def _checked(name: str, given: Any, asked: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    if not isinstance(given, Mapping):
        _refuse(name, f"gave a {type(given).__name__}; expected a mapping of topic partitions to offsets")
    offsets = {TopicPartition(*tp): offset for tp, offset in given.items()}
    missing = [str(tp) for tp in asked if tp not in offsets]
    if missing:
        _refuse(name, f"gave no offset for {', '.join(missing[:10])}")
    for tp, offset in offsets.items():
        if not isinstance(offset, int) or isinstance(offset, bool) or offset < COMMITTED_OFFSET:
            _refuse(name, f"gave {offset!r} for {tp}; expected an offset")
    return offsets


def _refuse(name: str, what: str) -> NoReturn:
    raise OptionError(
        f"The offsets initializer {name} {what}. Nothing was read. get_partition_offsets has to give a "
        "number for each topic partition: at least 0, -2 for earliest, -1 for latest, -3 for the group's "
        "committed offset.",
        initializer=name,
    )


def _plain(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    return [TopicPartition(*tp) for tp in partitions]
