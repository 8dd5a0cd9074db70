"""Columns of tables follow those of their source: added, wider, dropped, or an error."""

from __future__ import annotations

import pickle
from dataclasses import replace
from decimal import Decimal
from itertools import permutations
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cdc.columns import EVOLVE, Evolve, Followed, follow, follow_all
from penstock.errors import SchemaError
from penstock.state.followed import common_type, generation

KEYS = ("id",)
ID = pa.field("id", pa.int64(), nullable=False)
TYPES: dict[str, list[pa.DataType]] = {
    "integer": [pa.int8(), pa.int16(), pa.int32(), pa.int64()],
    "float": [pa.float32(), pa.float64()],
    "decimal": [pa.decimal128(4, 2), pa.decimal128(10, 2), pa.decimal128(10, 4), pa.decimal128(38, 30)],
    "other": [
        pa.string(),
        pa.bool_(),
        pa.date32(),
        pa.timestamp("ms"),
        pa.timestamp("us"),
        pa.timestamp("us", "UTC"),
    ],
}
ALL = [kind for family in TYPES.values() for kind in family]


def columns(**types: pa.DataType) -> pa.Schema:
    return pa.schema([ID, *(pa.field(name, kind) for name, kind in types.items())])


schemas = st.dictionaries(
    st.sampled_from("abcd"), st.sampled_from([*TYPES["integer"], *TYPES["decimal"], pa.string()]), max_size=4
).map(lambda types: columns(**types))


def as_dict(schema: pa.Schema) -> dict[str, pa.DataType]:
    return {one.name: one.type for one in schema}


def refused(known: pa.Schema, found: pa.Schema, evolve: Evolve, keys: tuple[str, ...] = KEYS) -> SchemaError:
    with pytest.raises(SchemaError) as caught:
        follow(known, found, evolve, keys, table="public.goods")
    assert "public.goods" in str(caught.value)
    assert "Nothing of this batch was written" in str(caught.value)
    assert pickle.loads(pickle.dumps(caught.value)).facts == caught.value.facts  # noqa: S301 - made here
    return caught.value


def test_a_new_table_has_the_columns_of_its_source_and_only_the_key_is_not_null() -> None:
    found = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string(), nullable=False)])
    for evolve in EVOLVE:
        new = follow(pa.schema([]), found, evolve, KEYS)
        assert [one.nullable for one in new.columns] == [False, True]
        assert new.added == ("id", "name")


def test_a_new_table_has_the_columns_of_all_messages_of_its_first_batch() -> None:
    old = pa.schema([pa.field("id", pa.int32()), pa.field("a", pa.int8())])
    for evolve in EVOLVE:
        new = follow_all(pa.schema([]), [old, columns(a=pa.int16(), b=pa.string())], evolve, KEYS)
        assert new == Followed(
            pa.schema([ID, pa.field("a", pa.int16()), pa.field("b", pa.string())]), added=("id", "a", "b")
        )


def test_equal_columns_change_nothing() -> None:
    known = columns(a=pa.int32())
    for evolve in EVOLVE:
        same = follow(known, known, evolve, KEYS)
        assert same == Followed(known)
        assert not same.is_changed
        assert str(same) == "no change"


@pytest.mark.parametrize("evolve", ["lenient", "evolve"])
def test_a_new_column_is_added_at_the_end_and_may_be_null(evolve: Evolve) -> None:
    found = pa.schema([pa.field("new", pa.string(), nullable=False), ID, pa.field("a", pa.int32())])
    step = follow(columns(a=pa.int32()), found, evolve, KEYS)
    assert step.columns.equals(columns(a=pa.int32(), new=pa.string()))
    assert (step.added, step.is_changed, str(step)) == (("new",), True, "added string new")


def test_exception_refuses_a_new_column_and_a_wider_type() -> None:
    error = refused(columns(a=pa.int32()), columns(a=pa.int32(), new=pa.string()), "exception")
    assert "new in the source" in str(error)
    assert error.facts["column"] == "new"
    error = refused(columns(a=pa.int32()), columns(a=pa.int64()), "exception")
    assert (error.facts["known"], error.facts["found"]) == (pa.int32(), pa.int64())


def test_exception_takes_messages_with_fewer_columns_and_narrower_types() -> None:
    known = columns(a=pa.int64(), b=pa.string())
    step = follow(known, columns(a=pa.int16()), "exception", KEYS)
    assert step == Followed(known, kept=("b",))


def test_ignore_leaves_columns_out_and_types_as_they_are() -> None:
    known = columns(a=pa.int16())
    step = follow_all(known, [columns(a=pa.int64(), new=pa.string()), columns(a=pa.int32())], "ignore", KEYS)
    assert step.columns.equals(known)
    assert (step.ignored, step.is_changed) == (("new",), False)
    assert str(step) == "left out new; left a as int16, which is int64 in the source"
    told = str(replace(step, is_declared=True))
    assert told == "left out new; left a as int16, which is int64 in `columns`"


def test_a_column_that_stays_is_told_of_by_what_it_gets() -> None:
    step = follow(columns(a=pa.int64(), b=pa.string()), columns(a=pa.int64()), "lenient", KEYS)
    assert str(step) == "kept b, which the source does not have any more"
    told = str(replace(step, is_declared=True))
    assert told == "kept b, which is not declared any more and still gets the values of its field"


@pytest.mark.parametrize("evolve", ["lenient", "evolve"])
def test_a_wider_type_widens_the_column_once(evolve: Evolve) -> None:
    step = follow_all(columns(a=pa.int16()), [columns(a=pa.int32()), columns(a=pa.int64())], evolve, KEYS)
    assert step.columns.equals(columns(a=pa.int64()))
    assert str(step) == "widened a from int16 to int64"


@pytest.mark.parametrize("evolve", EVOLVE)
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (pa.int32(), pa.string()),
        (pa.string(), pa.int32()),
        (pa.int64(), pa.float64()),
        (pa.timestamp("us"), pa.timestamp("us", "UTC")),
        (pa.timestamp("ms"), pa.timestamp("us")),
        (pa.timestamp("us", "UTC"), pa.timestamp("ms", "UTC")),
        (pa.date32(), pa.timestamp("us")),
        (pa.decimal128(38, 0), pa.decimal128(38, 1)),
        (pa.list_(pa.int32()), pa.list_(pa.int64())),
    ],
)
def test_another_type_is_an_error_that_says_what_to_do(
    evolve: Evolve, old: pa.DataType, new: pa.DataType
) -> None:
    error = refused(columns(a=old), columns(a=new), evolve)
    assert f"of type {old} in the table and of type {new} in the source" in str(error)
    assert "read the topic from its start" in str(error)


def test_a_dropped_column_stays_with_nulls_or_goes() -> None:
    known = columns(a=pa.int32(), b=pa.string())
    for evolve in ("exception", "ignore", "lenient"):
        step = follow(known, columns(b=pa.string()), evolve, KEYS)
        assert step == Followed(known, kept=("a",))
        assert not step.is_changed
    step = follow(known, columns(b=pa.string()), "evolve", KEYS)
    assert step.columns.equals(columns(b=pa.string()))
    assert (step.dropped, step.is_changed, str(step)) == (("a",), True, "dropped a")


def test_a_batch_of_old_and_new_messages_keeps_a_column_that_the_new_ones_do_not_have() -> None:
    known = columns(a=pa.int32(), b=pa.string())
    for both in permutations([known, columns(b=pa.string())]):
        assert follow_all(known, both, "evolve", KEYS) == Followed(known)


def test_a_column_that_comes_again_is_another_one() -> None:
    known = columns(a=pa.int32())
    gone = follow(known, columns(), "evolve", KEYS).columns
    again = follow(gone, columns(a=pa.string()), "evolve", KEYS)
    assert again.columns.field("a").type == pa.string()
    assert [generation(one) for one in again.columns] == [0, 1]
    twice = follow(again.columns, columns(), "evolve", KEYS).columns
    assert generation(follow(twice, known, "evolve", KEYS).columns.field("a")) == 2


def test_the_generation_of_a_column_survives_a_wider_type() -> None:
    gone = follow(columns(a=pa.int32()), columns(), "evolve", KEYS).columns
    again = follow(gone, columns(a=pa.int32()), "evolve", KEYS).columns
    wider = follow(again, columns(a=pa.int64()), "evolve", KEYS).columns
    assert generation(wider.field("a")) == 1
    assert pa.ipc.read_schema(pa.py_buffer(wider.serialize())).equals(wider, check_metadata=True)


@pytest.mark.parametrize("evolve", EVOLVE)
def test_a_column_that_the_table_declares_not_null_cannot_be_dropped(evolve: Evolve) -> None:
    known = pa.schema([ID, pa.field("a", pa.int32(), nullable=False)])
    assert "NOT NULL" in str(refused(known, columns(), evolve))


@pytest.mark.parametrize("evolve", EVOLVE)
def test_a_key_cannot_vanish_or_change_its_type(evolve: Evolve) -> None:
    known = pa.schema([pa.field("id", pa.int32(), nullable=False), pa.field("a", pa.int32())])
    assert "is a key" in str(refused(known, pa.schema([known.field("a")]), evolve))
    assert "is a key of type int32" in str(refused(known, columns(a=pa.int32()), evolve))
    assert "no type holds" in str(refused(known, pa.schema([("id", pa.string()), ("a", pa.int32())]), evolve))


def test_messages_with_a_narrower_key_are_older_ones() -> None:
    found = pa.schema([pa.field("id", pa.int32())])
    assert follow(columns(), found, "exception", KEYS) == Followed(columns())


@pytest.mark.parametrize("evolve", EVOLVE)
def test_a_name_that_differs_in_case_only_is_an_error(evolve: Evolve) -> None:
    renamed = refused(columns(name=pa.string()), columns(Name=pa.string()), evolve)
    assert "Name it 'name' in the source" in str(renamed)
    both = refused(columns(), columns(name=pa.string(), Name=pa.string()), evolve)
    assert "differs from 'name' in upper and lower case only" in str(both)


def test_a_renamed_column_is_a_new_one_beside_the_old_one() -> None:
    step = follow(columns(name=pa.string()), columns(full_name=pa.string()), "lenient", KEYS)
    assert (step.added, step.kept) == (("full_name",), ("name",))


def test_a_batch_without_messages_changes_nothing() -> None:
    assert follow_all(columns(a=pa.int8()), [], "evolve", KEYS) == Followed(columns(a=pa.int8()))


@given(st.sampled_from(ALL), st.sampled_from(ALL), st.sampled_from(ALL))
def test_common_types_do_not_depend_on_the_order(a: pa.DataType, b: pa.DataType, c: pa.DataType) -> None:
    assert common_type(a, b) == common_type(b, a)
    assert common_type(a, a) == a
    left, right = common_type(a, b), common_type(b, c)
    if left is not None and right is not None:
        assert common_type(left, c) == common_type(a, right)


def values_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_decimal(kind):
        most = 10**kind.precision - 1
        return st.integers(-most, most).map(
            lambda n: Decimal((n < 0, Decimal(abs(n)).as_tuple().digits, -kind.scale))
        )
    if pa.types.is_floating(kind):
        return st.floats(allow_nan=False, width=kind.bit_width)
    return st.integers(-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1)


@given(st.data())
def test_a_common_type_holds_each_value_of_both_types(data: st.DataObject) -> None:
    family = data.draw(st.sampled_from(["integer", "float", "decimal"]))
    old, new = data.draw(st.sampled_from(TYPES[family])), data.draw(st.sampled_from(TYPES[family]))
    wanted = common_type(old, new)
    if wanted is not None:
        value = pa.array([data.draw(values_of(old))], old)
        assert value.cast(wanted).to_pylist() == value.to_pylist()


def outcome(known: pa.Schema, found: list[pa.Schema]) -> dict[str, pa.DataType] | str:
    try:
        for one in found:
            known = follow(known, one, "lenient", KEYS).columns
    except SchemaError as error:
        return str(error.facts["column"])
    return as_dict(known)


@given(schemas, st.lists(schemas, min_size=1, max_size=3))
def test_the_order_of_schemas_does_not_matter(known: pa.Schema, found: list[pa.Schema]) -> None:
    together = outcome(known, found)
    for order in permutations(found):
        other = outcome(known, list(order))
        assert isinstance(other, str) == isinstance(together, str)
        if not isinstance(together, str):
            assert other == together
            assert as_dict(follow_all(known, order, "lenient", KEYS).columns) == together


@given(schemas, schemas, st.sampled_from(EVOLVE))
def test_followed_columns_hold_what_both_sides_bring(
    known: pa.Schema, found: pa.Schema, evolve: Evolve
) -> None:
    try:
        step = follow(known, found, evolve, KEYS)
    except SchemaError:
        return
    names = step.columns.names
    assert {*known.names} - {*step.dropped} | {*step.added} == {*names}
    assert {*found.names} - {*step.ignored} <= {*names}
    assert names[: len(known) - len(step.dropped)] == [n for n in known.names if n not in step.dropped]
    left = {one.name for one in step.unwidened}
    for schema in (known, found):
        for field in schema:
            if field.name in names and not (schema is found and field.name in left):
                held = step.columns.field(field.name).type
                assert common_type(field.type, held) == held
