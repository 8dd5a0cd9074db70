"""Values at the edges of Arrow's types, where its functions give wrong ones: right, or an error. Without Spark."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import RowError, SqlError
from penstock.sql.emit.arrow_rows import DayFormat
from penstock.sql.emit.arrow_types import NotServedError
from penstock.sql.emit.arrow_values import Applied
from tests.unit.sql.test_arrow import query_of_plan

DAY = 86_400_000_000
FIRST_DAY, LAST_DAY = (
    int(np.datetime64(day, "D").astype(np.int64)) for day in ("-32766-01-01", "32767-12-31")
)
"""The days of which the parts are served."""
PARTS = ("YEAR", "QUARTER", "MONTH", "DAYOFMONTH", "DAYOFYEAR", "WEEK")


def values_of(text: str, kind: str, array: pa.Array) -> list[Any]:
    """Return an expression of the column x for each of its values."""
    found = query_of_plan(f"SELECT {text} AS y FROM t", f"x {kind}")(pa.RecordBatch.from_pydict({"x": array}))
    values: list[Any] = found["y"].to_pylist()
    return values


def dates(*days: int | None) -> pa.Array:
    return pa.array(days, pa.int32()).view(pa.date32())


def times(*microseconds: int | None) -> pa.Array:
    return pa.array(microseconds, pa.int64()).view(pa.timestamp("us"))


def parts_of(days: np.ndarray) -> dict[str, list[int]]:
    """Return the parts of days as numpy finds them, whose years have 64 bits."""

    def day_of_year(each: np.ndarray) -> np.ndarray:
        found: np.ndarray = (each - each.astype("datetime64[Y]").astype("datetime64[D]")).astype(int)
        return found

    dates = days.astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    number = months.astype(int)
    thursday = dates + (3 - (days + 3) % 7)
    found = {
        "YEAR": number // 12 + 1970,
        "QUARTER": number % 12 // 3 + 1,
        "MONTH": number % 12 + 1,
        "DAYOFMONTH": (dates - months.astype("datetime64[D]")).astype(int) + 1,
        "DAYOFYEAR": day_of_year(dates) + 1,
        "WEEK": day_of_year(thursday) // 7 + 1,
    }
    return {name: each.tolist() for name, each in found.items()}


def test_a_part_of_a_date_is_right_up_to_the_first_and_the_last_year_that_is_served() -> None:
    days = np.concatenate(
        [
            np.arange(FIRST_DAY, FIRST_DAY + 1500),
            np.arange(LAST_DAY - 1500, LAST_DAY + 1),
            np.random.default_rng(5).integers(FIRST_DAY, LAST_DAY, 1000),
        ]
    )
    for name, wanted in parts_of(days).items():
        assert values_of(f"{name}(x)", "DATE", dates(*days.tolist(), None)) == [*wanted, None], name
        ends = times(*(days * DAY + DAY - 1).tolist(), None)
        assert values_of(f"{name}(x)", "TIMESTAMP(6)", ends) == [*wanted, None], name


@pytest.mark.parametrize("text", [*(f"{name}(x)" for name in PARTS), "EXTRACT(WEEK FROM x)"])
def test_a_part_of_a_date_outside_of_the_years_of_arrow_is_an_error(text: str) -> None:
    message = "expected a time of the years -32766 to 32767, got one of another year. Nothing of the trans"
    year_55840 = 1_700_000_000_000_000_000
    far = (year_55840, -year_55840, FIRST_DAY * DAY - 1, (LAST_DAY + 1) * DAY, 2**63 - 1, -(2**63))
    for each in far:
        with pytest.raises(RowError, match=message):
            values_of(text, "TIMESTAMP(6)", times(0, None, each))
    for each in (FIRST_DAY - 1, LAST_DAY + 1, 2**31 - 1, -(2**31), *(each // DAY for each in far)):
        with pytest.raises(RowError, match=message):
            values_of(text, "DATE", dates(None, each, 0))
    assert values_of(text, "DATE", dates(None, None)) == [None, None]
    assert values_of(text, "TIMESTAMP(6)", times()) == []


def test_a_day_that_begins_before_all_times_is_an_error() -> None:
    first = -(2**63) // DAY + 1
    found = values_of("FLOOR(x TO DAY) = x", "TIMESTAMP(6)", times(first * DAY, first * DAY + 1, None))
    assert found == [True, False, None]
    for text in ("CAST(x AS DATE) IS NULL", "FLOOR(x TO DAY) IS NULL"):
        assert values_of(text, "TIMESTAMP(6)", times(first * DAY)) == [False]
        for each in (first * DAY - 1, -(2**63)):
            with pytest.raises(RowError, match="expected a time whose day begins within a TIMESTAMP, got an"):
                values_of(text, "TIMESTAMP(6)", times(0, each))


@pytest.mark.parametrize(
    ("text", "kind", "array"),
    [
        ("CAST(x AS STRING)", "TIMESTAMP(6)", times(253_402_300_800_000_000)),
        ("DATE_FORMAT(x, 'yyyy HH')", "TIMESTAMP(6)", times(-62_135_596_800_000_001)),
        ("CAST(x AS STRING)", "DATE", dates(2_932_897)),
    ],
)
def test_a_text_of_a_time_outside_of_the_years_1_to_9999_is_an_error(
    text: str, kind: str, array: pa.Array
) -> None:
    with pytest.raises(RowError, match="Filter such rows, or run the INSERT in micro-batches"):
        values_of(text, kind, array)


def test_a_text_of_a_day_is_that_of_spark_in_all_years() -> None:
    """The texts are those of `CAST(x AS STRING)` in Spark; `tests/spark/test_exchange.py` asks it."""
    given = times(0, None, -1, 253_402_300_800_000_000, -62_135_596_800_000_001, -62_198_755_200_000_000)
    found = values_of("DATE_FORMAT(x, 'yyyy-MM-dd')", "TIMESTAMP(6)", given)
    assert found == ["1970-01-01", None, "1969-12-31", "+100-0--1-", "0000-12-31", "-000--0--0"]
    assert values_of("DATE_FORMAT(x, 'dd/MM')", "TIMESTAMP(6)", times(None, 86_400_000_000)) == [
        None,
        "02/01",
    ]
    assert values_of("DATE_FORMAT(x, 'dd')", "TIMESTAMP(6)", times()) == []


def test_a_day_of_a_time_with_a_zone_is_that_of_spark_in_all_years() -> None:
    """The texts are those of Spark's date_format, which `tests/spark/test_sql_texts.py` asks."""
    given = times(0, None, -1, 253_402_300_800_000_000, -62_135_596_800_000_001, -62_198_755_200_000_000)
    found = DayFormat(("yyyy", "-", "MM", "-", "dd"))(given)
    assert found.to_pylist() == [
        "1970-01-01",
        None,
        "1969-12-31",
        "+10000-01-01",
        "0000-12-31",
        "-0001-01-01",
    ]
    assert DayFormat(("dd", "/", "MM"))(times(None, 86_400_000_000)).to_pylist() == [None, "02/01"]


@pytest.mark.parametrize(
    ("pattern", "parts"),
    [
        ("yyyy-MM-dd", ("yyyy", "-", "MM", "-", "dd")),
        ("dd.MM yyyy", ("dd", ".", "MM", " ", "yyyy")),
        ("yyyy", ("yyyy",)),
    ],
)
def test_a_day_of_a_time_with_a_zone_is_served_in_utc_alone(pattern: str, parts: tuple[str, ...]) -> None:
    text = f"DATE_FORMAT(x, '{pattern}')"
    with pytest.raises(NotServedError, match="DATE_FORMAT"):
        query_of_plan(f"SELECT {text} AS y FROM t", "x TIMESTAMP_LTZ(3)")
    query = query_of_plan(f"SELECT {text} AS y FROM t", "x TIMESTAMP_LTZ(3)", is_utc=True)
    assert [each.function for each in query.values() if isinstance(each, Applied)] == [DayFormat(parts)]


@pytest.mark.parametrize("pattern", ["yyyy-MM-dd HH", "mm", "SSS"])
def test_a_clock_of_a_time_with_a_zone_is_not_served(pattern: str) -> None:
    with pytest.raises(NotServedError, match="DATE_FORMAT"):
        query_of_plan(f"SELECT DATE_FORMAT(x, '{pattern}') AS y FROM t", "x TIMESTAMP_LTZ(3)", is_utc=True)


def test_a_float_after_the_largest_int_is_an_error() -> None:
    largest = float(np.nextafter(np.float32(2**31), np.float32(0)))
    found = values_of("CAST(x AS INT)", "FLOAT", pa.array([largest, -(2.0**31), -1.5, None], pa.float32()))
    assert found == [2_147_483_520, -(2**31), -1, None]
    for each in (2.0**31, -(2.0**31) - 256):
        with pytest.raises(RowError, match="does not fit its type int32"):
            values_of("CAST(x AS INT)", "FLOAT", pa.array([each], pa.float32()))


def test_a_decimal_without_whole_digits_is_cut_to_zero() -> None:
    for digits in (1, 4, 38):
        most = Decimal(f"0.{'9' * digits}")
        array = pa.array([most, most.copy_negate(), None], pa.decimal128(digits, digits))
        for target in ("TINYINT", "SMALLINT", "INT", "BIGINT"):
            assert values_of(f"CAST(x AS {target})", f"DECIMAL({digits}, {digits})", array) == [0, 0, None]


def test_a_decimal_with_30_digits_fits_exactly() -> None:
    fits, too_large = Decimal("9" * 30 + ".4"), Decimal("9" * 30 + ".5")
    array = pa.array([fits, fits.copy_negate(), None], pa.decimal128(31, 1))
    nines = Decimal("9" * 30)
    found = values_of("CAST(x AS DECIMAL(30, 0))", "DECIMAL(31, 1)", array)
    assert found == [nines, nines.copy_negate(), None]
    for each in (too_large, too_large.copy_negate()):
        with pytest.raises(RowError, match="has too many digits"):
            values_of("CAST(x AS DECIMAL(30, 0))", "DECIMAL(31, 1)", pa.array([each], pa.decimal128(31, 1)))


@pytest.mark.parametrize("text", ["CAST(x AS DECIMAL(38, 2))", "CAST(CAST(x AS DECIMAL(38, 2)) AS STRING)"])
def test_a_decimal_that_needs_more_than_38_digits_is_an_error(text: str) -> None:
    """Arrow's cast makes 791528992371846096098761777046953656.32 of the first one."""
    for each in (Decimal("11" + "0" * 36), Decimal("-18" + "0" * 36), Decimal("9" * 38)):
        with pytest.raises(RowError, match="does not fit its type"):
            values_of(text, "DECIMAL(38, 0)", pa.array([each], pa.decimal128(38, 0)))
    fits = [Decimal("9" * 36), Decimal(-1), None]
    found = values_of("CAST(x AS DECIMAL(38, 2))", "DECIMAL(38, 0)", pa.array(fits, pa.decimal128(38, 0)))
    assert found == fits


def test_a_text_with_very_many_digits_is_read_or_is_wrong() -> None:
    zeros, nines = "0" * 5000, "9" * 5000
    given = pa.array([f"-{zeros}12", f"{zeros}.5", zeros, nines, f"+{nines}.9", str(2**63), str(-(2**63))])
    found = values_of("TRY_CAST(x AS BIGINT)", "STRING", given)
    assert found == [-12, 0, 0, None, None, None, -(2**63)]
    with pytest.raises(RowError, match="expected a text with a number of the type int64"):
        values_of("CAST(x AS BIGINT)", "STRING", pa.array([nines]))


def test_a_separator_that_ends_a_quoted_text_is_served() -> None:
    assert values_of(r"SPLIT_INDEX(x, '\E', 1)", "STRING", pa.array([r"a\Eb"])) == ["b"]
    assert values_of(r"SPLIT_INDEX(x, 'a\Eb', 1)", "STRING", pa.array([r"1a\Eb2", r"a\E"])) == ["2", None]
    assert values_of(r"SPLIT_INDEX(x, '\', 1)", "STRING", pa.array(["a\\Eb"])) == ["Eb"]


def test_an_index_that_is_no_int_is_refused() -> None:
    assert values_of("SPLIT_INDEX(x, ',', 2147483647)", "STRING", pa.array(["a,b"])) == [None]
    with pytest.raises(NotServedError, match=r"SPLIT_INDEX of \(STRING, STRING, BIGINT\)"):
        query_of_plan("SELECT SPLIT_INDEX(x, ',', 2147483648) AS y FROM t", "x STRING")


@pytest.mark.parametrize("name", ["GREATEST", "LEAST"])
def test_an_extreme_of_one_value_is_refused(name: str) -> None:
    with pytest.raises(SqlError, match=f"{name} takes at least 2 arguments, got 1"):
        query_of_plan(f"SELECT {name}(x) AS y FROM t", "x INT")
