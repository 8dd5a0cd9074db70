"""Follow one run of a query by its progress reports.

Runs in the user's program. Pure. Invariant: all figures count from the start of the run, because a facet in a
later event replaces the same facet of an earlier one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock import errors
from penstock.observe.lineage.datasets import Input, Output
from penstock.observe.progress import kafka_positions, start_positions
from penstock.types import TopicPartition


@dataclass(frozen=True, slots=True)
class Span:
    """What a run has passed of one topic partition: `[start, end)`."""

    partition: int
    start: int
    end: int


@dataclass(frozen=True)
class QueryDescription:
    """What the user says of a query."""

    inputs: Sequence[Input] = ()
    outputs: Sequence[Output] = ()


@dataclass
class Run:
    """A run of a query.

    Attributes:
        run_id: Spark's, a UUID.
        job_name: the name of the query.
        described: its inputs and outputs.
        rows_in: rows that the run has read, by the number of the source in the query.
        rows_out: rows that the run has written; None if Spark does not count them.
    """

    run_id: str
    job_name: str
    described: QueryDescription
    rows_in: dict[int, int] = field(default_factory=dict)
    rows_out: int | None = 0
    _starts: dict[int, dict[TopicPartition, int]] = field(default_factory=dict)
    _ends: dict[int, Mapping[TopicPartition, int]] = field(default_factory=dict)

    def copy(self) -> Run:
        """Return a copy that later reports do not change."""
        starts = {number: dict(of) for number, of in self._starts.items()}
        return Run(
            self.run_id,
            self.job_name,
            self.described,
            dict(self.rows_in),
            self.rows_out,
            starts,
            dict(self._ends),
        )

    def add(self, progress: Any) -> None:
        """Take a progress report of Spark."""
        for number, source in enumerate(progress.sources):
            end = kafka_positions(source.endOffset)
            if end is None:
                continue
            starts = self._starts.setdefault(number, {})
            of_batch = start_positions(source) or {}
            for topic_partition in end:
                # A topic partition that was found later begins at its oldest record, which is 0 or unknown.
                first = of_batch.get(topic_partition, 0)
                if (
                    starts.setdefault(topic_partition, first) > end[topic_partition]
                ):  # the topic was recreated
                    starts[topic_partition] = first if first <= end[topic_partition] else 0
            self._ends[number] = end
            self.rows_in[number] = self.rows_in.get(number, 0) + source.numInputRows
        written = progress.sink.numOutputRows
        if written is None or written < 0:
            self.rows_out = None
        elif self.rows_out is not None:
            self.rows_out += written

    def spans(self, topic: str, number: int) -> list[Span]:
        """Return what the run has passed of a topic in one of its sources, by partition."""
        ends, starts = self._ends.get(number, {}), self._starts.get(number, {})
        return [
            Span(tp.partition, starts[tp], ends[tp])
            for tp in sorted(ends)
            if tp.topic == topic and tp in starts
        ]

    def reads(self) -> list[tuple[Input, str, int | None]]:
        """Return each input with a topic, and the number of the source that reads it.

        The number is None before the first batch. A source is told by its topics. If several inputs have
        them, the order in the query decides.
        """
        found: dict[tuple[int, str], tuple[Input, str, int | None]] = {}
        for order, number in enumerate(sorted(self._ends)):
            for topic in sorted({tp.topic for tp in self._ends[number]}):
                given = self._input_of(topic, order)
                if given is not None:
                    found.setdefault((id(given), topic), (given, topic, number))
        for given in self.described.inputs:
            for topic in given.topics:
                found.setdefault((id(given), topic), (given, topic, None))
        return list(found.values())

    def _input_of(self, topic: str, order: int) -> Input | None:
        inputs = self.described.inputs
        candidates = [each for each in inputs if each.may_read(topic)]
        if order < len(inputs) and inputs[order] in candidates:
            return inputs[order]
        return candidates[0] if candidates else None


_CLASS = re.compile(r"\s*([A-Za-z_$][\w.$]*(?:Error|Exception|Throwable))(?=[:\s]|$)")
_PENSTOCKS = re.compile(r"^\s*(?:[\w.$]+: )?(penstock(?:\.\w+)*\.\w+: .+)$", re.MULTILINE)
_UNKNOWN = "The query has failed; its error is in Spark's log"
_OF_ROWS = (errors.DecodeError, errors.RowError, errors.StateError, errors.MaterializeError, errors.SqlError)
"""Errors about records, rows and keys. Their first line may hold values: the beginning of a bad record."""


def brief_error(text: str, error_class: str | None) -> str:
    """Return the class of an error, and the first line of the last error of penstock in its text.

    Nothing else of the text is kept: it may hold records, e.g. the rows of a failed cast. Of an error about
    records or rows only its class is kept.

    Args:
        text: of the error, with its stack traces.
        error_class: Spark's error class (e.g. `DIVIDE_BY_ZERO`); None without one.
    """
    by_text = _CLASS.match(text)
    name = error_class or (by_text.group(1) if by_text is not None else None)
    ours = _PENSTOCKS.findall(text)
    if not ours:
        return name or _UNKNOWN
    line = _without_values(str(ours[-1]))
    return line if name is None or line.startswith(f"{name}:") else f"{name}: {line}"


def _without_values(line: str) -> str:
    """Return the first line of an error of penstock, without what it may tell of records."""
    name = line.partition(":")[0]
    found = getattr(errors, name.rpartition(".")[2], None)
    if isinstance(found, type) and not issubclass(found, _OF_ROWS):
        return line
    return f"{name}: its text may hold values of records. Spark's log has it"
