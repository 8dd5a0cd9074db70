"""The judge of scripts finds what differs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.judges.sql import corpus, judged
from tests.judges.sql.corpus import Script
from tests.judges.sql.outcomes import Outcome

COLUMNS = [["b", "TIMESTAMP"], ["n", "BIGINT"]]
MINE = [["b", "timestamp_ntz"], ["n", "bigint"]]
ROWS = [["2026-01-01T00:00:00", 1], ["2026-03-01T00:00:00", 2]]
OPEN = {("open", ""): "b >= 2026-03-01"}


def outcome(
    monkeypatch: pytest.MonkeyPatch,
    given: dict[str, Any],
    flinks: dict[str, Any] | None,
    marks: dict[tuple[str, str], str] | None = None,
    mode: str = "streaming",
) -> Outcome:
    monkeypatch.setattr(judged, "wanted", lambda *_: flinks)
    return judged.judged(Script("x", "SELECT 1;", marks or {}), mode, given)[0]


@pytest.mark.parametrize(
    ("rows", "columns", "marks", "found"),
    [
        (ROWS, MINE, {}, Outcome.EQUAL),
        (ROWS[::-1], MINE, {}, Outcome.EQUAL),
        (ROWS[::-1], MINE, {("ordered", ""): ""}, Outcome.EQUAL),
        (ROWS[:1], MINE, {}, Outcome.DIFFERENT),
        ([*ROWS, ROWS[0]], MINE, {}, Outcome.DIFFERENT),
        ([ROWS[0], [ROWS[1][0], 3]], MINE, {}, Outcome.DIFFERENT),
        (ROWS[:1], MINE, OPEN, Outcome.EQUAL),
        (ROWS, MINE, OPEN, Outcome.DIFFERENT),
        (ROWS[1:], MINE, {("open", ""): "b >= 2027 or n = 1"}, Outcome.EQUAL),
        (ROWS, MINE, {("open", ""): "x >= 2027"}, Outcome.DIFFERENT),
        (ROWS, MINE, {("open", ""): "b > 2027"}, Outcome.DIFFERENT),
        (ROWS, [["b", "timestamp"], MINE[1]], {}, Outcome.EQUAL),
        (ROWS, [MINE[0], ["n", "int"]], {}, Outcome.DIFFERENT),
        (ROWS, [MINE[0], ["m", "bigint"]], {}, Outcome.DIFFERENT),
        (ROWS[:1], MINE, {("differs", ""): "why"}, Outcome.LISTED),
        (ROWS[:1], MINE, {("differs", "batch"): "why"}, Outcome.DIFFERENT),
    ],
)
def test_tables_are_compared(
    monkeypatch: pytest.MonkeyPatch, rows: Any, columns: Any, marks: Any, found: Outcome
) -> None:
    flinks = {"columns": COLUMNS, "rows": ROWS}
    assert outcome(monkeypatch, {"columns": columns, "rows": rows}, flinks, marks) is found


def test_the_order_and_open_windows_count_in_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    flinks, turned = {"columns": COLUMNS, "rows": ROWS}, {"columns": MINE, "rows": ROWS[::-1]}
    ordered = {("ordered", ""): ""}
    assert outcome(monkeypatch, turned, flinks, ordered, "batch") is Outcome.DIFFERENT
    assert outcome(monkeypatch, turned, flinks, OPEN, "batch") is Outcome.EQUAL


def test_refusals_and_failures_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    table = {"columns": COLUMNS, "rows": ROWS}
    mine = {"columns": MINE, "rows": ROWS}
    assert outcome(monkeypatch, {"refused": "no"}, table) is Outcome.REFUSED
    assert outcome(monkeypatch, {"failed": "no"}, {"error": "no"}) is Outcome.REFUSED_BY_BOTH
    assert outcome(monkeypatch, mine, {"error": "no"}) is Outcome.DIFFERENT
    assert outcome(monkeypatch, mine, {"error": "no"}, {("kinder", ""): "why"}) is Outcome.KINDER
    assert outcome(monkeypatch, {"crashed": "Py4JJavaError"}, {"error": "no"}) is Outcome.DIFFERENT
    assert outcome(monkeypatch, mine, None) is Outcome.UNASKED


def test_a_digest_changes_with_the_script_and_not_with_its_marks() -> None:
    script = corpus.SCRIPTS["cdc_group"]
    marked = Script(script.name, f"-- differs: why\n{script.text}", {})
    changed = Script(script.name, script.text.replace("SUM(qty)", "SUM(id)"), {})
    assert marked.asked == script.asked != changed.asked


def test_a_table_that_depends_on_the_number_of_micro_batches_is_different(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flinks = {"columns": COLUMNS, "rows": ROWS}
    monkeypatch.setattr(judged, "wanted", lambda *_: flinks)
    good, bad = {"columns": MINE, "rows": ROWS}, {"columns": MINE, "rows": ROWS[:1]}

    def found(*answers: dict[str, Any], **marks: str) -> tuple[Outcome, str]:
        script = Script("x", "SELECT 1;", {(word, ""): why for word, why in marks.items()})
        return judged.judged_in_batches(script, dict(zip((1, 4, 40), answers, strict=False)))

    assert found(good, good, good) == (Outcome.EQUAL, "")
    outcome, why = found(good, good, bad)
    assert outcome is Outcome.DIFFERENT
    assert why.startswith("in 40 micro-batches and not in 1 micro-batch: ")
    assert why.endswith(f"\n  {ROWS[:1]}\n  Flink {ROWS}")
    assert found(bad, good)[1].startswith("in 1 micro-batch: ")
    assert found(good, {"failed": "the row is not there"}) == (
        Outcome.DIFFERENT,
        "in 4 micro-batches and not in 1 micro-batch: the row is not there",
    )
    assert found(bad, bad, differs="why") == (Outcome.LISTED, "why")
    outcome, why = found(bad, {"columns": MINE, "rows": ROWS[1:]}, differs="why")
    assert outcome is Outcome.DIFFERENT
    assert why.startswith("4 micro-batches give other rows than 1 micro-batch:")
    assert found({"refused": "no"}) == (Outcome.REFUSED, "no")


@pytest.mark.parametrize(("batches", "limit"), [(1, None), (4, 4), (5, 3), (40, 1)])
def test_topics_are_cut_into_micro_batches_by_their_records(batches: int, limit: int | None) -> None:
    locations = corpus.Locations("b:9092", "in-", "made-", "/f", batches)
    orders = corpus.TABLES["orders"]
    option = f"'scan.max-records-per-batch' = '{limit}'"
    assert corpus.records_of("orders") == 15
    assert (option in locations.fill(orders)) is (limit is not None)
    assert ("max-records" in locations.fill(orders)) is (limit is not None)


@pytest.mark.parametrize(
    ("answer", "is_of_machine"),
    [
        ({"failed": "[STREAM_FAILED] Query terminated: Python worker failed to connect back. SQLSTATE: XXKST"}, True),
        ({"failed": "[DIVIDE_BY_ZERO] Division by zero."}, False),
        ({"columns": [], "rows": []}, False),
    ],
)  # fmt: skip
def test_what_a_busy_machine_stopped_has_no_outcome(answer: dict[str, Any], *, is_of_machine: bool) -> None:
    assert judged.was_too_busy(answer) is is_of_machine
