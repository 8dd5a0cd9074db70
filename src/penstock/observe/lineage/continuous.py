"""Turn the reports of a continuous query into those that a run takes from Spark.

Runs in the user's program. Pure. Invariant: each report counts once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from traceback import format_exception
from types import SimpleNamespace
from typing import Any

from penstock.observe.lineage.run import brief_error

Report = Mapping[str, Any]


def new_reports(recent: Sequence[Report], last: Report | None) -> list[Report]:
    """Return the reports after the last one that was taken.

    Args:
        recent: `ContinuousQuery.recentProgress`, the newest last.
        last: the same object as one of them, or older than all of them; None: none was taken.
    """
    at = next((number for number, each in enumerate(recent) if each is last), -1)
    return list(recent[at + 1 :])


def as_progress(report: Report) -> Any:
    """Return a report with the names that Spark's progress reports have."""
    source = SimpleNamespace(
        startOffset=report["startOffset"], endOffset=report["endOffset"], numInputRows=report["numInputRows"]
    )
    return SimpleNamespace(sources=[source], sink=SimpleNamespace(numOutputRows=report["numOutputRows"]))


def error_text(error: BaseException, *, is_whole: bool) -> str:
    """Return the text of the error that ended a query: all of it, or without what may hold records."""
    text = "".join(format_exception(error))
    kind = type(error)
    return text if is_whole else brief_error(text, f"{kind.__module__}.{kind.__qualname__}")
