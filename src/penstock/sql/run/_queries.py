"""The queries of a session: their rows, what is known of them, and what was noted while they were planned.

Runs on the driver. Invariant: nothing runs before the whole query is planned, and nothing is read before it
starts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TypeVar

from penstock.errors import OptionError, SchemaError
from penstock.spark.connect import is_connect
from penstock.spark.one_thread import left_to_the_start
from penstock.sql.bind.context import UnknownTypeError
from penstock.sql.connectors.options import WrongOptionError
from penstock.sql.emit.select import Query
from penstock.sql.functions.zones import NeedsUtcError, local_rows
from penstock.sql.language.source import Source
from penstock.sql.language.statements import Fragment, Name
from penstock.sql.passes.assign_state_ids import states_of
from penstock.sql.plan.hidden import OFFSETS, PLACE
from penstock.sql.plan.nodes import Aggregate, Join, Node, Output, Scan, SetOperation, Stateful
from penstock.sql.plan.operators import MultiJoin, Normalization, RegularJoin
from penstock.sql.plan.rewrite import has_queries, inputs_of, nodes_in, scan_below
from penstock.sql.plan.show import shown
from penstock.sql.plan.texts import quoted
from penstock.sql.plan.traits import TraitsOf
from penstock.sql.run._checkpoints import shared_reads
from penstock.sql.run._cuts import Notes, note_plan
from penstock.sql.run._explain import plan_text
from penstock.sql.run._join_keys import forgets_by_one_side
from penstock.sql.run._options import located
from penstock.sql.run._planned import Planner
from penstock.sql.run._rows import RowTraits
from penstock.sql.run._states import TemporaryFolders, beside
from penstock.sql.run._tables import shown_fields
from penstock.sql.run._topics import TablesOfTopics
from penstock.sql.run._views import SparkViews
from penstock.sql.run.catalog import Catalog
from penstock.sql.run.settings import Settings

T = TypeVar("T")


@dataclass(frozen=True)
class QueryRows:
    """The rows of a query.

    Attributes:
        frame: a DataFrame with hidden columns.
        rows: what is known of them.
        sql: the query in Spark's SQL.
        plan: as EXPLAIN shows it.
        definitions: of the views, tables and functions that the query uses, by their names.
        states: what each operator with a state does, by its id.
        notes: of its plan, for EXPLAIN and warnings.
        tree: its plan.
        shared: the joins whose sides have one read, by the ids of their states.
    """

    frame: Any
    rows: RowTraits
    sql: str
    plan: str
    definitions: Mapping[str, str]
    states: Mapping[str, str]
    notes: Notes
    tree: Output
    shared: frozenset[str] = frozenset()


class Queries:
    """The queries of one session."""

    def __init__(self, views: SparkViews, catalog: Catalog, settings: Settings) -> None:
        self.views = views
        self._catalog = catalog
        self._settings = settings
        self._opened: dict[Any, str] = {}
        """The views of tables of this statement."""
        self._temporary = TemporaryFolders()
        self.topics = TablesOfTopics()

    def in_its_zone(self, work: Callable[[], T]) -> T:
        """Return what `work` gives: in the zone of the session, or in UTC if a query needs it.

        Raises:
            SqlError: a query needs UTC, and has a part that depends on the zone of the session.
        """
        try:
            return work()
        except NeedsUtcError as error:
            # The plans of Spark Connect are made again later, when the session is in its own zone.
            if is_connect(self.views.spark):
                raise error.refusal from None
        with self.views.in_utc():
            return work()

    def query(
        self,
        fragment: Fragment,
        source: Source,
        *,
        checkpoint: str | None = None,
        wants_offsets: bool = False,
        free: tuple[bool, ...] = (),
        is_insert: bool = False,
    ) -> QueryRows:
        """Return the rows of a query, checked; see `Planner.plan`.

        The operators of the query leave Spark's options as they are: who starts the query has to call
        `planned_in_one_thread`. Without a folder of checkpoints, states are in a temporary folder.

        Raises:
            SqlError: the query is wrong or not served.
        """
        traits, notes = TraitsOf(), Notes()
        folders = self._temporary.new if checkpoint is None else lambda: beside(checkpoint)
        planner = Planner(
            self._catalog, self._settings, self.views, cache(folders), notes.varying.append, self._opened
        )
        if is_insert and checkpoint is not None and not self._settings.is_batch:
            planner.known_shared = cache(partial(shared_reads, checkpoint))
        try:
            with left_to_the_start():
                plan = planner.plan(
                    fragment, source, traits, wants_offsets=wants_offsets, free=free, is_insert=is_insert
                )
                query = planner.query(plan, traits)
        except (OptionError, SchemaError, WrongOptionError) as error:  # of a hint
            raise located(error, (source, fragment.offset)) from None
        frame = self._frame(query, source, fragment.offset)
        note_plan(notes, plan, planner.reads, traits, source, self._settings.ttl)
        self.topics.add(planner.reads, self._catalog)
        if planner.has_interval_join or _has_interval_join(plan, traits):
            self._check_join_keys(frame, source, fragment.offset)
        if self.views.foreign_zone is not None:
            frame = local_rows(frame)
        states = {} if self._settings.is_batch else states_of(plan, traits)
        text, rows = shown(plan, traits), _rows_of(plan, traits)
        return QueryRows(
            frame, rows, query.text, text, planner.definitions, states, notes, plan, frozenset(planner.shared)
        )

    def found(self, fragment: Fragment, source: Source) -> QueryRows:
        """Return the rows of a query of the user, in the zone that it needs; see `query`."""
        return self.in_its_zone(lambda: self.query(fragment, source))

    def fields(self, name: Name) -> list[Any]:
        """Return the fields of a table or view, as Spark has them."""
        query = Fragment(f"SELECT * FROM {'.'.join(map(quoted, name.parts))}")
        return shown_fields(self.found(query, Source(query.text)).frame)

    def forget(self) -> None:
        """Open tables again from now on. A view keeps the ends that its topics had at its first read."""
        self._opened.clear()

    def close(self) -> None:
        """Remove the views of this session from Spark, and temporary folders."""
        self.forget()
        self.views.close()
        self._temporary.remove()

    def _check_join_keys(self, frame: Any, source: Source, offset: int) -> None:
        # None on Spark Connect, which does not show it
        plan = plan_text(frame) if frame.isStreaming else None
        if plan is not None and forgets_by_one_side(plan):
            raise source.error(
                "a condition behind an interval join says that a column with a WATERMARK = another time. "
                "Spark would make it a part of the join, and forget rows too early. Nothing was started. "
                "Write `x <= y AND x >= y` instead of `x = y`.",
                offset,
            )

    def _frame(self, query: Query, source: Source, offset: int) -> Any:
        """Return the DataFrame of a query in Spark's SQL.

        Raises:
            SqlError: Spark refuses it.
        """
        try:
            return self.views.rows(query)
        except UnknownTypeError as error:
            message = str(error)
        raise source.error(f"Spark refuses the query: {message}", _offset_of(message, source, offset))


def _offset_of(message: str, source: Source, offset: int) -> int:
    """Return where the name that Spark's message names stands in the query, or the query's beginning."""
    name = re.search(r"with name `?(?:`[^`]+`\.)*`?([^`]+)`", message)
    found = re.search(rf"\b{re.escape(name.group(1))}\b", source.text[offset:]) if name else None
    return offset + (found.start() if found else 0)


def _has_interval_join(plan: Output, traits: TraitsOf) -> bool:
    return any(
        isinstance(each, Join) and traits(each.left).times and traits(each.right).times
        for each in nodes_in(plan)
    )


def _rows_of(plan: Output, traits: TraitsOf) -> RowTraits:
    """Return what is known of the rows of a plan, by the names of its output."""
    found = traits(plan.input)
    names = {column: name.lower() for column, name in zip(plan.columns, plan.names, strict=True)}
    keys = None
    if found.key is not None and found.key <= names.keys():
        keys = frozenset(names[each] for each in found.key)
    return RowTraits(
        found.changed if found.changes else None,
        keys,
        is_grouped_in_order=keys is not None and found.is_pairs,
        has_offsets=plan.names[-len(OFFSETS) :] == OFFSETS,
        has_place=plan.names[-1:] == (PLACE,),
        millisecond_keys=frozenset(names[each] for each in found.millisecond_columns if each in names),
        is_read=_is_read(plan.input),
        is_mixed=_is_mixed(plan.input, traits),
        is_scattered=_is_scattered(plan.input),
    )


def _is_read(node: Node) -> bool:
    """Return whether rows are those of one table, in its order. Spark joins them with queries in a batch."""
    scan = scan_below(node)
    return scan is not None and scan.source.is_read and not any(map(has_queries, nodes_in(node)))


def _is_scattered(node: Node) -> bool:
    """Return whether changes of a row may come from several tasks.

    A join divides rows by its keys, and a UNION by its sides. Values of rows without a key are kept by all
    columns.
    """
    if isinstance(node, Scan):
        return node.source.is_divided
    of_keys = isinstance(node, Stateful) and not isinstance(node.operator, Normalization)
    return of_keys or isinstance(node, (Join, SetOperation)) or any(map(_is_scattered, inputs_of(node)))


def _is_mixed(node: Node, traits: TraitsOf) -> bool:
    """Return whether rows of several reads of a stream meet, and come when they do."""
    match node:
        case Join():
            sides = [each for each in (node.left, node.right) if traits(each).is_stream]
            return len(sides) > 1 or any(_is_mixed(each, traits) for each in sides)
        case SetOperation():
            return traits(node).is_stream
        case Stateful():
            return isinstance(node.operator, (MultiJoin, RegularJoin))
        case Aggregate():  # groups of windows come in the order of their ends
            return False
        case _:
            return any(_is_mixed(each, traits) for each in inputs_of(node))
