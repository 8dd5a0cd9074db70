"""The operators over changelogs as functions of DataFrames: `penstock.changelog.normalize` and others.

Runs in the user's program, on Spark classic and Connect. Invariant: rows with equal keys go to the same
partition of the state in every batch, because its number is computed from the keys alone and travels with
each row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import LongType, StructField, StructType

from penstock.changelog.operators.aggregate import Aggregate
from penstock.changelog.operators.calls import parse_calls
from penstock.changelog.operators.collapse import collapsed
from penstock.changelog.operators.deduplicate import Deduplicate
from penstock.changelog.operators.join import HOWS, LEFT, RIGHT, SIDE, How, Join
from penstock.changelog.operators.join_with_ttl import JoinWithTtl
from penstock.changelog.operators.normalize import Normalize
from penstock.changelog.operators.temporal_join import CLOCK, TemporalJoin
from penstock.changelog.operators.top_n import TopN
from penstock.changelog.row_kinds import has_row_kind
from penstock.errors import OptionError, SchemaError
from penstock.spark._arguments import (
    KIND_FIELD,
    Duration,
    check_names,
    check_texts,
    check_time,
    columns_without_kind,
    direction,
    duration_ms,
    folder_of,
    parsed_calls,
    time_to_live_ms,
)
from penstock.spark._both_sides import both_sides, out_fields, pairs_of
from penstock.spark._keyed_frame import apply, arrow
from penstock.spark.native import check_rows_come_once
from penstock.spark.quoting import quoted
from penstock.state.columns import check_columns
from penstock.state.snapshot import Lifetime

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def normalize(  # noqa: PLR0913 - each is a keyword of its own
    df: DataFrame,
    keys: Sequence[str],
    *,
    order_by: Sequence[str],
    state: str | None = None,
    name: str | None = None,
    partitions: int | None = None,
    ttl: Duration | None = None,
    deleted_ttl: Duration | None = None,
    collapse: bool = False,
    source: str | None = None,
    emit_equal: bool = False,
) -> DataFrame:
    """Return a correct changelog of upserts and deletes that may come twice, late or out of order.

    The first row of a key becomes +I, a changed row -U and +U, a delete -D. These vanish: a row equal to the
    one before, a delete of an unknown key, and a row whose values of `order_by` are not after the newest ones
    of its key. Columns of `order_by` do not count when rows are compared. Each -U and -D is exactly the row
    that was emitted before it.

    Args:
        df: the rows. Its column `row_kind` says what each row is; without it every row is an upsert. A -U
            before its +U is ignored, because the operator knows the old row. A -U without a +U deletes its
            key, because the update has changed the key.
        keys: the primary key.
        order_by: columns that say which of two rows of a key is newer, such as the offset of the record.
        state: the folder of the operator, as a path or URI that all executors reach. Each operator of each
            query needs its own, or a `name`. A streaming DataFrame needs it.
        name: the name of the operator, such as "orders". Its state is then the folder `name` in `state`, so
            all operators of a query can have the same `state`. Keep the name as long as the checkpoint.
        partitions: number of partitions of the state, fixed at the first start; by default
            `spark.sql.shuffle.partitions`, or as many as cores if Spark runs on one machine and it is not
            set.
        ttl: forget a key for which no newer row has come for this time. Its next row becomes +I.
        deleted_ttl: forget a deleted key after this time. Then a late row from before the delete becomes
            +I. By default deleted keys are remembered as long as others.
        collapse: emit at most one change of each key in a batch.
        source: a column that says where a row comes from, such as the topic partition. Offsets of two topic
            partitions cannot be compared, so two values of it in rows of one key make the query fail. It
            does not count when rows are compared.
        emit_equal: emit a newer row that is equal to the one before as -U and +U. Operators behind it that
            have a `ttl` then do not forget the row.

    Returns:
        The columns of `df`, with `row_kind` as the last one. Rows of a key are in order within a partition.

    Raises:
        SchemaError: a column does not exist, or cannot be a key.
        OptionError: the stream has no `state`, or a number or duration is wrong.
        StateError: the folder has a state of another function, or of other columns or arguments.
    """
    columns = columns_without_kind(df)
    operator = Normalize(
        arrow(columns), tuple(keys), tuple(order_by), collapse, source, emit_equal=emit_equal
    )
    check_names("keys", keys)
    check_names("order_by", order_by)
    compared = [*keys, *order_by, *([] if source is None else [source])]
    check_columns(operator.columns, compared)
    check_texts(columns, compared)
    lifetime = Lifetime(
        time_to_live_ms("ttl", ttl), time_to_live_ms("deleted_ttl", deleted_ttl), operator.remembers_deleted
    )
    out = StructType([*columns.fields, KIND_FIELD])
    return apply(df, operator, out, folder_of(state, name), partitions, lifetime)


def deduplicate(  # noqa: PLR0913 - each is a keyword of its own
    df: DataFrame,
    keys: Sequence[str],
    *,
    order_by: Sequence[str],
    keep: Literal["first", "last"] = "first",
    state: str | None = None,
    name: str | None = None,
    partitions: int | None = None,
    ttl: Duration | None = None,
    collapse: bool = False,
) -> DataFrame:
    """Return a changelog of one row for each key: the first or the last one, of append-only rows.

    A late row that is before (or after) the one that was emitted replaces it, with -U and +U. If rows have
    the same values in `order_by`, the one of the earlier batch stays.

    Args:
        df: the rows. If it has the column `row_kind`, all of them are +I.
        keys: rows with equal keys are the same row.
        order_by: columns that say which row of a key is first. Null is before all values.
        keep: which row stays.
        state: the folder of the operator, as for `normalize`.
        name: the name of the operator, as for `normalize`.
        partitions: number of partitions of the state, as for `normalize`.
        ttl: forget a key that was not emitted for this time. Its next row becomes +I.
        collapse: changes nothing, because a batch gives at most one change of each key anyway.

    Returns:
        The columns of `df`, with `row_kind` as the last one.

    Raises:
        SchemaError: a column does not exist, or cannot be a key.
        OptionError: the stream has no `state`, or an argument is wrong.
    """
    columns = columns_without_kind(df)
    check_names("keys", keys)
    check_names("order_by", order_by)
    if keep not in ("first", "last"):
        raise OptionError(f"Expected 'first' or 'last' for `keep`, got {keep!r}.", option="keep")
    operator = Deduplicate(arrow(columns), tuple(keys), tuple(order_by), keep)
    check_columns(operator.columns, [*keys, *order_by])
    check_texts(columns, [*keys, *order_by])
    lifetime = Lifetime(time_to_live_ms("ttl", ttl), remembers_deleted=operator.remembers_deleted)
    out = StructType([*columns.fields, KIND_FIELD])
    return apply(
        df, collapsed(operator, keys, collapse=collapse), out, folder_of(state, name), partitions, lifetime
    )


def top_n(  # noqa: PLR0913 - each is a keyword of its own
    df: DataFrame,
    keys: Sequence[str],
    n: int,
    *,
    order_by: Sequence[str],
    rank: str | None = None,
    skip: int = 0,
    state: str | None = None,
    name: str | None = None,
    partitions: int | None = None,
    ttl: Duration | None = None,
    collapse: bool = False,
) -> DataFrame:
    """Return a changelog of the first n rows of each group of a changelog.

    A row that leaves the first n is -D, a row that comes into them +I. Equal rows count as often as they are
    there. If rows have the same values in `order_by`, the same ones are chosen each time.

    With `rank` the change of a row moves the rows below it: a rank that another row has now gives -U and +U.

    The state has all rows of each group, or the first n of them if `df` has no `row_kind`.

    Args:
        df: a correct changelog, such as that of `normalize`; without `row_kind` every row is +I.
        keys: the columns of the group.
        n: at least 1. To change it, start with a new checkpoint.
        order_by: columns, each as `name`, `name asc` or `name desc`. Null is the lowest value.
        rank: the name of a new BIGINT column with the rank of a row in its group, from 1.
        skip: leave out that many of the first n rows, the first ones. Ranks count them. n=2 and skip=1 is
            the second row of each group. To change it, start with a new checkpoint.
        state: the folder of the operator, as for `normalize`.
        name: the name of the operator, as for `normalize`.
        partitions: number of partitions of the state, as for `normalize`.
        ttl: forget a group that got no rows for this time. A row of it that goes later does nothing.
        collapse: changes nothing, because no batch gives a row both as -D and as +I.

    Returns:
        The columns of `df`, that of `rank`, and `row_kind` as the last one.

    Raises:
        SchemaError: a column does not exist, or is nested.
        OptionError: the stream has no `state`, or an argument is wrong.
    """
    columns = columns_without_kind(df)
    check_names("keys", keys)
    check_names("order_by", order_by)
    if n < 1:
        raise OptionError(f"Expected at least 1 for `n`, got {n}.", option="n")
    if not 0 <= skip < n:
        raise OptionError(f"Expected 0 to {n - 1} for `skip`, got {skip}.", option="skip")
    check_rows_come_once(df, "top_n")
    ordered = tuple(map(direction, order_by))
    if rank is not None and rank in columns.fieldNames():
        raise OptionError(f"The rows have the column {rank!r} already. Choose another `rank`.", option="rank")
    only_inserts = not has_row_kind(df.columns)
    ttl_ms = time_to_live_ms("ttl", ttl)
    forgets = ttl_ms is not None
    operator = TopN(arrow(columns), tuple(keys), ordered, n, rank, only_inserts, forgets, skip)
    compared = [*keys, *(name for name, _ in ordered)]
    check_columns(operator.columns, [*compared, *operator.columns.names])
    check_columns(operator.out_columns, [])
    check_texts(columns, compared)
    ranked = [] if rank is None else [StructField(rank, LongType(), nullable=False)]
    out = StructType([*columns.fields, *ranked, KIND_FIELD])
    net = collapsed(operator, None if rank is None else [*keys, rank], collapse=collapse)
    lifetime = Lifetime(ttl_ms, remembers_deleted=False, of_keys=ttl_ms is not None)
    return apply(df, net, out, folder_of(state, name), partitions, lifetime)


def aggregate(
    df: DataFrame,
    keys: Sequence[str],
    calls: Mapping[str, str],
    *,
    state: str | None = None,
    name: str | None = None,
    partitions: int | None = None,
    ttl: Duration | None = None,
    collapse: bool = False,
) -> DataFrame:
    """Return a changelog of the aggregates of each group of a changelog.

    The first rows of a group give +I, a change of an aggregate -U and +U, and the last row that goes -D. A
    batch gives at most one change of each group, and none if no aggregate has changed.

    Args:
        df: a correct changelog, such as that of `normalize`; without `row_kind` every row is +I.
        keys: the columns of the group.
        calls: the name of each column of the output, and its aggregate: `count(*)`, or `count`, `sum`, `avg`,
            `min`, `max`, `count(distinct ...)` or `sum(distinct ...)` of a column, `first(x order by y)`,
            `last(x order by y)`, `listagg(x, ',' order by y)`; of append-only rows also
            `first_arrived(x order by y)` and `last_arrived(x order by y)`. Sums of integers are BIGINT,
            averages DOUBLE. Null values do not count.
        state: the folder of the operator, as for `normalize`.
        name: the name of the operator, as for `normalize`.
        partitions: number of partitions of the state, as for `normalize`.
        ttl: forget a group that got no rows for this time. Its next row becomes +I, and a row of it that goes
            does nothing. Each group of a batch gives -U and +U, also if they are equal.
        collapse: leave out the equal -U and +U that `ttl` makes. It changes nothing else, because a batch
            gives at most one change of each group anyway.

    Returns:
        The keys, the aggregates, and `row_kind`.

    Raises:
        SchemaError: a column does not exist, or the aggregate does not take its type.
        OptionError: the stream has no `state`, or an argument is wrong.
    """
    columns = columns_without_kind(df)
    check_names("keys", keys)
    parsed = parsed_calls(parse_calls, calls)
    check_rows_come_once(df, "aggregate")
    ttl_ms = time_to_live_ms("ttl", ttl)
    operator = Aggregate(arrow(columns), tuple(keys), parsed, forgets=ttl_ms is not None)
    compared = [*keys, *(name for call in parsed for name in call.columns)]
    check_columns(operator.columns, compared)
    check_texts(columns, compared)
    check_columns(operator.out_columns, [])
    out = from_arrow_schema(operator.out_columns, prefer_timestamp_ntz=True)
    net = collapsed(operator, keys, collapse=collapse)
    lifetime = Lifetime(ttl_ms, remembers_deleted=False, of_keys=ttl_ms is not None)
    return apply(df, net, out, folder_of(state, name), partitions, lifetime)


def join(  # noqa: PLR0913 - each is a keyword of its own
    left: DataFrame,
    right: DataFrame,
    on: Sequence[str] | Mapping[str, str],
    *,
    how: How = "inner",
    state: str | None = None,
    name: str | None = None,
    partitions: int | None = None,
    ttl: Duration | tuple[Duration | None, Duration | None] | None = None,
    collapse: bool = False,
) -> DataFrame:
    """Return a changelog of the rows of two changelogs with equal keys.

    A row that comes or goes changes all pairs that it is in: each is +I or -D. A batch gives the difference
    between the join before it and after it. Null equals nothing, as in SQL.

    Args:
        left: a correct changelog, such as that of `normalize`; without `row_kind` every row is +I.
        right: another one. Both are streams, or neither is.
        on: the columns that are equal. A list has names that both sides have; they come once in the output. A
            mapping has the left name and the right name of each, and the output has all columns.
        how: "inner", "left", "right", "full", or "semi" and "anti": left rows with and without a partner.
        state: the folder of the operator, as for `normalize`.
        name: the name of the operator, as for `normalize`.
        partitions: number of partitions of the state, as for `normalize`.
        ttl: forget a row that was not written for this time; or a pair of times, for the left and the right
            side. A forgotten row emits nothing. If it goes later, its pairs with rows that are known go.
        collapse: emit no row as -D and +I in one batch. Without it a row that finds its first partner may
            do so, if the output has no column of the partner that is not null.

    Returns:
        The columns of `left`, those of `right` unless `how` is "semi" or "anti", and `row_kind`.

    Raises:
        SchemaError: a column does not exist, is nested, or both sides have it.
        OptionError: the streams have no `state`, or an argument is wrong.
    """
    if how not in HOWS:
        raise OptionError(f"Expected one of {', '.join(HOWS)} for `how`, got {how!r}.", option="how")
    both, names = both_sides(left, right, on, how)
    for side in (left, right):
        check_rows_come_once(side, "join")
    ttls_ms = tuple(time_to_live_ms("ttl", each) for each in (ttl if isinstance(ttl, tuple) else (ttl, ttl)))
    has_ttl = any(each is not None for each in ttls_ms)
    kind = JoinWithTtl if has_ttl else Join
    operator = kind(arrow(columns_without_kind(both)), how, names, pairs_of(on))
    out = StructType([*out_fields(both, names), KIND_FIELD])
    net = collapsed(operator, None, collapse=collapse)
    lifetime = Lifetime(remembers_deleted=False, by=SIDE if has_ttl else None, ttls_ms=ttls_ms)
    return apply(both, net, out, folder_of(state, name), partitions, lifetime)


def temporal_join(  # noqa: PLR0913 - each is a keyword of its own
    rows: DataFrame,
    versions: DataFrame,
    on: Sequence[str] | Mapping[str, str],
    *,
    time: str,
    version_time: str,
    delay: Duration,
    how: Literal["inner", "left"] = "inner",
    state: str | None = None,
    name: str | None = None,
    partitions: int | None = None,
    collapse: bool = False,
) -> DataFrame:
    """Return each row with the version of its key that was valid at the time of the row.

    A row waits until both sides have times that are later by more than `delay`. So it comes out when newer
    rows and versions come. A late row sees the version that was valid at the watermark, and newer ones. A
    late version counts for rows that are not out yet.

    Args:
        rows: append-only.
        versions: a changelog. A +I or +U is valid from its time on, until the next one of its key. From the
            time of a -D on there is no version. -U is ignored.
        on: the columns that are equal, as for `join`.
        time: the time of a row, a TIMESTAMP of `rows`.
        version_time: the time from which a version is valid, a TIMESTAMP of `versions`.
        delay: how late rows and versions may come, such as "5 s" or "0 s".
        how: "left" emits rows without a version too.
        state: the folder of the operator, as for `normalize`.
        name: the name of the operator, as for `normalize`.
        partitions: number of partitions of the state, as for `normalize`.
        collapse: changes nothing, because each row comes out once, as +I.

    Returns:
        The columns of `rows` and those of `versions`, and `row_kind`, which is always +I.

    Raises:
        SchemaError: a column does not exist, is nested, both sides have it, or a time is not a timestamp.
        OptionError: the streams have no `state`, or an argument is wrong.
    """
    return joined_versions(
        rows,
        versions,
        on,
        time=time,
        version_time=version_time,
        delay=delay,
        how=how,
        state=state,
        name=name,
        partitions=partitions,
        collapse=collapse,
    )


def joined_versions(  # noqa: PLR0913 - each is a keyword of its own
    rows: DataFrame,
    versions: DataFrame,
    on: Sequence[str] | Mapping[str, str],
    *,
    time: str,
    version_time: str,
    delay: Duration,
    how: Literal["inner", "left"],
    state: str | None,
    name: str | None = None,
    partitions: int | None = None,
    collapse: bool = False,
    has_whole_updates: bool = False,
) -> DataFrame:
    """Return what `temporal_join` returns.

    `has_whole_updates`: -U and +U of an update are always in one batch, as those of one record are. So a -U
    without a +U of its key ends the version.
    """
    if how not in ("inner", "left"):
        raise OptionError(f"Expected 'inner' or 'left' for `how`, got {how!r}.", option="how")
    both, names = both_sides(rows, versions, on, how)
    check_rows_come_once(rows, "temporal_join")
    times = (LEFT + time, RIGHT + version_time)
    for df, column in ((rows, time), (versions, version_time)):
        check_columns(arrow(columns_without_kind(df)), [column])
        check_time(df.schema, column)
    if rows.schema[time].dataType != versions.schema[version_time].dataType:
        raise SchemaError(
            f"The columns {time} and {version_time} have different types of timestamps. Cast one."
        )
    both = both.selectExpr("*", f"CAST(NULL AS BIGINT) AS {quoted(CLOCK)}")
    delay_us = 1_000 * duration_ms("delay", delay, is_zero_allowed=True)
    columns = arrow(columns_without_kind(both))
    operator = TemporalJoin(
        columns,
        times,
        names,
        how,
        delay_us,
        is_bounded=state is None,
        on=pairs_of(on),
        has_whole_updates=has_whole_updates,
    )
    out = StructType([*out_fields(both, names), KIND_FIELD])
    net = collapsed(operator, None, collapse=collapse)
    return apply(both, net, out, folder_of(state, name), partitions, Lifetime(remembers_deleted=False), times)
