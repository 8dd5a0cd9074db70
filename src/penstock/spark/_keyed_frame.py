"""Run an operator over a DataFrame: the plan around `KeyedTask`.

Runs in the user's program, on Spark classic and Connect. Invariant: rows with equal keys go to the same
partition of the state in every batch, because its number is computed from the keys alone and travels with
each row.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import StructField, StructType

from penstock.changelog.operators.base import Operator
from penstock.changelog.operators.join import SIDE
from penstock.changelog.operators.temporal_join import CLOCK, ROW
from penstock.errors import OptionError
from penstock.security.location import without_secrets
from penstock.spark._arguments import columns_without_kind, kind_expression
from penstock.spark._clocks import Clocks
from penstock.spark._keyed_task import NOW_MS, PARTITION, KeyedTask, identity_of
from penstock.spark._planning import CallPlan, PlanWriter
from penstock.spark.connect import functions_for, is_connect
from penstock.spark.exchange import offered, packages, row_count, without_counted
from penstock.spark.map_rows import map_rows
from penstock.spark.native import WAITS, WATERMARK, watermark_behind
from penstock.spark.one_thread import plan_in_one_thread
from penstock.spark.operator_rows import operator_rows
from penstock.spark.quoting import quoted
from penstock.spark.reused_shuffles import keep_watermarks
from penstock.spark.versions import repartition_by_id, to_arrow_schema
from penstock.state.files import LocalFiles, open_files
from penstock.state.identity import Identity
from penstock.state.snapshot import Lifetime

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_COUNT, _SPARKS_COUNT = "spark.sql.shuffle.partitions", 200
"""The number of tasks after a shuffle: Spark's name of it, and its default."""


def apply(
    df: DataFrame,
    operator: Operator,
    out: StructType,
    state: str | None,
    partitions: int | None,
    lifetime: Lifetime,
    times: tuple[str, ...] | None = None,
) -> DataFrame:
    """Return the rows out of an operator that runs on `df`.

    Args:
        df: the rows.
        operator: the function.
        out: the columns of its output.
        state: the folder of the state.
        partitions: their number; None for that of an existing state, or else of `_default_count`.
        lifetime: of the rows that are kept.
        times: the columns whose latest values all partitions need, as the operator's clocks.
    """
    if state is None and df.isStreaming:
        raise OptionError(
            f"`{operator.name}` of a streaming DataFrame keeps rows, and needs a folder for them: set "
            "`state` to a path or URI that all executors reach, such as a folder beside the checkpoint. Give "
            "operators with the same `state` a `name` each.",
            option="state",
        )
    if df.isStreaming:
        plan_in_one_thread(df.sparkSession)
        keep_watermarks(df)
    wanted = _default_count(df) if partitions is None else _checked_count(partitions)
    if state is None:
        location, plan = None, CallPlan(uuid.uuid4().hex, partition_count=wanted)
    else:
        location, plan = _planned(
            df, state, identity_of(operator, "", wanted), is_count_chosen=partitions is not None
        )
    count = plan.partition_count
    task = KeyedTask(
        operator,
        arrow(df.schema if times is None else _nullable(df.schema)),  # clocks have no values
        location,
        count,
        lifetime,
        plan.plan_id,
        plan.number,
        plan.folder_id,
        _has_one_machine(df),
    )
    packed = packages(offered(df), task.columns, operator.keys, count) if times is None else None
    added = [f"unix_millis(current_timestamp()) AS {quoted(NOW_MS)}"]
    if packed is None:
        added.insert(0, f"{partition_expression(operator.keys, count)} AS {quoted(PARTITION)}")
    rows = (df if packed is None else packed.frame).selectExpr("*", *added)
    if times is not None:
        rows = map_rows(rows, Clocks(times, count).run, _nullable(rows.schema))
    if state is not None:
        counted = f"count({quoted(PARTITION)})" if packed is None else row_count()
        rows = _never_left_out(rows, f"penstock {operator.name} {without_secrets(state)}", counted)
    if packed is not None:
        rows = without_counted(rows)
    rows = repartition_by_id(rows, count, quoted(PARTITION))
    return operator_rows(rows, task.run if packed is None else packed.opened_for(task.run), out)


def by_keys(df: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return the rows of a function that keeps no state, those with equal keys in one task."""
    count = _default_count(df)
    rows = df.selectExpr("*", f"{partition_expression(keys, count)} AS {quoted(PARTITION)}")
    return repartition_by_id(rows, count, quoted(PARTITION))


def _nullable(columns: StructType) -> StructType:
    return StructType([StructField(field.name, field.dataType) for field in columns])


def _planned(df: DataFrame, state: str, operator: Identity, *, is_count_chosen: bool) -> tuple[str, CallPlan]:
    """Return the folder of the state, and the plan of this call, which is in the folder.

    Raises:
        StateError: the folder has a state of another operator, or of other columns.
        OptionError: the folder is not a path or URI, or cannot be written.
    """
    try:
        files = open_files(state)
    except ValueError as error:
        raise OptionError(f"`state` is wrong: {error}.", option="state") from None
    location = files.root if isinstance(files, LocalFiles) else state
    planning = PlanWriter(location, uuid.uuid4().hex, operator, is_count_chosen, _has_one_machine(df))
    if is_connect(df):
        if isinstance(files, LocalFiles) and not state.startswith(("/", "file:")):
            raise OptionError(
                f"Expected an absolute path or a URI for `state`, got {state!r}.", option="state"
            )
        return planning.location, planning.run_in_a_task(df.sparkSession)
    try:
        return planning.location, planning.run()
    except OSError as error:
        raise OptionError(
            f"The driver cannot write to the folder of the state {files.root}: {error}. The driver and all "
            "executors need the same folder.",
            option="state",
        ) from error


def _has_one_machine(df: DataFrame) -> bool:
    """Return whether Spark runs the driver and the executors in one process."""
    master = str(df.sparkSession.conf.get("spark.master", ""))
    return master == "local" or master.startswith("local[")


def _never_left_out(rows: DataFrame, name: str, count: str) -> DataFrame:
    """Return the same rows, so that Spark runs the tasks after them also in a batch without rows.

    Otherwise Spark leaves out a side of a union that has nothing new. The state would miss the mark of the
    batch, as an old copy of it does. Spark counts the rows by `count`, as the observed metric `name`.
    """
    return rows.observe(name, functions_for(rows).expr(f"{count} AS rows"))


def arrow(columns: StructType) -> pa.Schema:
    """Return the columns without comments and watermarks, which do not change what a state holds."""
    return pa.schema([field.remove_metadata() for field in to_arrow_schema(columns)])


def _default_count(df: DataFrame) -> int:
    """Return the number of partitions of a new state: that of Spark's shuffles, if the user has set it.

    If not, a stream on one machine gets a partition for each core. Spark's default of 200 is for a cluster:
    here each batch would wait for 200 tasks. A batch query keeps it, because it holds all rows at once.
    """
    conf, default = df.sparkSession.conf, _SPARKS_COUNT
    if df.isStreaming and not is_connect(df) and _has_one_machine(df):
        default = df.sparkSession.sparkContext.defaultParallelism
    return int(conf.get(_COUNT, str(default)) or default)


def _checked_count(partitions: int) -> int:
    if partitions < 1:
        raise OptionError(f"Expected at least 1 for `partitions`, got {partitions}.", option="partitions")
    return partitions


def partition_expression(keys: Iterable[str], count: int) -> str:
    """Return the SQL that computes the partition of a row. It never changes: states are divided by it."""
    return f"pmod(hash({', '.join(map(quoted, keys))}), {count})"


def fields_that_wait(df: DataFrame, time: str, delay_ms: int) -> list[StructField]:
    """Return the columns of rows that come out when the latest time is more than `delay_ms` behind them.

    They keep the watermark only if no row comes out later than it allows. Otherwise Spark would drop rows in
    a window behind the operator, without an error.
    """
    fields, delays = columns_without_kind(df).fields, watermark_behind(df, time, delay_ms)
    if delays is None:
        return [without_watermark(each) for each in fields]
    return [_with(each, WAITS) if WATERMARK in each.metadata and not delays else each for each in fields]


def without_watermark(field: StructField) -> StructField:
    """Return a column that is a plain value for Spark."""
    plain = {key: value for key, value in field.metadata.items() if key != WATERMARK}
    return StructField(field.name, field.dataType, field.nullable, plain)


def _with(field: StructField, more: dict[str, bool]) -> StructField:
    return StructField(field.name, field.dataType, field.nullable, {**field.metadata, **more})


def rows_that_wait(df: DataFrame) -> DataFrame:
    """Return the rows of an operator whose rows wait for a watermark: SIDE, CLOCK, their columns, `row_kind`.

    A row of the user has ROW as its side and no clock. Clocks are rows that tasks make (`_clocks.py`).
    """
    return df.selectExpr(
        f"CAST({ROW} AS TINYINT) AS {quoted(SIDE)}",
        f"CAST(NULL AS BIGINT) AS {quoted(CLOCK)}",
        *(quoted(name) for name in columns_without_kind(df).fieldNames()),
        kind_expression(df),
    )
