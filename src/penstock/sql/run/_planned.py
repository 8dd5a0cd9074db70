"""One query by its plan: what binding asks of a session, and the tables and operators of the plan in Spark.

Runs on the driver. Invariant: a table is opened when the whole query is planned, with the columns that it
uses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from penstock.errors import OptionError, SchemaError, StateError
from penstock.spark.connect import is_connect
from penstock.spark.exchange import SharedRead, offer
from penstock.spark.native import watermark_count
from penstock.sql.bind.context import Context, SourceTable, SourceView, UnknownTypeError, UserFunction
from penstock.sql.bind.statement import bind_query
from penstock.sql.emit.select import Query
from penstock.sql.emit.spark_sql import FrameNode, SparkSql
from penstock.sql.functions.zones import SET_UTC, NeedsUtcError, depends_on_zone, has_zone
from penstock.sql.language.flink_types import Field
from penstock.sql.language.source import Source as ScriptSource
from penstock.sql.language.source import script_of
from penstock.sql.language.statements import Column, ComputedColumn, Fragment, Options
from penstock.sql.passes.assign_state_ids import NAMES
from penstock.sql.passes.context import PassContext
from penstock.sql.passes.engine.inputs import with_offsets, with_place
from penstock.sql.passes.planned import planned
from penstock.sql.plan.hidden import HIDDEN, OFFSETS, PLACE
from penstock.sql.plan.nodes import Input, Output, Scan, Source, Stateful
from penstock.sql.plan.rewrite import every_node
from penstock.sql.plan.texts import quoted
from penstock.sql.plan.traits import TraitsOf
from penstock.sql.plan.types import declared, text_of_spark, type_of_column
from penstock.sql.run import _tables as tables
from penstock.sql.run._chained import chained_side, operator_below
from penstock.sql.run._checkpoints import definition_of
from penstock.sql.run._late_rows import check_drift
from penstock.sql.run._opened import opened, source_of
from penstock.sql.run._operators import made
from penstock.sql.run._options import WRONG, is_about, located
from penstock.sql.run._packed import Read, packed_side, scan_of
from penstock.sql.run._scans import ScanRead, Scans, is_of_table
from penstock.sql.run._states import in_words
from penstock.sql.run._views import SparkViews
from penstock.sql.run.catalog import Catalog, Table
from penstock.sql.run.settings import Settings
from penstock.types import ROW_KIND

_TWO_READS = (
    "the checkpoint has one read for all sides of this join, and the query now needs a read for each side. "
    "Spark cannot continue so. The query, an OPTIONS hint or the time zone of the session has changed. "
    "Nothing was started. Start the script as it was. Or give the job a new name: "
    "SET 'pipeline.name' = '...'. docs/change-a-job.md, 'A new name', says how to begin where the old script "
    "stopped."
)


@dataclass
class Planner:
    """Plans one query, and opens what it reads.

    Attributes:
        catalog: the tables, views and functions of the session.
        settings: of the session.
        views: Spark.
        states: gives the folder of the states of the query.
        warn: takes the warning of a value that may vary and is accepted.
        opened: the views of tables that this statement has opened.
        definitions: of the views, tables and functions that the query uses, by their names.
        reads: the tables that the query names, each with the options of its hint, and what is known of it.
        has_interval_join: whether Spark forgets rows of a join in a view of Spark by their times.
        known_shared: gives the joins of the query's checkpoint whose sides have one read, by the ids of their
            states; None if the query is new. Only operators with a state ask it.
        shared: those of this query.
    """

    catalog: Catalog
    settings: Settings
    views: SparkViews
    states: Callable[[], str]
    warn: Callable[[str], None]
    opened: dict[Any, str]
    definitions: dict[str, str] = field(default_factory=dict)
    reads: dict[tuple[tuple[str, ...], Options], Source] = field(default_factory=dict)
    has_interval_join: bool = False
    known_shared: Callable[[], frozenset[str] | None] = lambda: None
    shared: set[str] = field(default_factory=set)
    _script: ScriptSource = field(default_factory=lambda: ScriptSource(""))
    _offset: int = 0
    _database: str = ""
    """Where the session finds names without a database."""
    _scans: Scans = field(default_factory=lambda: Scans(()))
    _packs: bool = False
    """Whether rows may go to an operator in packages."""
    _operators: dict[str, Any] = field(default_factory=dict)
    """The rows that the operators of the query give, by the ids of their states."""

    # ---- what binding asks

    @property
    def is_batch(self) -> bool:
        return self.settings.is_batch

    @property
    def zone_is_utc(self) -> bool:
        return self.views.zone_is_utc

    @property
    def foreign_zone(self) -> str | None:
        return self.views.foreign_zone

    def table(self, parts: tuple[str, ...], options: Options) -> SourceTable | SourceView | None:
        """Return a table or view; None if there is no such table.

        Raises:
            ValueError: it has an OPTIONS hint, and no options.
        """
        found = self.catalog.find(parts)
        if options and not isinstance(found, Table):
            _check_no_hint(".".join(parts), exists=found is not None or self.views.table(parts) is not None)
        if found is None:
            return self._table_of_spark(parts)
        if len(parts) == 1 and self.catalog.database != self._database:  # in a view of another database
            parts = (self.catalog.database, *parts)
        self.definitions[".".join(self.catalog.key(parts))] = definition_of(found)
        if not isinstance(found, Table):
            view = found.definition
            self.reads.setdefault((parts, options), Source(None, str(view.name), is_stream=False))
            return SourceView(view.query, found.source, view.columns, found.database)
        source = self._with_declaration(found, options, lambda table: self._source_of(found, table, options))
        self.reads.setdefault((parts, options), source)
        mark = found.definition.watermark
        if mark is not None and source.is_stream and not self.zone_is_utc:
            message = f"on Spark Connect a stream with a WATERMARK needs the time zone UTC. {SET_UTC}"
            raise NeedsUtcError(found.source.error(message, mark.expression.offset))
        columns = tuple(map(_column_of, found.definition.columns))
        return SourceTable(source, columns, found.source, -1 if mark is None else mark.expression.offset)

    def _source_of(self, declared_: Table, table: Table, options: Options) -> Source:
        tables.check_use(table, is_read=True, is_batch=self.is_batch)
        if not self.is_batch:
            check_drift(table)
        if self.foreign_zone is not None:
            tables.check_local(table, self.foreign_zone)
        return source_of(
            declared_, options, is_batch=self.is_batch, drops_duplicates=self.settings.drops_duplicates
        )

    def _with_declaration(self, table: Table, hinted: Options, work: Callable[[Table], Any]) -> Any:
        """Return what `work` makes of a table with its hint.

        Its errors are shown where the table was declared.

        Raises:
            OptionError: an option of the hint is wrong. The query knows where the hint stands.
            SqlError: another one is.
        """
        try:
            return work(tables.with_idle_timeout(table.hinted(hinted), self.settings.idle_timeout))
        except WRONG as error:
            if is_about(error, dict(hinted)):
                raise
            raise located(error, (table.source, table.definition.name.offset)) from None

    def _table_of_spark(self, parts: tuple[str, ...]) -> SourceTable | None:
        frame, name = self.views.table(parts), ".".join(parts)
        if frame is None:
            return None
        source = Source((name, frame), name, is_stream=bool(frame.isStreaming) and not self.is_batch)
        self.reads.setdefault((parts, ()), source)
        if frame.isStreaming and ROW_KIND in frame.columns:
            raise ValueError(
                f"the view {name} of Spark is a stream with the column '{ROW_KIND}'. If its rows "
                "change other rows, all of them would count as inserts here: write its query in CREATE VIEW. "
                "If they are append-only, give the column another name."
            )
        kinds = [(each.name, text_of_spark(each.dataType)) for each in frame.schema.fields]
        zoned = next((column for column, kind in kinds if has_zone(kind)), None)
        if self.foreign_zone is not None and zoned is not None:
            raise ValueError(depends_on_zone(f"the TIMESTAMP '{zoned}' of {name}", self.foreign_zone))
        # The view may be a SELECT of this session that has an interval join. Connect does not show it.
        if frame.isStreaming and not is_connect(self.views.spark):
            self.has_interval_join |= watermark_count(frame) > 1
        return SourceTable(source, tuple(Field(column, type_of_column(kind)) for column, kind in kinds))

    def within(self, database: str) -> AbstractContextManager[None]:
        """Return a context in which names without a database are those of this one."""
        return self.catalog.within(database)

    def tables(self) -> list[str]:
        """Return the names of all tables and views, for messages."""
        return self.catalog.names()

    def function(self, name: str) -> UserFunction | None:
        """Return a function that the user has created; None if there is none."""
        created = self.catalog.functions.get(name.lower())
        if created is None:
            return None
        self.definitions[f"function {name.lower()}"] = created.path
        return UserFunction(self.views.function_name(name), created.is_deterministic)

    def spark_types(self, select: str) -> list[tuple[str, str]]:
        """Return names and types of the columns of a query without tables."""
        return [
            (each.name, text_of_spark(each.dataType)) for each in self.views.analysed(select).schema.fields
        ]

    # ---- plans

    def plan(
        self,
        fragment: Fragment,
        script: ScriptSource,
        traits: TraitsOf,
        *,
        wants_offsets: bool = False,
        free: tuple[bool, ...] = (),
        is_insert: bool = False,
    ) -> Output:
        """Return the plan of a query.

        Args:
            fragment: its text.
            script: that has it.
            traits: of its nodes.
            wants_offsets: whether the rows are wanted with the offsets of their records, if they have some.
            free: for each column, whether a clock may stand in it although the rows change.
            is_insert: whether SQL starts the query, and not the user.
        """
        self._script, self._offset, self._database = script, fragment.offset, self.catalog.database
        self._packs = is_insert and not self.is_batch and self.foreign_zone is None
        context = Context(self, script)
        bound = bind_query(fragment, script, context)
        for name in bound.names:
            if name in HIDDEN:
                message = f"penstock itself uses the name '{name}'. Give the column another one with AS."
                raise script.error(message, fragment.offset)
        passes = PassContext(
            script,
            context.column,
            context.type_of,
            is_utc=self.zone_is_utc,
            ttl=self.settings.ttl,
            free=free,
            wants_offsets=wants_offsets,
            keeps_varying=not self.settings.ignores_varying,
            accepts_varying=self._accepts_varying,
            traits=traits,
            is_insert=is_insert,
        )
        if wants_offsets:
            bound = _with_offsets(bound, passes)
        plan = planned(bound, passes, is_batch=self.is_batch)
        self._scans = Scans(each for each in every_node(plan) if isinstance(each, Scan))
        return plan

    def _accepts_varying(self, message: str) -> bool:
        if self.settings.ignores_varying:
            self.warn(message)
        return self.settings.ignores_varying

    def query(self, plan: Output, traits: TraitsOf) -> Query:
        """Return a plan in Spark's SQL, over views of its tables and operators."""
        return SparkSql(self, traits).query(plan)

    def scan(self, node: Scan) -> str:
        """Return the name of a view with the columns of a table."""
        if not is_of_table(node.source):
            key: Any = node.source.key
            return self.views.named(key[1])
        read = self._scans.read(node)
        wanted = (read, node.source.is_stream, self.foreign_zone)
        if wanted not in self.opened:
            frame = self._with_declaration(
                read.table, read.options, lambda hinted: self._opened(hinted, node.source, read)
            )
            self.opened[wanted] = self.views.named(frame)
        return self.opened[wanted]

    def _opened(self, table: Table, source: Source, read: ScanRead) -> Any:
        frame = opened(
            table,
            self.views.spark,
            streaming=source.is_stream,
            has_offsets=read.has_offsets,
            has_place=read.has_place,
        )
        if self.foreign_zone is not None:
            frame = tables.with_local_times(frame, table, self.foreign_zone)
        hidden = [quoted(each) for each in HIDDEN if each in frame.columns]
        texts = [*tables.stored_texts(table), *hidden]
        return frame if texts == list(map(quoted, frame.columns)) else frame.selectExpr(*texts)

    def made(self, node: FrameNode, queries: Sequence[Query]) -> str:
        """Return the name of a view with the rows that a node makes of queries."""
        try:
            return self._made(node, queries)
        except UnknownTypeError as error:
            message = f"Spark refuses the query: {error}"
        except SchemaError as error:
            message = _with_its_name(error, node)
        except OptionError as error:
            message = error.message
        offset = max(node.offset, 0) if isinstance(node, Stateful) else self._offset
        raise script_of(offset, self._script).error(message, offset)

    def _made(self, node: FrameNode, queries: Sequence[Query]) -> str:
        frames = list(map(self.views.rows, queries))
        shared = self._offer_inputs(node, frames) if isinstance(node, Stateful) and self._packs else None
        state_id = node.state_id if isinstance(node, Stateful) else ""
        state = f"{self.states()}/{state_id}" if state_id else None
        try:
            rows = made(node, frames, state, self.settings.ttl)
        except StateError as error:
            if not isinstance(node, Stateful):
                raise
            message = in_words(error, NAMES[type(node.operator).__name__])
            if message is None:
                raise
            script = script_of(node.offset, self._script)
            raise script.error(message, max(node.offset, 0), state=error.facts["path"]) from None
        self._operators[state_id] = rows
        if shared is not None and shared.is_used:
            self.shared.add(state_id)
        elif isinstance(node, Stateful) and state_id and state_id in (self.known_shared() or ()):
            raise script_of(node.offset, self._script).error(
                _TWO_READS, max(node.offset, 0), state=str(state)
            )
        return self.views.named(rows)

    def _offer_inputs(self, node: Stateful, frames: Sequence[Any]) -> SharedRead | None:
        """Offer the rows of an operator in packages. Return the read for all sides, if there is one."""
        shared = self._shared_read(node)
        for each, frame in zip(node.inputs, frames, strict=True):
            self._offer(each, frame, shared)
            self._offer_operator(each, frame)
        return shared

    def _shared_read(self, node: Stateful) -> SharedRead | None:
        """Return the read for all sides of a join; None if each side has its own.

        All are reads of one table, which the query reads nowhere else. A query that has begun keeps the
        number of its sources.
        """
        scans = [scan for scan in (scan_of(each.node) for each in node.inputs) if scan is not None]
        if len(node.inputs) < 2 or len(scans) != len(node.inputs) or not is_of_table(scans[0].source):
            return None
        key = scans[0].source.key
        if any(each.source.key != key for each in scans) or len(self._scans.of(key)) != len(scans):
            return None
        known = self.known_shared()
        if known is not None and node.state_id not in known:
            return None
        both = self._packed_read(self._scans.read_of_all(key))
        return SharedRead(partial(both.open, self.views.spark))

    def _offer(self, rows: Input, frame: Any, shared: SharedRead | None) -> None:
        """Remember that the rows of an operator's input can come in packages, if they can."""
        scan = scan_of(rows.node)
        if scan is None or not is_of_table(scan.source):
            return
        read = self._scans.read(scan)
        if shared is None and self._scans.is_shared(read):  # two sources in place of one have two offsets
            return
        side = packed_side(rows, frame, self._packed_read(read), shared, is_utc=self.zone_is_utc)
        if side is not None:
            offer(frame, side)

    def _packed_read(self, read: ScanRead) -> Read:
        table = self._with_declaration(read.table, read.options, lambda hinted: hinted)
        return Read(table, read.has_offsets)

    def _offer_operator(self, rows: Input, frame: Any) -> None:
        """Do the same for an input that is made of the rows of another operator with a state."""
        below = operator_below(rows.node)
        if below is None or not below.state_id:
            return
        side = chained_side(rows, frame, self._operators[below.state_id], is_utc=self.zone_is_utc)
        if side is not None:
            offer(frame, side)


def _with_offsets(plan: Output, context: PassContext) -> Output:
    """Return a plan whose last columns are the offsets of records, or their place, if its rows have some."""
    rows, found = with_offsets(plan.input, context)
    names: tuple[str, ...] = OFFSETS
    if not found:
        rows, found = with_place(plan.input, context)
        names = (PLACE,)
    if not found:
        return plan
    return replace(plan, input=rows, columns=(*plan.columns, *found), names=(*plan.names, *names))


def _with_its_name(error: SchemaError, node: FrameNode) -> str:
    """Return the message of an operator, with the user's name of the column in place of the operator's."""
    label = error.facts.get("column")
    names = {label: column.name for each in getattr(node, "inputs", ()) for label, column in each.columns}
    return error.message.replace(f"'{label}'", f"'{names[label]}'") if label in names else error.message


def _check_no_hint(name: str, *, exists: bool) -> None:
    if exists:
        raise ValueError(
            f"an OPTIONS hint is for tables of CREATE TABLE, and '{name}' is a view. Write the hint behind "
            "the table that the view reads."
        )


def _column_of(column: Column) -> Field | ComputedColumn:
    return column if isinstance(column, ComputedColumn) else Field(column.name, declared(column.type))
