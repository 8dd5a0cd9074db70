"""`aggregate` against plain Python over the table that the changelog gives."""

from __future__ import annotations

import math
import random
from collections import Counter
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.changelog.operators.aggregate import Aggregate
from penstock.changelog.operators.calls import parse_calls
from penstock.errors import RowError, SchemaError
from tests.examples import examples
from tests.unit.changelog.histories import apply, changelog, in_batches
from tests.unit.changelog.running import Row, Running, as_changelog

COLUMNS = pa.schema(
    [
        ("g", pa.string()),
        ("h", pa.int32()),
        ("i", pa.int64()),
        ("d", pa.decimal128(12, 2)),
        ("f", pa.float64()),
        ("s", pa.string()),
    ]
)
WITH_KIND = COLUMNS.append(pa.field("row_kind", pa.string()))
CALLS = {
    "n": "count(*)",
    "some": "count(i)",
    "i_sum": "sum(i)",
    "d_sum": "sum(d)",
    "f_sum": "sum(f)",
    "i_avg": "avg(i)",
    "low": "min(s)",
    "high": "max(d)",
    "different": "count(DISTINCT s)",
    "i_once": "sum(distinct i)",
    "d_once": "sum(DISTINCT d)",
    "f_once": "sum(distinct f)",
    "first_s": "first(s order by d)",
    "last_s": "last(s ORDER BY d)",
    "sorted": "listagg(s)",
    "by_d": "listagg(s, ', ' order by d)",
}


def running(calls: dict[str, str] | None = None, keys: tuple[str, ...] = ("g", "h")) -> Running:
    return Running(Aggregate(COLUMNS, keys, tuple(parse_calls(calls or CALLS))), WITH_KIND)


def make(chance: random.Random) -> Row:
    return {
        "g": chance.choice(["a", None]),
        "h": chance.randint(0, 1),
        "i": chance.choice([None, 1, -(2**50), 2**55]),
        "d": chance.choice([Decimal("0.10"), Decimal("0.20"), Decimal("-9999999999.99")]),
        "f": chance.choice([None, 0.5, -4.25, chance.choice([float("nan"), float("inf"), float("-inf")])]),
        "s": chance.choice([None, "", "x", "y"]),
    }


def once(numbers: list[float]) -> set[float]:
    """Return the different numbers: NaN equals NaN."""
    return {float("nan")} if any(map(math.isnan, numbers)) else set(numbers)


def reference(rows: list[Row]) -> Row:
    def of(name: str) -> list[Any]:
        return [row[name] for row in rows if row[name] is not None]

    ordered = sorted((row["d"], row["s"]) for row in rows if row["s"] is not None)
    return {
        "n": len(rows),
        "some": len(of("i")),
        "i_sum": sum(of("i")) if of("i") else None,
        "d_sum": sum(of("d"), Decimal("0.00")) if of("d") else None,
        "f_sum": str(float(sum(of("f"))) if of("f") else None),  # NaN equals NaN as text
        "i_avg": float(sum(of("i"))) / len(of("i")) if of("i") else None,
        "low": min(of("s"), default=None),
        "high": max(of("d"), default=None),
        "different": len(set(of("s"))),
        "i_once": sum(set(of("i"))) if of("i") else None,
        "d_once": sum(set(of("d")), Decimal("0.00")) if of("d") else None,
        "f_once": str(float(sum(once(of("f")))) if of("f") else None),
        "first_s": ordered[0][1] if ordered else None,
        "last_s": ordered[-1][1] if ordered else None,
        "sorted": ",".join(sorted(of("s"))) if ordered else None,
        "by_d": ", ".join(s for _, s in ordered) if ordered else None,
    }


@settings(max_examples=examples(20))
@given(seed=st.integers(0, 10_000), length=st.integers(1, 60))
def test_it_is_the_aggregate_of_the_table(seed: int, length: int) -> None:
    chance = random.Random(seed)
    tested = running()
    table: list[Row] = []
    result: list[Row] = []
    for batch in in_batches(chance, changelog(chance, length, make), 5):
        apply(table, batch)
        texts = ("f_sum", "f_once")
        out = [{**row, **{name: str(row[name]) for name in texts}} for row in tested.step(batch)]
        result = as_changelog([*({**row, "row_kind": "+I"} for row in result), *out])["rows"]
        groups = {(row["g"], row["h"]) for row in table}
        expected = [
            {"g": g, "h": h, **reference([row for row in table if (row["g"], row["h"]) == (g, h)])}
            for g, h in groups
        ]
        assert Counter(map(str, result)) == Counter(map(str, expected))


def row(kind: str, **values: Any) -> Row:
    return {**dict.fromkeys(COLUMNS.names), "g": "a", "h": 1, **values, "row_kind": kind}


def test_a_group_without_a_change_of_its_aggregates_gives_nothing() -> None:
    tested = running({"high": "max(i)"})
    assert [each["row_kind"] for each in tested.step([row("+I", i=5)])] == ["+I"]
    assert tested.step([row("+I", i=4)]) == []
    out = tested.step([row("-D", i=5)])
    assert [(each["row_kind"], each["high"]) for each in out] == [("-U", 5), ("+U", 4)]
    assert [each["row_kind"] for each in tested.step([row("-D", i=4)])] == ["-D"]
    assert tested.step([row("+I", i=1), row("-D", i=1)]) == []


@pytest.mark.parametrize("wrong", [row("-D", i=1), row("-U", i=1)])
def test_a_row_that_is_not_there_cannot_go(wrong: Row) -> None:
    with pytest.raises(RowError, match="takes away a row that is not there"):
        running({"n": "count(*)"}).step([wrong])
    tested = running({"low": "min(i)"})
    tested.step([row("+I", i=7)])
    with pytest.raises(RowError, match="takes away a row that is not there"):
        tested.step([wrong])


@pytest.mark.parametrize(
    "call", ["sum(i)", "avg(i)", "count(i)", "min(i)", "max(i)", "count(distinct i)", "sum(distinct i)"]
)
def test_a_row_that_goes_without_its_values_is_an_error(call: str) -> None:
    """PostgreSQL with REPLICA IDENTITY DEFAULT tells the key of a deleted row alone."""
    tested = running({"n": "count(*)", "x": call})
    tested.step([row("+I", i=5), row("+I", i=7)])
    with pytest.raises(RowError, match="without the values of its row") as error:
        tested.step([row("-D", i=None)])
    assert "would have 1 rows, and 2 values of the column i" in str(error.value)
    assert not tested.step([row("-D", i=5), row("+I", i=5)])


@pytest.mark.parametrize("call", ["listagg(s)", "first(s order by d)", "last(s order by d)"])
def test_a_row_that_goes_without_its_text_is_an_error(call: str) -> None:
    tested = running({"x": call})
    tested.step([row("+I", s="x", d=Decimal(1)), row("+I", s="x", d=Decimal(1))])
    with pytest.raises(RowError, match="without the values of its row"):
        tested.step([row("-D", s=None, d=None)])


@pytest.mark.parametrize("call", ["sum(i)", "max(i)", "count(distinct i)", "sum(distinct i)"])
def test_a_group_whose_rows_have_all_gone_begins_again(call: str) -> None:
    """Its rows went without their values, which must not count beside those that come later."""
    tested = running({"x": call})
    tested.step([row("+I", i=9), row("+I", i=8)])
    assert [each["row_kind"] for each in tested.step([row("-D", i=None), row("-D", i=None)])] == ["-D"]
    assert not tested.kept(), "nothing is kept of a group without rows"
    (out,) = tested.step([row("+I", i=3)])
    assert (out["x"], out["row_kind"]) == (1 if call.startswith("count") else 3, "+I")


@pytest.mark.parametrize("numbers", [[2**62, 2**62], [-(2**63), -1], [2**63 - 1] * 4, [2**62] * 64])
@pytest.mark.parametrize("batch_count", [1, 2])
def test_a_sum_that_does_not_fit_is_an_error(numbers: list[int], batch_count: int) -> None:
    tested = running({"i_sum": "sum(i)"})
    half = len(numbers) // batch_count
    batches = [numbers[start : start + half] for start in range(0, len(numbers), half)]
    with pytest.raises(RowError, match="does not fit into int64"):
        _ = [tested.step([row("+I", i=number) for number in batch]) for batch in batches]


def test_sums_at_the_ends_of_the_range_are_exact() -> None:
    tested = running({"i_sum": "sum(i)"})
    out = tested.step([row("+I", i=2**63 - 1), row("+I", i=-(2**63)), row("+I", i=2**63 - 1)])
    assert out[-1]["i_sum"] == 2**63 - 2
    assert tested.step([row("-D", i=2**63 - 1)])[-1]["i_sum"] == -1


def test_the_order_of_rows_does_not_change_a_float() -> None:
    rows = [row("+I", f=value) for value in (1e16, 1.0, -1e16, 0.1, 3.0)]
    sums = {
        running({"f_sum": "sum(f)"}).step(order)[0]["f_sum"]
        for order in (rows, rows[::-1], rows[2:] + rows[:2])
    }
    assert len(sums) == 1


def test_a_float_that_does_not_fit_is_an_error() -> None:
    tested = running({"f_sum": "sum(f)"})
    with pytest.raises(RowError, match="does not fit into double"):
        tested.step([row("+I", f=1.7e308), row("+I", f=1.7e308)])


def test_a_decimal_that_does_not_fit_is_an_error() -> None:
    columns = pa.schema([("g", pa.string()), ("d", pa.decimal128(38, 0))])
    tested = Running(Aggregate(columns, ("g",), tuple(parse_calls({"x": "sum(d)"}))), columns)
    with pytest.raises(RowError, match="does not fit into decimal"):
        tested.step([{"g": "a", "d": Decimal(9) * 10**37}] * 2)


def test_a_sort_key_that_is_null_is_an_error() -> None:
    with pytest.raises(RowError, match="'d', which is in the order of an aggregate, is null in 1 rows"):
        running({"x": "first(s order by d)"}).step([row("+I", s="x"), row("+I")])


@settings(max_examples=examples(20))
@given(seed=st.integers(0, 10_000), length=st.integers(1, 40))
def test_the_first_and_the_last_to_arrive(seed: int, length: int) -> None:
    chance = random.Random(seed)
    calls = {"a": "first_arrived(s order by d)", "b": "last_arrived(s order by d)", "n": "count(*)"}
    tested = running(calls)
    found: list[Row] = []
    expected: dict[Any, list[Any]] = {}
    for batch in in_batches(chance, [make(chance) for _ in range(length)], 5):
        out = tested.step([{**each, "row_kind": "+I"} for each in batch])
        found = as_changelog([*({**each, "row_kind": "+I"} for each in found), *out])["rows"]
        for each in sorted(batch, key=lambda each: (each["d"], each["s"] or "")):
            arrived = expected.setdefault((each["g"], each["h"]), [None, None, 0])
            arrived[2] += 1
            if each["s"] is not None:
                arrived[:2] = [each["s"] if arrived[0] is None else arrived[0], each["s"]]
        assert {(each["g"], each["h"]): [each["a"], each["b"], each["n"]] for each in found} == expected
    kept = tested.snapshot.find(tested.all_keys(), 0)
    assert kept.num_rows <= 3 * len(expected), "one value of each kind is kept"


def test_only_inserts_arrive() -> None:
    tested = running({"x": "last_arrived(s order by d)"})
    tested.step([row("+I", s="x", d=Decimal(1))])
    with pytest.raises(RowError, match="take append-only rows"):
        tested.step([row("-D", s="x", d=Decimal(1))])


def test_first_without_an_order_is_refused() -> None:
    with pytest.raises(ValueError, match=r"write last\(s order by \.\.\.\)"):
        list(parse_calls({"x": "last(s)"}))


@pytest.mark.parametrize(
    ("text", "column", "order", "separator"),
    [
        ("listagg(a)", "a", None, ","),
        ("LISTAGG( a , '' )", "a", None, ""),
        ("listagg(a, 'it''s' Order  By b c)", "a", "b c", "it's"),
    ],
)
def test_the_parts_of_listagg(text: str, column: str, order: str | None, separator: str) -> None:
    (call,) = parse_calls({"x": text})
    assert (call.column, call.order, call.separator) == (column, order, separator)


@pytest.mark.parametrize("text", ["sum", "sum()", "sum(*)", "median(i)", "sum(i", "(i)", "first(*)"])
def test_an_aggregate_that_does_not_exist(text: str) -> None:
    with pytest.raises(ValueError, match="expected one of count, sum"):
        list(parse_calls({"x": text}))


def test_a_text_has_no_sum() -> None:
    with pytest.raises(SchemaError, match="Expected a number for sum and avg, got string"):
        _ = Aggregate(COLUMNS, ("g",), tuple(parse_calls({"x": "sum(s)"}))).kept_columns
    with pytest.raises(SchemaError, match="avg of a decimal is not exact"):
        _ = Aggregate(COLUMNS, ("g",), tuple(parse_calls({"x": "avg(d)"}))).out_columns


def test_another_separator_is_another_argument() -> None:
    """Otherwise -U of a restarted query would not be the row that was emitted."""
    texts = ["listagg(s, ',')", "listagg(s, ';')", "listagg(s, ',' order by d)", "listagg(s, 'd')"]
    assert len({running({"l": text}).operator.arguments for text in texts}) == len(texts)


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
@pytest.mark.parametrize("zeros", [(0.0, -0.0), (-0.0, 0.0)])
def test_the_old_row_of_a_group_has_the_key_that_was_emitted(
    zeros: tuple[float, float], kind: pa.DataType
) -> None:
    columns = pa.schema([("f", kind), ("row_kind", pa.string())])
    calls = tuple(parse_calls({"n": "count(*)"}))
    tested = Running(Aggregate(columns.remove(1), ("f",), calls), columns)
    out = [row for zero in zeros for row in tested.step([{"f": zero, "row_kind": "+I"}])]
    assert [(str(row["f"]), row["n"]) for row in out] == [("0.0", 1), ("0.0", 1), ("0.0", 2)]


def test_decimals_of_any_scale_are_summed() -> None:
    columns = COLUMNS.set(COLUMNS.get_field_index("d"), pa.field("d", pa.decimal128(30, 25)))
    calls = tuple(parse_calls({"all": "sum(d)", "once": "sum(distinct d)"}))
    least = Decimal("1E-25")
    for forgets in (False, True):
        operator = Aggregate(columns, ("g",), calls, forgets=forgets)
        tested = Running(operator, columns.append(pa.field("row_kind", pa.string())))
        rows = [{**make(random.Random(1)), "g": "a", "d": d, "row_kind": "+I"} for d in (least, least)]
        [out] = tested.step(rows)
        assert (out["all"], out["once"]) == (2 * least, least)


@pytest.mark.parametrize("call", ["min(f)", "last(f order by i)", "max(f)", "first(f order by f)"])
def test_the_order_of_rows_with_two_zeros_changes_nothing(call: str) -> None:
    row = {**make(random.Random(1)), "g": "a", "i": 1, "row_kind": "+I"}
    rows = [{**row, "f": zero} for zero in (0.0, -0.0)]
    outs = [running({"x": call}, ("g",)).step(each) for each in (rows, rows[::-1])]
    assert str(outs[0]) == str(outs[1]), "a retry gets the rows in another order"
