"""JSON text that a table of Spark keeps as VARIANT: what penstock says to Spark, and what it refuses."""

# ruff: noqa: S608 - the statements are compared, and not run

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import MaterializeError, OptionError, RowError, SchemaError
from penstock.targets import SparkDeltaTable, SparkIcebergTable
from penstock.targets.batch import Batch, LastRows
from penstock.targets.change import ColumnChange
from tests.unit.targets.changes import COLUMNS, QUERY, batch
from tests.unit.targets.merging import FakeSpark, Table

KINDS: dict[str, Any] = {"delta": SparkDeltaTable, "iceberg": SparkIcebergTable}
RAISED = re.compile(r"raise_error\('((?:[^'\\]|\\.)*)'\)")
both = pytest.mark.parametrize("kind", KINDS)
ONE, TWO = [(1, '{"a":1}', "+U")], [(2, "[]", "+U")]
VALUE = (
    "CASE WHEN s.`na%me` IS NULL THEN NULL "
    "WHEN try_parse_json(concat('[', s.`na%me`, ']')) IS NULL "
    "OR try_parse_json(concat('{\"v\":', s.`na%me`, '}')) IS NULL "
    r"OR (s.`na%me` RLIKE r'\\u[dD][89a-fA-F]' AND regexp_replace(replace(s.`na%me`, r'\\', '.'), "
    r"r'\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}', '.') RLIKE r'\\u[dD][89a-fA-F]') "
    "THEN CAST(raise_error('{MESSAGE}') AS VARIANT) ELSE parse_json(s.`na%me`) END"
)


class Scene:
    """A table of a kind whose column `na%me` is VARIANT, and a Spark."""

    def __init__(self, kind: str) -> None:
        self.target = KINDS[kind]("shop.t", variants=["na%me"])
        self.tables = dict[str, Table]()
        self.spark = FakeSpark(self.tables)

    def apply(self, one: Batch, variants: Sequence[str] = ("na%me",)) -> bool:
        target = replace(self.target, variants=variants)
        return bool(target.in_session(self.spark).apply(one))

    @property
    def table(self) -> Table:
        return self.tables["shop.t"]

    def said(self, word: str) -> list[str]:
        return [one for one in self.spark.statements if one.startswith(word)]


@both
def test_a_named_column_is_a_variant_and_gets_its_parsed_text(kind: str) -> None:
    scene = Scene(kind)
    assert scene.apply(batch(0, ONE))
    assert not scene.apply(batch(0, ONE))
    assert scene.apply(batch(1, [*TWO, (1, None, "-D")]))
    assert scene.table.rows == {2: "[]"}
    assert scene.table.columns == {"id": "int64", "na%me": "variant"}
    *_, merge = scene.said("MERGE")
    [message] = set(RAISED.findall(merge))
    value = VALUE.replace("{MESSAGE}", message)
    assert f"UPDATE SET t.`id` = s.`id`, t.`na%me` = {value} WHEN NOT MATCHED" in merge
    assert merge.endswith(f"INSERT (`id`, `na%me`) VALUES (s.`id`, {value})")


@both
def test_without_variants_the_column_and_the_merge_are_of_texts(kind: str) -> None:
    scene = Scene(kind)
    assert scene.apply(batch(0, ONE), ())
    assert scene.table.columns == {"id": "int64", "na%me": "string"}
    assert not any("json" in one or "format-version' = '3" in one for one in scene.spark.statements)


@both
def test_a_new_table_has_the_version_of_its_format_that_has_variant(kind: str) -> None:
    scene = Scene(kind)
    scene.apply(batch(0, ONE))
    assert scene.table.properties.get("format-version") == {"delta": None, "iceberg": "3"}[kind]


@both
def test_a_variant_of_a_later_batch_is_added_and_its_repetition_finds_it(kind: str) -> None:
    scene = Scene(kind)
    scene.apply(batch(0, ONE), ())
    columns = COLUMNS.append(pa.field("the rest", pa.string()))
    rows = LastRows(("id",), columns).schema.empty_table()
    added = Batch(QUERY, 1, ("id",), rows, ColumnChange(added=(columns.field("the rest"),)))
    assert scene.apply(added, ["the rest"])
    assert scene.said("ALTER") == ["ALTER TABLE `shop`.`t` ADD COLUMNS (`the rest` variant)"]
    assert not scene.apply(added, ["the rest"])
    assert scene.table.columns == {"id": "int64", "na%me": "string", "the rest": "variant"}


@both
@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ((), ("na%me",), r"'na%me' of the \w+ table shop\.t has type string, and `variants` names it"),
        (("na%me",), (), r"'na%me' of the \w+ table shop\.t has type variant, and `variants` does not name"),
    ],
)
def test_other_variants_than_the_table_has_are_an_error(
    kind: str, before: Sequence[str], after: Sequence[str], message: str
) -> None:
    scene = Scene(kind)
    scene.apply(batch(0, ONE), before)
    table = replace(scene.target, variants=after).in_session(scene.spark)
    for refused in (
        lambda: scene.apply(batch(1, TWO), after),
        lambda: table.check_existing(COLUMNS, ["id"]),
    ):
        with pytest.raises(MaterializeError, match=message) as error:
            refused()
        assert error.value.facts["column"] == "na%me"
    assert scene.table.rows == {1: '{"a":1}'}
    assert scene.apply(batch(1, TWO), before)


@both
@pytest.mark.parametrize(
    ("variants", "keys", "error", "message"),
    [
        (
            ["other"],
            ["id"],
            SchemaError,
            r"names 'other', which is not a column\. The columns are id, na%me.* Nothing was written",
        ),
        (["NA%ME"], ["id"], SchemaError, r"names 'NA%ME', which is not a column.* Nothing was written"),
        (
            ["id"],
            [],
            SchemaError,
            r"names 'id', which has type int64, and only JSON text.* Nothing was written",
        ),
        (
            ["na%me"],
            ["na%me"],
            SchemaError,
            r"names 'na%me', which is in the primary key.* Nothing was written",
        ),
        (
            "na%me",
            ["id"],
            OptionError,
            r"got the text 'na%me'\. Nothing was written\. .* variants=\['na%me'\]",
        ),
    ],
)
def test_a_name_that_cannot_be_a_variant_is_refused_before_anything_is_written(
    kind: str, variants: Sequence[str], keys: list[str], error: type[Exception], message: str
) -> None:
    target = KINDS[kind]("shop.t", variants=variants)
    spark = FakeSpark({})
    one = Batch(QUERY, 0, tuple(keys), LastRows(tuple(keys), COLUMNS).schema.empty_table())
    expected = rf"`variants` of the \w+ table shop\.t.* {message}"
    with pytest.raises(error, match=expected):
        target.check(COLUMNS, keys)
    with pytest.raises(error, match=expected):
        target.in_session(spark).apply(one)
    assert not spark.tables
    assert not spark.statements


@both
def test_a_text_of_large_strings_can_be_a_variant(kind: str) -> None:
    columns = pa.schema([("id", pa.int64()), ("doc", pa.large_string())])
    KINDS[kind]("shop.t", variants=("doc",)).check(columns, ["id"])


def _failing(spark: FakeSpark, text: Callable[[str], str]) -> Callable[[], None]:
    def fail() -> None:
        raise RuntimeError(text(spark.statements[-1]))

    return fail


def _raised(merge: str) -> str:
    """Return Spark's error for a row, as it shows the text of `raise_error`."""
    [text] = set(RAISED.findall(merge))
    shown = text.replace("\\'", "'")
    return f"Job aborted: [USER_RAISED_EXCEPTION] {shown} SQLSTATE: P0001\n\tat org.apache.spark"


@both
def test_a_text_that_is_not_json_is_an_error_with_the_name_of_its_column(kind: str) -> None:
    scene = Scene(kind)
    scene.apply(batch(0, ONE))
    scene.spark.before_merge = _failing(scene.spark, _raised)
    with pytest.raises(RowError, match=r"'na%me' of the \w+ table shop\.t .* batch 1 .* Nothing of") as error:
        scene.apply(batch(1, TWO))
    assert "SQLSTATE" not in str(error.value)
    assert error.value.facts == {"column": "na%me", "batch_id": 1}
    assert scene.table.rows == {1: '{"a":1}'}


@both
def test_another_failure_of_a_merge_stays_as_it_is(kind: str) -> None:
    scene = Scene(kind)
    scene.apply(batch(0, ONE))
    scene.spark.before_merge = _failing(scene.spark, lambda _: "no space left for a VARIANT")
    with pytest.raises(RuntimeError, match="no space left"):
        scene.apply(batch(1, TWO))


class Unable(FakeSpark):
    """A Spark that fails when a table gets columns."""

    message = ""

    def rows(self, statement: str) -> list[Any]:
        if self.message and statement.startswith(("CREATE", "ALTER")):
            raise RuntimeError(self.message)
        return super().rows(statement)


ADVICE = {"delta": "table feature variantType", "iceberg": r"version 3 of .*'format-version' = '3'"}


@both
def test_a_table_that_cannot_have_a_variant_is_refused_with_what_it_needs(kind: str) -> None:
    scene = Scene(kind)
    scene.spark = Unable(scene.tables)
    columns = COLUMNS.append(pa.field("rest", pa.string()))
    rows = LastRows(("id",), columns).schema.empty_table()
    added = Batch(QUERY, 1, ("id",), rows, ColumnChange(added=(columns.field("rest"),)))
    scene.spark.message = 'An error:\n - Data type "VARIANT" is not supported.\n\tat org.apache.Variant'
    for one, before in ((batch(0, ONE), None), (added, batch(0, ONE))):
        if before is not None:
            scene.spark.message, message = "", scene.spark.message
            scene.apply(before, ())
            scene.spark.message = message
        variants = ["na%me"] if before is None else ["rest"]
        with pytest.raises(
            OptionError, match=rf"columns {variants[0]} as VARIANT .* {ADVICE[kind]}"
        ) as error:
            scene.apply(one, variants)
        assert 'Spark says: Data type "VARIANT" is not supported. Nothing of' in str(error.value)
        assert error.value.facts["option"] == "variants"
    assert scene.table.rows == {1: '{"a":1}'}


@both
@pytest.mark.parametrize(
    ("variants", "message"), [(["na%me"], "schema shop not found"), ([], "no VARIANT here")]
)
def test_another_failure_to_create_the_table_stays_as_it_is(
    kind: str, variants: Sequence[str], message: str
) -> None:
    scene = Scene(kind)
    scene.spark = Unable(scene.tables)
    scene.spark.message = message
    with pytest.raises(RuntimeError, match=message):
        scene.apply(batch(0, ONE), variants)
