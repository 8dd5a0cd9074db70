"""Compare penstock's answer to a script with Flink's.

Invariant: what penstock serves is equal to Flink's table, or the script says at its head how it differs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.judges.sql.corpus import Answer, Script, wanted
from tests.judges.sql.outcomes import Outcome
from tests.spark.sql_answers import same, same_type

_TOO_BUSY = "Python worker failed to connect back"
_SIGNS = (">=", "=")
_SAME = {("streaming", "timestamp", "TIMESTAMP")}
"""A watermark of Spark is for TIMESTAMP with a zone only, so a time attribute has that type in a stream."""


def judged(  # noqa: PLR0911 - one for each outcome
    script: Script, mode: str, given: Answer
) -> tuple[Outcome, str]:
    """Return how an answer of penstock compares with Flink's, and why it is not equal."""
    flinks = wanted(script, mode)
    if flinks is None:
        return Outcome.UNASKED, "FLINK=1 python -m tests.judges.sql --missing"
    if "crashed" in given:
        return Outcome.DIFFERENT, f"it failed without a message of penstock: {given['crashed']}"
    message = given.get("refused") or given.get("failed")
    if "error" in flinks:
        if message:
            return Outcome.REFUSED_BY_BOTH, message
        kinder = script.mark("kinder", mode)
        return (Outcome.KINDER, kinder) if kinder else (Outcome.DIFFERENT, f"Flink fails: {flinks['error']}")
    if message:
        return Outcome.REFUSED, message
    difference = _wrong_mark(script, mode, flinks) or _difference(script, mode, given, flinks)
    if not difference:
        return Outcome.EQUAL, ""
    listed = script.mark("differs", mode)
    return (Outcome.LISTED, listed) if listed else (Outcome.DIFFERENT, difference)


def judged_in_batches(script: Script, answers: Mapping[int, Answer]) -> tuple[Outcome, str]:
    """Return how the answers of a stream compare with Flink's; it is different if they depend on the batches.

    Args:
        script: the script.
        answers: by the number of micro-batches.
    """
    (first, one), *others = answers.items()
    outcome, why = judged(script, "streaming", one)
    if outcome is Outcome.DIFFERENT:
        return outcome, f"in {_batches(first)}: {why}"
    for count, other in others:
        found, said = judged(script, "streaming", other)
        if found is not outcome:
            return Outcome.DIFFERENT, f"in {_batches(count)} and not in {_batches(first)}: {said}"
        if outcome is not Outcome.EQUAL and _sorted(other) != _sorted(one):
            rows = f"\n  {_sorted(other)}\n  {_sorted(one)}"
            return Outcome.DIFFERENT, f"{_batches(count)} give other rows than {_batches(first)}:{rows}"
    return outcome, why


def was_too_busy(answer: Answer) -> bool:
    """Return whether a query failed because Spark waited in vain for the start of a Python.

    This says something of the machine, and nothing of the script.
    """
    return _TOO_BUSY in answer.get("failed", "")


def _batches(count: int) -> str:
    return f"{count} micro-batch{'es' if count > 1 else ''}"


def _sorted(answer: Answer) -> list[Any]:
    return sorted(answer.get("rows", []), key=json.dumps)


def _difference(script: Script, mode: str, given: Answer, flinks: Answer) -> str:
    names, kinds = ([each[index] for each in flinks["columns"]] for index in (0, 1))
    if [name for name, _ in given["columns"]] != names:
        return f"columns {given['columns']}, Flink {flinks['columns']}"
    pairs = [(mine[1], kind) for mine, kind in zip(given["columns"], kinds, strict=True)]
    if not all(same_type(*pair) or (mode, *pair) in _SAME for pair in pairs):
        return f"types {pairs}"
    rows, expected = given["rows"], _closed(script, mode, flinks)
    if mode != "batch" or script.mark("ordered", mode) is None:
        rows, expected = sorted(rows, key=json.dumps), sorted(expected, key=json.dumps)
    if len(rows) == len(expected) and all(
        all(map(same, row, other, kinds)) for row, other in zip(rows, expected, strict=True)
    ):
        return ""
    return f"\n  {rows}\n  Flink {expected}"


def _wrong_mark(script: Script, mode: str, flinks: Answer) -> str:
    """Return what is wrong with the mark `open`; "" if nothing."""
    names = [name for name, _ in flinks["columns"]]
    if all(len(each) == 3 and each[0] in names and each[1] in _SIGNS for each in _open(script, mode)):
        return ""
    return f"`-- open:` takes a column of {names}, one of {_SIGNS}, and a value"


def _closed(script: Script, mode: str, flinks: Answer) -> list[Any]:
    """Return the rows of Flink without those of windows that a bounded stream of Spark leaves open."""
    if mode == "batch":
        return list(flinks["rows"])
    names = [name for name, _ in flinks["columns"]]

    def is_open(row: list[Any], column: str, sign: str, value: str) -> bool:
        given = row[names.index(column)]
        if given is None:
            return False
        limit = type(given)(value)
        return bool(given >= limit if sign == ">=" else given == limit)

    marks = _open(script, mode)
    return [row for row in flinks["rows"] if not any(is_open(row, *each) for each in marks)]


def _open(script: Script, mode: str) -> list[list[str]]:
    text = script.mark("open", mode)
    return [each.split() for each in text.split(" or ")] if text else []
