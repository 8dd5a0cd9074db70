"""Say which known bugs of Kafka's transactions a cluster may have, by the versions of its brokers.

Pure. A broker does not tell its patch version: the version here is the oldest Kafka that offers the same
requests. So a finding says "may have". Invariant: a bug without a release that corrects it is never left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from penstock.doctor.facts import BrokerFacts
from penstock.doctor.findings import Finding, good, warning


class _Bug(NamedTuple):
    """A bug of transaction protocol 2. `last` is the last minor version that may have it; None: not known."""

    issue: str
    effect: str
    last: tuple[int, int] | None


_SUBJECT = "bugs of the brokers"
_IF_IT_HAPPENS = (
    "If a query stops with such an error, start it again: it finishes or repeats its batch. If a transaction "
    "hangs, `penstock transactions list` shows it."
)
_FIRST = (4, 0)
"""Clusters use transaction protocol 2 from this version on."""
_BUGS = (
    _Bug("KAFKA-19367", "a transactional id whose epochs are used up cannot be taken", (4, 0)),
    _Bug("KAFKA-19999", "a transaction hangs in PREPARE, and readers wait for ever", (4, 1)),
    _Bug("KAFKA-20090", "the coordinator fails at the last epoch of a transactional id", (4, 2)),
    _Bug("KAFKA-20785", "a commit that meets the time-out of its transaction gets a fatal error", None),
    _Bug("KAFKA-20310 and KAFKA-20357", "a take-over that meets a fail-over is refused as fenced", None),
)


def broker_bug_findings(brokers: Sequence[BrokerFacts]) -> Iterator[Finding]:
    """Warn of bugs that endanger transactions, once for the cluster."""
    versions = [version for each in brokers if (version := _version(each)) is not None]
    if not versions:
        return
    oldest = min(versions)
    if oldest < _FIRST:
        return
    shown = ".".join(map(str, oldest))
    found = [each for each in _BUGS if each.last is None or oldest <= each.last]
    text = "; ".join(f"{each.effect} ({each.issue})" for each in found)
    text = f"Kafka {shown} may have known bugs of its transactions: {text}."
    if any(each.last is not None for each in found):
        yield warning(_SUBJECT, text, f"Update the brokers to the newest release of Kafka. {_IF_IT_HAPPENS}")
    else:
        yield good(_SUBJECT, f"none that a newer release corrects. {text} {_IF_IT_HAPPENS}")


def _version(broker: BrokerFacts) -> tuple[int, int] | None:
    if broker.error or broker.kafka_version is None:
        return None
    numbers = broker.kafka_version.split(".")[:2]
    return (
        (int(numbers[0]), int(numbers[1])) if len(numbers) == 2 and all(map(str.isdigit, numbers)) else None
    )
