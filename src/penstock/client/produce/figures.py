"""Figures of a producer: how much it sent, how long the brokers took, how often it sent again.

Runs on the executor, and on the driver, which adds up the tasks of a batch. Pure. Invariant: nothing is
counted for each record.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass


@dataclass(frozen=True, slots=True)
class ProduceFigures:
    """Totals since a producer was made, or of one task if two of them are subtracted.

    Attributes:
        records: acknowledged records.
        batch_bytes: the acknowledged record batches, compressed.
        plain_bytes: the record batches before compression, acknowledged or not.
        requests: answered Produce requests.
        request_ms: the sum of the times from sending one to its answer.
        resends: record batches that were sent again.
    """

    records: int = 0
    batch_bytes: int = 0
    plain_bytes: int = 0
    requests: int = 0
    request_ms: int = 0
    resends: int = 0

    def __add__(self, other: ProduceFigures) -> ProduceFigures:
        return ProduceFigures(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def __sub__(self, other: ProduceFigures) -> ProduceFigures:
        return ProduceFigures(*(a - b for a, b in zip(astuple(self), astuple(other), strict=True)))


NO_FIGURES = ProduceFigures()
