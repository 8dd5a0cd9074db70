"""`penstock.changelog.signed_sums`: counts and sums of a changelog by Spark's own aggregation.

Runs in the user's program, on Spark classic and Connect; Spark keeps the sums in its state store. Invariant:
a row that goes takes away exactly what it brought, because only exact types are summed. A sum that does not
fit, or a row that goes and was never there, is an error and never another number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as kinds

from penstock.changelog.operators.aggregate import Aggregate
from penstock.changelog.operators.calls import Call, parse_calls
from penstock.changelog.row_kinds import DELETE, INSERT, NAMES, ROW_KIND, UPDATE_AFTER, UPDATE_BEFORE
from penstock.errors import OptionError, SchemaError
from penstock.formats.decimals import negative_sql
from penstock.spark._arguments import check_names, columns_without_kind, parsed_calls
from penstock.spark._keyed_frame import arrow
from penstock.spark.connect import functions_for
from penstock.spark.native import UPSERTS, WATERMARK, check_rows_come_once
from penstock.spark.quoting import quoted
from penstock.state.columns import check_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FUNCTIONS = ("count", "sum", "avg")
_SIGN, _ROWS, _TOUCHED = "#sign", "#rows", "#touched"
_VALID, _SUM = "#valid ", "#sum "
_NOT_CORRECT = (
    "A -U or -D takes away a row that is not there. Nothing of this batch was written. The input is not a "
    "correct changelog with old rows: put `normalize` before `signed_sums`."
)
_OVERFLOW = (
    "A sum does not fit into its type. Nothing of this batch was written. Cast the column to DECIMAL(28, 0)."
)
_NOT_A_KIND = (
    f"Expected one of {', '.join(NAMES)} in the column {ROW_KIND}. Nothing of this batch was written. "
    "Correct the column."
)
_WHOLE = "DECIMAL(20, 0)"
"""Holds each integer, so that no sum of them wraps around. Spark sums it in ten more digits."""


def signed_sums(
    df: DataFrame, keys: Sequence[str], calls: Mapping[str, str], *, version: str | None = None
) -> DataFrame:
    """Return counts, sums and averages of each group of a changelog, which Spark's own aggregation keeps.

    It needs no folder for a state. The rows of a stream are upserts, without the old rows that `aggregate`
    gives: +U has the new aggregates of each group that a batch has touched, and -D says that the group has no
    rows. Start the query in the output mode `update`.

    Args:
        df: a correct changelog that has the old row of each change, without repeated rows; without `row_kind`
            every row is +I.
        keys: the columns of the group. None of them has a watermark.
        calls: the name of each column of the output, and its aggregate: `count(*)`, or `count`, `sum` or
            `avg` of a column. The types are those of `aggregate`. Not for FLOAT and DOUBLE, and `avg` not for
            DECIMAL.
        version: the name of a new BIGINT column: how many rows of the group have come and gone so far. It
            orders the changes of a group, for `normalize`.

    Returns:
        The keys, the aggregates, `version`, and `row_kind`. The row of a -D has no sums, and counts of 0.
        A batch DataFrame gives a +I for each group that has rows. The query fails if a sum does not fit into
        its type, if a row goes that was not there, or if `row_kind` is something else.

    Raises:
        SchemaError: a column does not exist, or its type cannot be summed exactly.
        OptionError: an argument is wrong.
    """
    plan = _Plan(arrow(columns_without_kind(df)), tuple(keys), parsed_calls(parse_calls, calls))
    check_names("keys", keys)
    check_rows_come_once(df, "signed_sums")
    plan.check(version)
    _check_watermarks(df, keys)
    functions = functions_for(df)
    signed = df.selectExpr(*map(quoted, plan.columns.names), f"{_sign(df.columns)} AS {quoted(_SIGN)}")
    kept = [functions.expr(sql).alias(name) for name, sql in plan.kept()]
    groups = signed.groupBy(*(signed[quoted(name)] for name in keys)).agg(*kept).where(plan.condition())
    columns = [*map(quoted, keys), *plan.results()]
    if version is not None:
        columns.append(f"{quoted(_TOUCHED)} AS {quoted(version)}")
    if not df.isStreaming:
        there = groups.where(f"{quoted(_ROWS)} > 0")
        return there.selectExpr(*columns, f"'{NAMES[INSERT]}' AS {ROW_KIND}")
    kind = f"IF({quoted(_ROWS)} = 0, '{NAMES[DELETE]}', '{NAMES[UPDATE_AFTER]}')"
    row_kind = functions.expr(kind).alias(ROW_KIND, metadata=UPSERTS)
    return groups.select(*map(functions.expr, columns), row_kind)


@dataclass(frozen=True)
class _Plan:
    """The SQL of the aggregates: what Spark keeps for each group, and what comes of it."""

    columns: pa.Schema
    keys: tuple[str, ...]
    calls: tuple[Call, ...]

    def check(self, version: str | None) -> None:
        """Raise SchemaError or OptionError if a name is wrong, or a column cannot be summed exactly."""
        for call in self.calls:
            if call.function not in _FUNCTIONS:
                raise OptionError(
                    f"`signed_sums` has {', '.join(_FUNCTIONS)}, got {call.function} for {call.name!r}. "
                    "`aggregate` has the others.",
                    option="calls",
                )
        check_columns(self.columns, [*self.keys, *(name for call in self.calls for name in call.columns)])
        for call in self.calls:
            if call.function == "avg" and kinds.is_decimal(self.columns.field(call.column).type):
                raise SchemaError(
                    f"avg of a decimal is not exact ({call.name}). Take `sum` and `count`, and divide them.",
                    column=call.column,
                )
        out = Aggregate(self.columns, self.keys, self.calls).out_columns.names
        new = out if version is None else [*out, version]
        check_columns(pa.schema([(name, pa.null()) for name in new]), [])
        for name in self._named("sum", "avg"):
            if kinds.is_floating(self.columns.field(name).type):
                raise SchemaError(
                    f"A sum of {self.columns.field(name).type} would keep the rounding errors of rows that "
                    f"are gone. Cast {name!r} to a DECIMAL and take `sum` and `count`, or use `aggregate`.",
                    column=name,
                )

    def kept(self) -> Iterator[tuple[str, str]]:
        """Yield the name and the SQL of each number that Spark keeps."""
        sign = quoted(_SIGN)
        yield _ROWS, f"sum({sign})"
        yield _TOUCHED, "count(1)"
        for name in self._named(*_FUNCTIONS):
            yield _VALID + name, f"sum(IF({quoted(name)} IS NULL, 0L, {sign}))"
        for name in self._named("sum", "avg"):
            kind = self.columns.field(name).type
            if kinds.is_decimal(kind):
                value = quoted(name)
                negative = negative_sql(value, kind.precision, kind.scale)
            else:
                value = f"CAST({quoted(name)} AS {_WHOLE})"
                negative = f"-{value}"
            yield _SUM + name, f"sum(IF({sign} > 0, {value}, {negative}))"

    def condition(self) -> str:
        """Return SQL that is true, and ends the query if a row has gone that was not there."""
        rows = quoted(_ROWS)
        valid = [quoted(_VALID + name) for name in self._named(*_FUNCTIONS)]
        wrong = " OR ".join([f"{rows} < 0", *(f"{each} < 0 OR {each} > {rows}" for each in valid)])
        return f"IF({wrong}, {_raised(_NOT_CORRECT, 'BOOLEAN')}, TRUE)"

    def results(self) -> Iterator[str]:
        for call in self.calls:
            yield f"{self._result(call)} AS {quoted(call.name)}"

    def _result(self, call: Call) -> str:
        if call.column is None:
            return quoted(_ROWS)
        valid, total = quoted(_VALID + call.column), quoted(_SUM + call.column)
        if call.function == "count":
            return valid
        kind = self.columns.field(call.column).type
        is_decimal = kinds.is_decimal(kind)
        type_name = f"DECIMAL({min(38, kind.precision + 10)}, {kind.scale})" if is_decimal else "BIGINT"
        fitting = f"coalesce(try_cast({total} AS {type_name}), {_raised(_OVERFLOW, type_name)})"
        result = fitting if call.function == "sum" else f"CAST({fitting} AS DOUBLE) / {valid}"
        return f"IF({valid} = 0, NULL, {result})"

    def _named(self, *functions: str) -> list[str]:
        return sorted({name for call in self.calls if call.function in functions for name in call.columns})


def _check_watermarks(df: DataFrame, keys: Sequence[str]) -> None:
    for name in keys:
        if WATERMARK in df.schema[name].metadata:
            raise SchemaError(
                f"The key {name!r} has a watermark, so Spark would drop late rows of a group and its sum "
                "would be wrong. Use `aggregate`, or a key without a watermark.",
                column=name,
            )


def _sign(names: Sequence[str]) -> str:
    """Return SQL that is 1 for a row that comes and -1 for one that goes."""
    if ROW_KIND not in names:
        return "1L"
    comes = f"{ROW_KIND} IN ('{NAMES[INSERT]}', '{NAMES[UPDATE_AFTER]}')"
    goes = f"{ROW_KIND} IN ('{NAMES[UPDATE_BEFORE]}', '{NAMES[DELETE]}')"
    return f"CASE WHEN {comes} THEN 1L WHEN {goes} THEN -1L ELSE {_raised(_NOT_A_KIND, 'BIGINT')} END"


def _raised(message: str, type_name: str) -> str:
    return f"CAST(raise_error('{message}') AS {type_name})"
