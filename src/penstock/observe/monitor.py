"""Keep what was seen of a reader, and say how it does: lag, health, rates, time to catch up.

Runs anywhere. Pure: looks come in, reports go out. Invariant: memory is bounded by the number of topic
partitions, whatever the time that it runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock.errors import PenstockError
from penstock.observe.health import Health, HealthRules, Sample, Verdict, judge, worst
from penstock.observe.lag import Holder, PartitionLook, Totals, totals
from penstock.types import TopicPartition

_SAMPLES_KEPT = 16


@dataclass(frozen=True, slots=True)
class Rates:
    """The speed of a reader since an earlier look.

    Attributes:
        read_per_s: offsets that the reader passed in a second.
        written_per_s: offsets that were written in a second.
        catch_up_s: when the lag is gone at these rates; 0 without a lag, None if it does not shrink.
    """

    read_per_s: float
    written_per_s: float
    catch_up_s: float | None


@dataclass(frozen=True, slots=True)
class Row:
    """One topic partition of a report."""

    topic_partition: TopicPartition
    look: PartitionLook
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Report:
    """How a reader does.

    Attributes:
        rows: each topic partition that answered, in order.
        errors: each topic partition that did not.
        totals: over the rows.
        health: the worst word of the rows; UNKNOWN instead of OK if a topic partition did not answer.
        rates: None at the first look.
    """

    rows: Sequence[Row]
    errors: Mapping[TopicPartition, PenstockError]
    totals: Totals
    health: Health
    rates: Rates | None

    @property
    def has_lag(self) -> bool:
        """Return whether `totals` says something: not if nothing has answered."""
        return bool(self.rows) or not self.errors

    @property
    def reasons(self) -> list[str]:
        """Return the sentences of the rows that are not OK, the worst first."""
        order = list(Health)
        bad = [row.verdict for row in self.rows if row.verdict.health is not Health.OK]
        return [each.reason for each in sorted(bad, key=lambda each: -order.index(each.health))]


class Monitor:
    """Judges the looks at one reader.

    Args:
        rules: the limits of the words.
        history: what is known from before the first look, oldest first.
    """

    def __init__(
        self, rules: HealthRules, history: Mapping[TopicPartition, Sequence[Sample]] | None = None
    ) -> None:
        self._rules = rules
        self._samples = {tp: deque(of, _SAMPLES_KEPT) for tp, of in (history or {}).items()}
        self._earlier: deque[Mapping[TopicPartition, PartitionLook]] = deque(maxlen=_SAMPLES_KEPT)

    def add(
        self,
        looks: Mapping[TopicPartition, PartitionLook],
        errors: Mapping[TopicPartition, PenstockError] | None = None,
    ) -> Report:
        """Return the report of the newest look, and keep the look for later ones."""
        rows = [
            Row(tp, looks[tp], judge(tp, tuple(self._samples.get(tp, ())), looks[tp], self._rules))
            for tp in sorted(looks)
        ]
        rates = _rates(self._earlier[0], looks) if self._earlier else None
        errors = dict(errors or {})
        for gone in self._samples.keys() - looks.keys() - errors.keys():
            del self._samples[gone]
        self._keep(looks)
        health = worst([Health.UNKNOWN if errors else Health.OK, *(row.verdict.health for row in rows)])
        of_all = totals(looks.values())
        if errors and not rows:
            of_all = replace(of_all, age_ms=None)
        return Report(rows, errors, of_all, health, rates)

    def _keep(self, looks: Mapping[TopicPartition, PartitionLook]) -> None:
        for tp, look in looks.items():
            kept = self._samples.setdefault(tp, deque(maxlen=_SAMPLES_KEPT))
            sample = Sample.of(look, self._rules)
            # Of the looks at one position the first, and the first with records, say everything. So the
            # samples reach back over many batches, however often somebody looks.
            if not (kept and kept[-1].position == sample.position and kept[-1].records):
                kept.append(sample)
        self._earlier.append(looks)


def _rates(
    before: Mapping[TopicPartition, PartitionLook], now: Mapping[TopicPartition, PartitionLook]
) -> Rates | None:
    both = [(before[tp], now[tp]) for tp in before.keys() & now.keys()]
    seconds = max((after.at_ms - first.at_ms for first, after in both), default=0) / 1000
    if seconds <= 0:
        return None
    read = sum(after.position - first.position for first, after in both) / seconds
    written = sum(after.high_watermark - first.high_watermark for first, after in both) / seconds
    records = sum(look.records for look in now.values())
    is_shrinking = read > written
    catch_up_s = records / (read - written) if is_shrinking and records else None
    return Rates(read, written, catch_up_s if records else 0.0)


def report_to_json(report: Report) -> dict[str, Any]:
    """Return a report for programs: ages and times in seconds, lags in records."""
    return {
        "health": report.health.value,
        "reasons": report.reasons,
        "lag_records": report.totals.records if report.has_lag else None,
        "readable_records": report.totals.readable_records if report.has_lag else None,
        "lag_seconds": _seconds(report.totals.age_ms),
        "event_time_skew_seconds": report.totals.skew_ms / 1000,
        "rates": None if report.rates is None else _rates_to_json(report.rates),
        "errors": {str(tp): error.message for tp, error in sorted(report.errors.items())},
        "topic_partitions": [_row_to_json(row) for row in report.rows],
    }


def _rates_to_json(rates: Rates) -> dict[str, Any]:
    return {
        "read_per_second": round(rates.read_per_s, 3),
        "written_per_second": round(rates.written_per_s, 3),
        "catch_up_seconds": None if rates.catch_up_s is None else round(rates.catch_up_s, 1),
    }


def _row_to_json(row: Row) -> dict[str, Any]:
    look = row.look
    return {
        "topic": row.topic_partition.topic,
        "partition": row.topic_partition.partition,
        "health": row.verdict.health.value,
        "reason": row.verdict.reason,
        "position": look.position,
        "log_start_offset": look.log_start,
        "last_stable_offset": look.last_stable,
        "high_watermark": look.high_watermark,
        "lag_records": look.records,
        "readable_records": look.readable_records,
        "deleted_records": look.deleted_records,
        "lag_seconds": _seconds(look.age_ms),
        "held_back_by": None if look.holder is None else _holder_to_json(look.holder),
    }


def _holder_to_json(holder: Holder) -> dict[str, Any]:
    return {
        "transactional_id": holder.transactional_id,
        "producer_id": holder.producer_id,
        "first_offset": holder.first_offset,
        "open_since_ms": holder.open_since_ms,
        "is_looked_up": holder.is_looked_up,
    }


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


_NAMED = 3
"""How many topic partitions with the same error are named."""


def sentences(report: Report, most: int) -> list[str]:
    """Return what is wrong in at most `most` sentences, and one more that counts the rest.

    Topic partitions without an answer come first, because nothing is known of them.
    """
    said = [*_errors(report), *report.reasons]
    left_out = len(said) - most
    return said if left_out <= 0 else [*said[:most], f"... and {left_out} more"]


def _errors(report: Report) -> list[str]:
    """Return one sentence for all topic partitions with the same error."""
    same: dict[str, list[TopicPartition]] = {}
    for topic_partition, error in sorted(report.errors.items()):
        same.setdefault(error.message, []).append(topic_partition)
    return [f"no answer for {_names(found)}: {message}" for message, found in same.items()]


def _names(found: list[TopicPartition]) -> str:
    named = ", ".join(str(each) for each in found[:_NAMED])
    left_out = len(found) - _NAMED
    return named if left_out <= 0 else f"{named} and {left_out} more"
