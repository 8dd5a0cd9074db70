"""The answers to a question about many keys: a value or an error for each.

Runs on driver and executor. Imports no networking, so that planning and its fakes can use it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from penstock.errors import PenstockError
from penstock.types import TopicPartition

K = TypeVar("K")
V = TypeVar("V")

_NAMED_MAX = 5


@dataclass
class Results(Generic[K, V]):
    """A value or an error for each key that was asked about, e.g. `values={orders-0: 42}`."""

    values: dict[K, V] = field(default_factory=dict)
    errors: dict[K, PenstockError] = field(default_factory=dict)

    def value_or_raise(self, key: K) -> V:
        if key in self.errors:
            raise self.errors[key]
        return self.values[key]

    def all_or_raise(self: Results[TopicPartition, V], what: str) -> dict[TopicPartition, V]:
        """Return the values if none failed; otherwise raise the first error, naming how many more there are.

        Args:
            what: the question, e.g. "Listing offsets".
        """
        if not self.errors:
            return self.values
        failed = sorted(self.errors)
        first = self.errors[failed[0]]
        if len(failed) == 1:
            raise first
        names = ", ".join(map(str, failed[:_NAMED_MAX])) + (", ..." if len(failed) > _NAMED_MAX else "")
        text = f"{what} failed for {len(failed)} topic partitions ({names}). The first: {first}"
        raise type(first)(text, **{**first.facts, "topic_partitions": failed})
