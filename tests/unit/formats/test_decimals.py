"""Casts to decimals: the same number as Python's, or an error, for all numbers, texts and types."""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.formats.decimals import exact_cast, has_digits_beyond

_EXACT = Context(prec=200)
WRAPPED = 11 * 10**36
"""Arrow's cast makes 791528992371846096098761777046953656.32 of it in decimal128(38, 2)."""
MONEY = pa.decimal128(38, 2)


@st.composite
def types(draw: st.DrawFn) -> pa.Decimal128Type:
    precision = draw(st.integers(1, 38) | st.just(38))
    return pa.decimal128(precision, draw(st.integers(0, precision)))


def scaled(unscaled: int, scale: int) -> Decimal:
    return Decimal(unscaled).scaleb(-scale, _EXACT)


def fits(number: Decimal, kind: pa.Decimal128Type) -> bool:
    counted = number.scaleb(kind.scale, _EXACT)
    return counted == int(counted) and abs(int(counted)) < 10**kind.precision


def cast_of(column: pa.Array, wanted: pa.DataType) -> Any:
    """Return the values of a cast; None if it is an error."""
    try:
        return exact_cast(column, wanted).to_pylist()
    except pa.ArrowInvalid:
        return None


UNSCALED = st.integers(-(10**38) + 1, 10**38 - 1) | st.builds(
    lambda digits, zeros: digits * 10**zeros, st.integers(-99, 99), st.integers(0, 36)
)


@given(UNSCALED, types(), types())
@example(WRAPPED, pa.decimal128(38, 0), MONEY)
@example(10**38 - 1, pa.decimal128(38, 0), pa.decimal128(38, 38))
def test_a_decimal_becomes_the_same_number_or_is_an_error(
    unscaled: int, given_type: pa.Decimal128Type, wanted: pa.Decimal128Type
) -> None:
    unscaled %= 10**given_type.precision
    for number in (scaled(unscaled, given_type.scale), scaled(-unscaled, given_type.scale)):
        found = cast_of(pa.array([None, number], given_type), wanted)
        assert found == ([None, number] if fits(number, wanted) else None)


@given(UNSCALED | st.integers(-(10**80), 10**80), st.integers(-5, 45), types(), st.sampled_from("fE"))
@example(2**127, 0, pa.decimal128(38, 0), "f")
@example(10**39 - 1, 0, MONEY, "f")
@example(10**60 - 1, 0, pa.decimal128(38, 0), "f")
@example(WRAPPED, 0, MONEY, "E")
def test_a_text_becomes_the_same_number_or_is_an_error(
    unscaled: int, scale: int, wanted: pa.Decimal128Type, form: str
) -> None:
    number = scaled(unscaled, scale)
    found = cast_of(pa.array([None, format(number, form)]), wanted)
    # Arrow refuses some texts that would fit, such as 0 with more digits than the type.
    assert found is None or (found == [None, number] and fits(number, wanted))
    if form == "f" and scale >= 0 and fits(number, wanted) and len(format(number, "f")) <= wanted.scale + 1:
        assert found is not None


@pytest.mark.parametrize(
    "text", ["0.5", "-12.25", "9" * 36 + ".99", "1.5E3", "+7", "0" * 50 + "1.20"], ids=lambda text: text[:8]
)
def test_a_text_that_fits_is_read(text: str) -> None:
    assert cast_of(pa.array([text, None]), MONEY) == [Decimal(text), None]


def _of(kind: pa.DataType, shape: str) -> pa.DataType:
    return {
        "list": pa.list_(kind),
        "large list": pa.large_list(kind),
        "fixed list": pa.list_(kind, 1),
        "struct": pa.struct([("n", kind), ("b", pa.int8())]),
        "map": pa.map_(pa.string(), kind),
        "deep": pa.list_(pa.struct([("m", pa.map_(pa.string(), pa.list_(kind)))])),
    }[shape]


def _value(number: Any, shape: str) -> Any:
    return {
        "struct": {"n": number, "b": 1},
        "map": [("k", number)],
        "deep": [None, {"m": [("k", [None, number])]}],
    }.get(shape, [number])


@pytest.mark.parametrize("shape", ["list", "large list", "fixed list", "struct", "map", "deep"])
@pytest.mark.parametrize("as_text", [False, True], ids=["decimal", "text"])
def test_decimals_within_other_values_are_checked(shape: str, as_text: bool) -> None:
    kind = pa.string() if as_text else pa.decimal128(38, 0)
    wanted = _of(MONEY, "list" if "list" in shape else shape)
    # Arrow also casts the text under a null, which is empty and no number.
    gap = _value(None, shape) if as_text and shape == "struct" else None

    def column(number: int) -> pa.Array:
        given_number = str(number) if as_text else Decimal(number)
        return pa.array([_value(given_number, shape), gap, _value(given_number, shape)], _of(kind, shape))

    fitting = _value(Decimal(7), shape)
    assert cast_of(column(7), wanted) == [fitting, gap, fitting]
    assert cast_of(column(7).slice(1, 2), wanted) == [gap, fitting]
    assert cast_of(column(WRAPPED), wanted) is None
    assert cast_of(column(WRAPPED).slice(2), wanted) is None


def test_fields_of_a_struct_are_found_by_their_names() -> None:
    given_type = pa.struct([("a", pa.decimal128(38, 0)), ("b", pa.int8())])
    wanted = pa.struct([("b", pa.int8()), ("a", MONEY)])
    assert cast_of(pa.array([{"a": Decimal(7), "b": 1}], given_type), wanted) == [{"b": 1, "a": Decimal(7)}]
    assert cast_of(pa.array([{"a": Decimal(WRAPPED), "b": 1}], given_type), wanted) is None


@pytest.mark.parametrize("number", [7, WRAPPED])
def test_texts_and_decimals_of_other_layouts_are_checked(number: int) -> None:
    texts, numbers = pa.array([str(number)]), pa.array([Decimal(number)], pa.decimal128(38, 0))
    layouts = [texts.dictionary_encode(), texts.cast(pa.large_string()), texts.cast(pa.string_view())]
    for each in [*layouts, numbers.dictionary_encode(), numbers.cast(pa.decimal256(40, 0))]:
        assert cast_of(each, MONEY) == ([Decimal(7)] if number == 7 else None)


@given(st.decimals(allow_nan=False, allow_infinity=False) | st.decimals(places=4), st.integers(0, 38))
@example(Decimal("1E-32"), 2)
@example(Decimal("0E-40"), 0)
@example(Decimal("1." + "0" * 500), 0)
def test_digits_behind_those_of_the_type_are_found(number: Decimal, scale: int) -> None:
    if number.is_finite() and -800 < number.adjusted() < 800:
        counted = Context(prec=5000).scaleb(number, scale)
        assert has_digits_beyond(number, scale) == (counted != int(counted))
