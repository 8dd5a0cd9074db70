"""What verify has to say of each history. Runs in tests only."""

from __future__ import annotations

from penstock.observe.verify.found import Report, Verdict
from tests.corruptions.beside import HONEST, UNPROVABLE, Event
from tests.corruptions.histories import History, write_history
from tests.corruptions.planted import CORRUPTIONS


def _changed(seed: int, partitions: int, change: Event) -> tuple[History, Report]:
    """Return a history after a change, and what verify says of it."""
    history = write_history(seed, partitions)
    change(history)
    return history, history.report()


def unprovable_failure(seed: int, name: str, partitions: int = 1) -> str | None:
    """Return what verify has called proven, or a difference; None: nothing."""
    _, report = _changed(seed, partitions, UNPROVABLE[name])
    if report.verdict is not Verdict.NOT_PROVABLE:
        return f"seed {seed}, {partitions}, {name}: {report.verdict.value} {report.to_json()}"
    return None


def honest_failure(seed: int, name: str, partitions: int = 1) -> str | None:
    """Return what verify has invented about an honest history; None: nothing."""
    _, report = _changed(seed, partitions, HONEST[name])
    if report.verdict is Verdict.DIFFERS:
        return f"seed {seed}, {partitions}, {name}: invented {report.to_json()}"
    if name == "nothing" and report.verdict is not Verdict.PROVEN:
        return f"seed {seed}, {partitions}, {name}: not proven {report.to_json()}"
    return None


def corruption_failure(seed: int, name: str, partitions: int = 1) -> str | None:
    """Return what verify has not found, or found in another batch; None: it has found the corruption only."""
    history, report = _changed(seed, partitions, CORRUPTIONS[name])
    if report.verdict is not Verdict.DIFFERS:
        return f"seed {seed}, {partitions}, {name}: not found {report.to_json()}"
    told = {each.receipt.batch_id for each in report.batches if each.verdict is Verdict.DIFFERS}
    if not told <= history.touched:
        return f"seed {seed}, {partitions}, {name}: {told} differ, {history.touched} were touched"
    return None
