"""Make a report again from the JSON of `/lag`.

Runs where the JSON is read: a command. Pure. Invariant: a JSON that is not one of penstock's reports is an
error, and never a report with guesses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.errors import ClientError, PenstockError
from penstock.observe.health import Health, Verdict
from penstock.observe.lag import Holder, PartitionLook, Totals
from penstock.observe.monitor import Rates, Report, Row
from penstock.types import TopicPartition


def report_from_json(data: Any, at_ms: int) -> Report:
    """Return the report that `report_to_json` wrote.

    Args:
        data: parsed JSON.
        at_ms: the time of the report, since 1970. The ages in it count from there.

    Raises:
        ValueError: the JSON is something else.
    """
    try:
        return Report(
            [_row(each, at_ms) for each in data["topic_partitions"]],
            {_topic_partition(name): _error(text) for name, text in data["errors"].items()},
            Totals(
                int(data["lag_records"] or 0),
                int(data["readable_records"] or 0),
                _ms(data["lag_seconds"]),
                int(data["event_time_skew_seconds"] * 1000),
            ),
            _health(data["health"]),
            None if data["rates"] is None else _rates(data["rates"]),
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"expected a report of penstock, cannot read it: {error!r}") from error


def _row(data: Mapping[str, Any], at_ms: int) -> Row:
    topic_partition = TopicPartition(str(data["topic"]), int(data["partition"]))
    age_ms = _ms(data["lag_seconds"])
    holder = data["held_back_by"]
    look = PartitionLook(
        at_ms,
        int(data["position"]),
        int(data["log_start_offset"]),
        int(data["last_stable_offset"]),
        int(data["high_watermark"]),
        None if age_ms is None else at_ms - age_ms,
        None if holder is None else _holder(topic_partition, holder),
    )
    return Row(topic_partition, look, Verdict(_health(data["health"]), str(data["reason"])))


def _health(word: Any) -> Health:
    """Return the word; UNKNOWN for one that a newer penstock says."""
    if not isinstance(word, str):
        raise TypeError(f"expected a word for the health, got {word!r}")
    return Health(word) if word in Health.__members__ else Health.UNKNOWN


def _holder(topic_partition: TopicPartition, data: Mapping[str, Any]) -> Holder:
    return Holder(
        topic_partition,
        int(data["producer_id"]),
        data["transactional_id"],
        int(data["first_offset"]),
        data["open_since_ms"],
        bool(data.get("is_looked_up", True)),
    )


def _rates(data: Mapping[str, Any]) -> Rates:
    return Rates(data["read_per_second"], data["written_per_second"], data["catch_up_seconds"])


def _error(text: object) -> PenstockError:
    return ClientError(str(text))


def _topic_partition(name: str) -> TopicPartition:
    topic, _, partition = name.rpartition("-")
    return TopicPartition(topic, int(partition))


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)
