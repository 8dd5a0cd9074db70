"""What translations ask of a session: tables as views of Spark, and the types of columns.

Runs on the driver. Invariant: a view of Spark is made when a statement first names its table, and reads
nothing.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.changelog.row_kinds import ROW_KIND
from penstock.errors import OptionError, SchemaError, StateError
from penstock.spark.connect import is_connect
from penstock.spark.native import WAITS, WATERMARK, analyzed_plan, has_watermark, watermark_count
from penstock.spark.one_thread import left_to_the_start
from penstock.sql.connectors.described import Kafka
from penstock.sql.connectors.options import WrongOptionError
from penstock.sql.connectors.sessions import is_stopped
from penstock.sql.language.source import Source
from penstock.sql.language.statements import ComputedColumn, Fragment, Options
from penstock.sql.query.piece import (
    OtherStateError,
    Translated,
    UnknownTypeError,
    UserFunction,
    quoted,
    spark_type,
)
from penstock.sql.query.rows import KIND, Relation, Rows, VaryingColumn, shaped
from penstock.sql.query.steps import Operation, PlainTimes, Step, TimedChanges, WindowChanges, WindowEnds
from penstock.sql.query.translate import translate_expression, translate_query
from penstock.sql.query.varying import VaryingCall, varying_column
from penstock.sql.query.zones import SET_UTC, NeedsUtcError, depends_on_zone, has_zone, local_rows
from penstock.sql.run import _tables as tables
from penstock.sql.run._checkpoints import definition_of
from penstock.sql.run._cuts import Notes, cut_of, many_hops, normalize_of, windows_of
from penstock.sql.run._explain import plan_text
from penstock.sql.run._join_keys import forgets_by_one_side
from penstock.sql.run._late_rows import check_drift
from penstock.sql.run._opened import Opened, shown_columns, time_of, varying_metadata
from penstock.sql.run._options import WRONG, is_about, located
from penstock.sql.run._states import NORMALIZE, States, TemporaryFolders, beside, in_words
from penstock.sql.run._steps import name_of, run_step, times_to_live
from penstock.sql.run._windows import window_parts
from penstock.sql.run.catalog import Catalog, Table, View

if TYPE_CHECKING:
    from penstock.sql.run.settings import Settings

T = TypeVar("T")
_ZONE = "spark.sql.session.timeZone"
_CLASS = re.compile(r"^\[[A-Z_.0-9]+\]\s*")


@dataclass(frozen=True)
class Found:
    """The rows of a query.

    Attributes:
        frame: a DataFrame with hidden columns.
        rows: what is known of them.
        sql: the query in Spark's SQL.
        definitions: of the views, tables and functions that the query uses, by their names.
        operators: how many operators keep a state for it.
    """

    frame: Any
    rows: Rows
    sql: str
    definitions: Mapping[str, str]
    operators: int


@dataclass(frozen=True)
class _Made:
    """A view of Spark that a statement uses again, and what a query that uses it has to know.

    Attributes:
        relation: the view.
        definitions: of what it uses.
        notes: what was found while it was made.
        has_interval_join: whether Spark forgets rows of a join in it by their times.
    """

    relation: Relation
    definitions: Mapping[str, str]
    notes: Notes
    has_interval_join: bool


class SparkBinder:
    """The tables of one session for translations; see `penstock.sql.query.piece.Binder`."""

    def __init__(self, spark: Any, catalog: Catalog, settings: Settings) -> None:
        self._spark = spark
        self._catalog = catalog
        self._settings = settings
        self._views: dict[tuple[Any, ...], _Made] = {}
        """The views of this statement."""
        self._definitions: dict[str, str] = {}
        """Those that the query of now uses."""
        self._has_interval_join = False
        self._states: States | None = None
        self._foreign_zone: str | None = None
        self._notes: Notes | None = None
        self._temporary = TemporaryFolders()
        self._created: list[str] = []
        self._numbers = itertools.count(1)
        self._prefix = f"penstock_sql_{uuid.uuid4().hex[:8]}"

    @property
    def zone_is_utc(self) -> bool:
        return self._spark.conf.get(_ZONE) in ("UTC", "Etc/UTC", "GMT", "Z", "+00:00")

    @property
    def foreign_zone(self) -> str | None:
        """Return the zone of the session if the query runs in UTC instead."""
        return self._foreign_zone

    def in_its_zone(self, work: Callable[[], T]) -> T:
        """Return what `work` gives: in the zone of the session, or in UTC if a query needs it.

        Raises:
            SqlError: a query needs UTC, and has a part that depends on the zone of the session.
        """
        notes = copy.deepcopy(self._notes)
        try:
            return work()
        except NeedsUtcError as error:
            # The plans of Spark Connect are made again later, when the session is in its own zone.
            if is_connect(self._spark):
                raise error.refusal from None
        if self._notes is not None and notes is not None:
            vars(self._notes).update(vars(notes))
        with self.in_utc():
            return work()

    @contextlib.contextmanager
    def in_utc(self) -> Iterator[None]:
        """Return a context in which Spark is in UTC, although the session is not."""
        before = self._spark.conf.get(_ZONE)
        self._spark.conf.set(_ZONE, "UTC")
        self._foreign_zone = before
        try:
            yield
        finally:
            self._foreign_zone = None
            self._spark.conf.set(_ZONE, before)

    @property
    def state_ttl(self) -> str | None:
        """Return how long states keep rows; None for ever."""
        return self._settings.ttl

    @contextlib.contextmanager
    def noting(self) -> Iterator[Notes]:
        """Return a context in which the tables and the cuts of queries are noted, for EXPLAIN."""
        self._notes = notes = Notes()
        try:
            yield notes
        finally:
            self._notes = None

    def table(
        self, parts: tuple[str, ...], options: Options, *, has_place: bool = False, is_raw: bool = False
    ) -> Relation | None:
        """Return a table or view; None if there is no such table."""
        found = self._relation(parts, options, has_place=has_place, is_raw=is_raw)
        if self._notes is not None and found is not None:
            self._notes.reads.setdefault((parts, options), found.rows)
        return found

    def _relation(
        self, parts: tuple[str, ...], options: Options, *, has_place: bool, is_raw: bool
    ) -> Relation | None:
        found = self._catalog.find(parts)
        if found is None:
            return self._table_of_spark(".".join(map(quoted, parts)))
        if isinstance(found, Table) and found.hinted(options).kind is not Kafka:
            has_place = False  # one DataFrame for all places where the table stands
        key = (found, options, self._settings.is_batch, has_place, is_raw, self._foreign_zone)
        if key in self._views:
            return self._again(self._views[key])
        states = self._states.count if self._states is not None else 0
        with self._made_apart() as notes:
            self._definitions[".".join(self._catalog.key(parts))] = definition_of(found)
            if isinstance(found, Table):
                frame, rows, varying = self._table(found, options, has_place=has_place, is_raw=is_raw)
                time = time_of(found) if frame.isStreaming else None
                made = Relation(self._named(frame), rows, time, varying if rows.changes is not None else ())
            else:
                frame, rows = self._view(found, has_place=has_place, is_raw=is_raw)
                made = Relation(self._named(frame), rows, rows.time)
            known = _Made(made, self._definitions, notes, self._has_interval_join)
        # An operator with a state must not stand twice in a query, so its view is not used again.
        if self._states is None or self._states.count == states:
            self._views[key] = known
        return made

    def _again(self, known: _Made) -> Relation:
        """Return a view of Spark that this query, or an earlier one of the statement, has made."""
        self._definitions.update(known.definitions)
        self._has_interval_join |= known.has_interval_join
        if self._notes is not None:
            self._notes.add_again(known.notes)
        return known.relation

    @contextlib.contextmanager
    def _made_apart(self) -> Iterator[Notes]:
        """Return a context that collects what is found in it. The query around it gets that as well."""
        notes, definitions, has_join = self._notes, self._definitions, self._has_interval_join
        self._notes, self._definitions, self._has_interval_join = Notes(), {}, False
        try:
            yield self._notes
        finally:
            inner, self._notes = self._notes, notes
            if notes is not None:
                notes.add(inner)
            self._definitions = {**definitions, **self._definitions}
            self._has_interval_join |= has_join

    def _table_of_spark(self, name: str) -> Relation | None:
        if not self._spark.catalog.tableExists(name):
            return None
        frame = self._spark.table(name)
        if frame.isStreaming and ROW_KIND in frame.columns:
            raise ValueError(
                f"the view {name} of Spark is a stream with the column '{ROW_KIND}'. If its rows change "
                "other rows, all of them would count as inserts here: write its query in CREATE VIEW. If "
                "they are only inserted, give the column another name."
            )
        zoned = next((each for each in frame.schema.fields if has_zone(spark_type(each.dataType))), None)
        if self._foreign_zone is not None and zoned is not None:
            raise ValueError(depends_on_zone(f"the TIMESTAMP '{zoned.name}' of {name}", self._foreign_zone))
        # The view may be a SELECT of this session that has an interval join.
        if frame.isStreaming and not is_connect(self._spark):  # Connect does not show what Spark forgets
            self._has_interval_join |= watermark_count(frame) > 1
        return Relation(name)

    def _named(self, frame: Any) -> str:
        name = f"{self._prefix}_{next(self._numbers)}"
        frame.createOrReplaceTempView(name)
        self._created.append(name)
        return quoted(name)

    def is_streaming(self, select: str) -> bool:
        return not self._settings.is_batch and bool(self._analysed(select).isStreaming)

    def cut(self, step: Step, place: str = "") -> str:
        """Return the name of a view of the rows that an operator makes of queries."""
        inputs: list[bool] = []

        def frame_of(query: str) -> Any:
            frame = self._analysed(query)
            inputs.append(KIND in frame.columns)
            return frame

        try:
            frame = run_step(step, frame_of, self._folder, self._settings.ttl)
        except StateError as error:
            raise in_words(error, name_of(step)) if isinstance(step, Operation) else error from None
        if self._notes is None:
            return self._named(frame)
        if isinstance(step, WindowEnds):
            self._notes.hops += many_hops(step.hops, place)
        elif isinstance(step, WindowChanges):
            self._notes.cuts.append(windows_of(place))
        elif not isinstance(step, (TimedChanges, PlainTimes)):
            changes = KIND in frame.columns
            ttls = times_to_live(step, self._settings.ttl)
            self._notes.cuts.append(cut_of(name_of(step), step, place, inputs, ttls, changes=changes))
        return self._named(frame)

    def window_parts(self, select: str) -> dict[str, str]:
        """Return the columns of a stream that are the end or the time of a window."""
        frame = self._analysed(select)
        return window_parts(frame) if frame.isStreaming else {}

    def kind_of_time(self, select: str, column: str) -> str:
        """Return what the only column of a query is: "watermark", "proctime", or "" for another one."""
        frame = self._analysed(select)
        if WATERMARK in frame.schema.fields[0].metadata:
            return "watermark"
        is_clock = re.search(rf"current_timestamp\(\) AS {re.escape(column)}#", analyzed_plan(frame))
        return "proctime" if column and is_clock else ""

    def watermarks(self, select: str) -> dict[str, bool] | None:
        if self._settings.is_batch:
            return None
        frame = self._analysed(select)
        if not frame.isStreaming or not has_watermark(frame):
            return None
        marked = [field for field in frame.schema.fields if WATERMARK in field.metadata]
        return {field.name: field.metadata.items() >= WAITS.items() for field in marked}

    def has_outer_join(self, select: str) -> bool:
        return (
            re.search(r"\bJoin (?:Left|Right|Full)Outer\b", analyzed_plan(self._analysed(select))) is not None
        )

    def _analysed(self, select: str) -> Any:
        from pyspark.errors import PySparkException  # noqa: PLC0415 - lazy

        try:
            frame = self._spark.sql(select)
            frame.schema  # noqa: B018 - a session of Connect analyses here
        except PySparkException as error:
            raise UnknownTypeError(spark_message(error)) from None
        return frame

    def _folder(self, operator: str) -> str:
        if self._states is None:
            self._states = self._temporary.states()
        return self._states.next(operator)

    @contextlib.contextmanager
    def states_in(self, checkpoint: str | None) -> Iterator[None]:
        """Return a context in which a query is translated that has this folder of checkpoints.

        Without one, states are in temporary folders of this machine. The operators of the query leave Spark's
        options as they are: who starts the query has to call `planned_in_one_thread`.
        """
        self._states = None if checkpoint is None else beside(checkpoint)
        self._definitions = {}
        self._has_interval_join = False
        try:
            with left_to_the_start():
                yield
        finally:
            self._states = None

    def tables(self) -> list[str]:
        """Return the names of all tables and views of the session."""
        return self._catalog.names()

    def column_types(self, select: str) -> list[tuple[str, str]]:
        fields = self._analysed(select).schema.fields
        return [(field.name, spark_type(field.dataType)) for field in fields]

    def function(self, name: str) -> UserFunction | None:
        """Return a function that the user has created; None if there is none."""
        created = self._catalog.functions.get(name.lower())
        if created is None:
            return None
        self._definitions[f"function {name.lower()}"] = created.path
        return UserFunction(self.function_name(name), created.is_deterministic)

    def accepts_varying(self, message: str) -> bool:
        """Return whether a value that may vary is accepted over rows that change, and note a warning.

        In a batch no row is taken back.
        """
        if self._settings.is_batch:
            return True
        if self._settings.ignores_varying and self._notes is not None:
            self._notes.varying.append(message)
        return self._settings.ignores_varying

    def function_name(self, name: str) -> str:
        """Return the name under which Spark knows a function of the user, which no other function has."""
        return f"{self._prefix}_{name.lower()}"

    def forget(self) -> None:
        """Make new views from now on, because a view keeps the ends that its topics had at its first read.

        The old views stay until `close`: DataFrames of Spark Connect look them up again.
        """
        self._views.clear()

    def close(self) -> None:
        """Remove the views of this session from Spark, and temporary folders."""
        self.forget()
        for name in self._created if not is_stopped(self._spark) else ():
            self._spark.catalog.dropTempView(name)
        self._created.clear()
        self._temporary.remove()

    def _table(
        self, declared: Table, hinted: Options, *, has_place: bool, is_raw: bool
    ) -> tuple[Any, Rows, tuple[VaryingColumn, ...]]:
        settings, table = self._settings, declared.hinted(hinted)
        streaming = not settings.is_batch
        try:
            tables.check_use(table, is_read=True, is_batch=settings.is_batch)
            table = tables.with_idle_timeout(table, settings.idle_timeout)
            if streaming:
                check_drift(table)
            opened = Opened(table, streaming=streaming, has_place=has_place, is_raw=is_raw)
            normal = opened.is_normalized(streaming=streaming, drops_duplicates=settings.drops_duplicates)
            frame = opened.frame(self._spark, streaming=streaming, is_normalized=normal)
            rows = opened.rows(streaming=frame.isStreaming, is_normalized=normal)
            if normal and frame.isStreaming and self._notes is not None:
                self._notes.cuts.append(normalize_of(f"table {table.definition.name}"))
            if normal:
                frame = self._normalized(opened, frame)
            if self._foreign_zone is not None:
                tables.check_local(table, self._foreign_zone)
                frame = tables.with_local_times(frame, table, self._foreign_zone)
        except OtherStateError as error:
            place = table.definition.name.offset
            raise table.source.error(str(error), place, state=error.path) from None
        except WRONG as error:
            if is_about(error, dict(hinted)):
                raise  # the query knows where the hint stands
            raise located(error, (table.source, table.definition.name.offset)) from None
        self._check_zone(table, frame.isStreaming)
        computed, varying = self._computed(table, frame)
        if not normal and not is_raw:
            varying += varying_metadata(table)
        return shown_columns(opened, frame, computed, rows), rows, varying

    def _normalized(self, opened: Opened, frame: Any) -> Any:
        try:
            return opened.normalized(frame, self._folder, self._settings.ttl)
        except StateError as error:
            raise in_words(error, NORMALIZE) from None

    def _check_zone(self, table: Table, streaming: bool) -> None:
        mark = table.definition.watermark
        if mark is not None and streaming and not self.zone_is_utc:
            message = f"on Spark Connect a stream with a WATERMARK needs the time zone UTC. {SET_UTC}"
            raise NeedsUtcError(table.source.error(message, mark.expression.offset))

    def _computed(self, table: Table, frame: Any) -> tuple[dict[str, str], tuple[VaryingColumn, ...]]:
        """Return the texts of computed columns, and which of them may have another value the next time."""
        computed = [each for each in table.definition.columns if isinstance(each, ComputedColumn)]
        if not computed:
            return {}, ()
        name = f"{self._prefix}_{next(self._numbers)}"
        frame.createOrReplaceTempView(name)
        try:
            found = {each.name: self._computed_text(table, each, quoted(name)) for each in computed}
        finally:
            self._spark.catalog.dropTempView(name)
        varying = (varying_column(each, calls) for each, (_, calls) in found.items())
        return {each: text for each, (text, _) in found.items()}, tuple(filter(None, varying))

    def _computed_text(
        self, table: Table, column: ComputedColumn, view: str
    ) -> tuple[str, list[VaryingCall]]:
        found, calls = translate_expression(column.expression, table.source, self, f"FROM {view}")
        mark = table.definition.watermark
        if mark is not None and mark.column == column.name:
            tables.check_time(table, found.type)
        return found.text, calls

    def _view(self, view: View, *, has_place: bool, is_raw: bool) -> tuple[Any, Rows]:
        definition = view.definition
        with self._catalog.within(view.database):
            found = self.query(
                definition.query, view.source, has_place=has_place, is_inner=True, is_raw=is_raw
            )
        if not definition.columns:
            return found.frame, found.rows
        hidden = found.rows.hidden
        old = [name.lower() for name in found.frame.columns if name not in hidden]
        names = dict(zip(old, (name.lower() for name in definition.columns), strict=True))
        return found.frame.toDF(*definition.columns, *hidden), found.rows.renamed(names)

    def query(
        self,
        fragment: Fragment,
        source: Source,
        *,
        has_place: bool = False,
        is_inner: bool = False,
        is_raw: bool = False,
        free: tuple[bool, ...] = (),
    ) -> Found:
        """Return the rows of a query, checked.

        Args:
            fragment: its text.
            source: the script.
            has_place: whether the rows are wanted with their places, if they have some.
            is_inner: whether other queries read the rows.
            is_raw: whether the rows are wanted as versions of their keys.
            free: for each column, whether a clock may stand in it although the rows change.

        Raises:
            SqlError: the query is wrong or not served.
        """
        try:
            translated = translate_query(
                fragment, source, self, has_place=has_place, is_inner=is_inner, is_raw=is_raw, free=free
            )
        except (OptionError, SchemaError, WrongOptionError) as error:  # of a hint
            raise located(error, (source, fragment.offset)) from None
        rows = replace(translated.rows, has_place=has_place and translated.rows.has_place)
        changes = rows.changes is not None
        sql = shaped(translated.sql, translated.rows, changes=changes, has_place=rows.has_place)
        frame = self.frame(sql, source, fragment.offset)
        if self._notes is not None and translated.drops_late_rows:
            self._notes.drops_late_rows = True
        check_streamed(translated, frame, source)
        self._has_interval_join |= translated.has_interval_join
        if self._has_interval_join and not is_inner and frame.isStreaming:
            self._check_join_keys(frame, source, fragment.offset)
        if self._foreign_zone is not None and not is_inner:
            frame = local_rows(frame)
        operators = self._states.count if self._states is not None else 0
        return Found(frame, rows, sql, dict(self._definitions), operators)

    def _check_join_keys(self, frame: Any, source: Source, offset: int) -> None:
        plan = plan_text(frame)  # None on Spark Connect, which does not show it
        if plan is not None and forgets_by_one_side(plan):
            raise source.error(
                "a condition behind an interval join says that a column with a WATERMARK = another time. "
                "Spark would make it a part of the join, and forget rows too early. Nothing was started. "
                "Write `x <= y AND x >= y` in place of `x = y`.",
                offset,
            )

    def frame(self, sql: str, source: Source, offset: int) -> Any:
        """Return the DataFrame of a translated query, which Spark has analysed.

        Raises:
            SqlError: Spark refuses it.
        """
        try:
            return self._analysed(sql)
        except UnknownTypeError as error:
            message = str(error)
        raise source.error(f"Spark refuses the query: {message}", _place(message, source, offset))


def _place(message: str, source: Source, offset: int) -> int:
    """Return where the name that Spark's message names stands in the query, or the query's beginning."""
    name = re.search(r"with name `?(?:`[^`]+`\.)*`?([^`]+)`", message)
    found = re.search(rf"\b{re.escape(name.group(1))}\b", source.text[offset:]) if name else None
    return offset + (found.start() if found else 0)


def check_streamed(translated: Translated, frame: Any, source: Source) -> None:
    """Refuse a query over a stream that has a part that Spark cannot stream.

    Raises:
        SqlError: the message names the first such part.
    """
    if not frame.isStreaming:
        return
    parts = sorted(translated.batch_only, key=lambda each: each.offset)
    if parts:
        raise source.error(
            f"{parts[0].name} is not served in a stream yet. {parts[0].instead}", parts[0].offset
        )


def spark_message(error: Any) -> str:
    """Return the first line of an error of Spark, without the name of its class."""
    text = _CLASS.sub("", str(error).strip()).split("\n")[0]
    return text.split(" SQLSTATE")[0].split("; line ")[0].strip()
