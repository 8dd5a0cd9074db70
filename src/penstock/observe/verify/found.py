"""What verify says: findings about places, and a verdict for each batch. Runs anywhere. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from penstock.sink.exactly_once.receipt import Receipt
from penstock.types import TopicPartition


class Verdict(str, Enum):
    """What is known of a batch, or of all of them together."""

    PROVEN = "proven"
    NOT_PROVABLE = "not provable"
    DIFFERS = "differs"


class Inputs(str, Enum):
    """What is known of the records that a batch has read."""

    EACH_ONCE = "each once"
    """Read again and compared: the batch wrote each of them once, and nothing else."""
    NOT_COMPARED = "not compared"
    """The query is not a copy, or it is unknown what it read: its rows cannot be made again."""
    DIFFER = "differ"


@dataclass(frozen=True, slots=True)
class Finding:
    """A difference, or a reason why something cannot be proven.

    Attributes:
        verdict: DIFFERS or NOT_PROVABLE.
        kind: one word for programs, such as "lost".
        text: a sentence for people.
        topic_partition: where; None if it is about the whole batch.
        first: the first offset of the place; None if it is unknown.
        end: the offset after the place.
    """

    verdict: Verdict
    kind: str
    text: str
    topic_partition: TopicPartition | None = None
    first: int | None = None
    end: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain values, for programs."""
        topic, partition = self.topic_partition or (None, None)
        return {
            "verdict": self.verdict.value,
            "kind": self.kind,
            "text": self.text,
            "topic": topic,
            "partition": partition,
            "first_offset": self.first,
            "end_offset": self.end,
        }


def verdict_of(findings: Sequence[Finding]) -> Verdict:
    """Return the worst verdict of some findings."""
    verdicts = {each.verdict for each in findings}
    worst = (each for each in (Verdict.DIFFERS, Verdict.NOT_PROVABLE) if each in verdicts)
    return next(worst, Verdict.PROVEN)


@dataclass(slots=True)
class BatchResult:
    """What was found about one batch."""

    receipt: Receipt
    findings: list[Finding] = field(default_factory=list)
    found_records: int = 0
    inputs: Inputs = Inputs.NOT_COMPARED
    input_records: int | None = None
    """How many records its ranges have now; None if they were not read, or not as a whole."""

    @property
    def verdict(self) -> Verdict:
        return verdict_of(self.findings)

    def to_json(self) -> dict[str, Any]:
        """Return plain values, for programs."""
        return {
            "query_id": self.receipt.query_id,
            "batch_id": self.receipt.batch_id,
            "at_ms": self.receipt.at_ms,
            "verdict": self.verdict.value,
            "inputs": self.inputs.value,
            "input_records": self.input_records,
            "expected_records": self.receipt.content.record_count,
            "found_records": self.found_records,
            "findings": [each.to_json() for each in self.findings],
        }


@dataclass(slots=True)
class Report:
    """All results. `findings`: about several batches, or about none."""

    batches: list[BatchResult]
    findings: list[Finding] = field(default_factory=list)
    other_writers: int = 0
    """How many visible records between those of the batches no receipt names."""

    @property
    def verdict(self) -> Verdict:
        if not self.batches:
            return verdict_of(self.findings) if self.findings else Verdict.NOT_PROVABLE
        return verdict_of([*self.findings, *(each for one in self.batches for each in one.findings)])

    def to_json(self) -> dict[str, Any]:
        """Return plain values, for programs."""
        return {
            "version": 1,
            "verdict": self.verdict.value,
            "other_writers": self.other_writers,
            "findings": [each.to_json() for each in self.findings],
            "batches": [each.to_json() for each in self.batches],
        }
