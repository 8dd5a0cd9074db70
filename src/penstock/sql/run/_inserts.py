"""Write the rows of queries into tables: batches at once, streams as queries of Spark.

Runs on the driver. Invariant: a stream into Kafka or files has a folder of checkpoints, so that it continues
where it ended, and no two queries share a folder. All inserts of a statement are checked before the first one
starts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from penstock.errors import PenstockError, SqlError
from penstock.spark.continuous import ContinuousQuery, stop_together
from penstock.spark.local_checkpoints import quick_local_checkpoints
from penstock.spark.one_thread import planned_in_one_thread
from penstock.spark.reused_shuffles import without_reused_shuffles
from penstock.spark.stop_after_batch import stop_soon
from penstock.sql.connectors.described import Files
from penstock.sql.connectors.sessions import reason
from penstock.sql.language.source import Source
from penstock.sql.language.statements import Insert
from penstock.sql.passes.assign_state_ids import has_operators
from penstock.sql.run import _checkpoints
from penstock.sql.run import _tables as tables
from penstock.sql.run._changing import written_as
from penstock.sql.run._continuous import ContinuousInsert, check_session, continuous_insert
from penstock.sql.run._options import WRONG, is_about, located
from penstock.sql.run._queries import Queries, QueryRows
from penstock.sql.run._rows import RowTraits
from penstock.sql.run._sinks import (
    check_conflict,
    check_overwrite,
    check_updates,
    cut_columns,
    fitted,
    has_last_rows,
    of_columns,
    of_no_key,
)
from penstock.sql.run._targets import check_local_target, check_write, for_target, rows_for
from penstock.sql.run._views import spark_message
from penstock.sql.run._writers import Emit, start_stream, write_batch
from penstock.sql.run.catalog import DEFAULT_DATABASE, Catalog, Key, Table, stored_columns
from penstock.sql.run.job import Part
from penstock.sql.run.settings import CHANGED, FOLDER, NAME, Settings

_STOP_MS = 10_000
"""How long the queries of a set that did not start as a whole have for the end of their batches."""


@dataclass(frozen=True)
class Write:
    """Rows that are ready to be written.

    Attributes:
        key: database and name of the table.
        rows: a DataFrame of the table's columns.
        table: with the options of the write.
        insert: the statement.
        found: its query.
        label: the name that the query reports with.
        folder: of its checkpoint; None without one.
        is_in_utc: whether it runs in UTC although the session is in another zone.
        continuous: it, if it runs without micro-batches.
    """

    key: Key
    rows: Any
    table: Table
    insert: Insert
    found: QueryRows
    label: str = ""
    folder: str | None = None
    is_in_utc: bool = False
    continuous: ContinuousInsert | None = None

    @property
    def name(self) -> str:
        """Return the name of the table, with its database unless that is the default one."""
        return _name(self.key)

    @property
    def offset(self) -> int:
        """Return the offset of the table in the script."""
        return self.insert.table.offset


class Inserts:
    """Makes the writes of a statement and starts them."""

    def __init__(
        self, spark: Any, catalog: Catalog, settings: Settings, queries: Queries, emit: Emit
    ) -> None:
        self._spark = spark
        self._catalog = catalog
        self._settings = settings
        self._queries = queries
        self._emit = emit
        self._started: dict[str, Any] = {}
        """The last query of each folder of checkpoints."""
        self.checkpoints: list[str] = []
        """The folders of all INSERTs that were about to start, also if the start was cut off."""

    def prepare(
        self, insert: Insert, source: Source, *, in_set: bool = False, is_explained: bool = False
    ) -> Write:
        """Return the write of an INSERT, checked, without starting it.

        One that is explained makes nothing beside a checkpoint.

        Raises:
            SqlError: the table does not exist, or the query does not fit it.
        """
        return self._queries.in_its_zone(
            lambda: self._prepare(insert, source, in_set=in_set, is_explained=is_explained)
        )

    def _prepare(self, insert: Insert, source: Source, *, in_set: bool, is_explained: bool) -> Write:
        declared = self._catalog.find(insert.table.parts)
        if not isinstance(declared, Table):
            message = f"there is no table '{insert.table}' that INSERT can write. CREATE TABLE makes one."
            raise source.error(message, insert.table.offset)
        key, table = self._catalog.key(insert.table.parts), declared.hinted(insert.hints)
        names = self._names(key, in_set=in_set)
        folder = None if is_explained else self._folder(names)
        try:
            tables.check_use(table, is_read=False)
            changes = written_as(table)
            wants_offsets = has_last_rows(table)
            targets = list(insert.columns) or [each.name for each in stored_columns(table.definition)]
            free = of_no_key(table, targets)
            with self._changes_first(insert, key, folder, source):
                found = self._queries.query(
                    insert.query,
                    source,
                    checkpoint=folder,
                    wants_offsets=wants_offsets,
                    free=free,
                    is_insert=True,
                )
            check_updates(table, found.rows, changes)
            if self._queries.views.foreign_zone is not None:
                check_local_target(table, self._queries.views.foreign_zone)
            rows = rows_for(found.frame, table, insert.columns)
            given = _types(found.frame)
            known = of_columns(found.rows, [name for name, _ in given], targets)
            types = dict(zip(targets, (kind for _, kind in given), strict=True))
            cut = cut_columns(types, dict(_types(rows)), known, table, is_utc=self._queries.views.zone_is_utc)
            _check_conflict(insert, table, known, cut, source)
            rows = fitted(rows, known, table, cut)
            table, rows = for_target(table, rows)
            if insert.overwrite:
                check_overwrite(table.connector, is_stream=rows.isStreaming)
            check_write(self._spark, table, rows)
        except WRONG as error:
            here, there = (source, insert.table.offset), (table.source, table.definition.name.offset)
            raise located(error, *([] if is_about(error, dict(insert.hints)) else [there]), here) from None
        is_in_utc = self._queries.views.foreign_zone is not None
        write = Write(key, rows, table, insert, found, "/".join(names), folder, is_in_utc)
        return replace(write, continuous=self._continuous(write, source))

    def _continuous(self, write: Write, source: Source) -> ContinuousInsert | None:
        """Return a write as a continuous query, if the session wants it so."""
        if not self._settings.is_continuous:
            return None
        try:
            check_session(self._settings, is_stream=write.rows.isStreaming, is_in_utc=write.is_in_utc)
        except ValueError as error:
            raise source.error(str(error), write.offset) from None
        is_utc, schema = self._queries.views.zone_is_utc, write.rows.schema
        return continuous_insert(write.found.tree, write.table, schema, write.insert, source, is_utc=is_utc)

    @contextmanager
    def _changes_first(self, insert: Insert, key: Key, folder: str | None, source: Source) -> Iterator[None]:
        """Return a context in which a changed script is refused as such, before a state that does not fit.

        Nothing is compared before there is such a state, because a batch has no checkpoint.
        """
        try:
            yield
        except SqlError as error:
            if "state" in error.facts and folder is not None and not self._may_change:
                try:
                    _checkpoints.check(folder, _checkpoints.described(insert, key), self._catalog)
                except ValueError as refusal:
                    raise source.error(str(refusal), insert.table.offset) from None
            raise

    @property
    def _may_change(self) -> bool:
        return self._settings.values.get(CHANGED) == "continue"

    def start(self, writes: list[Write], source: Source) -> list[tuple[Any, Part]]:
        """Run the batches, start the streams, and return the queries of the streams.

        Raises:
            SqlError: a stream has no folder for its checkpoints, or Spark refuses it. Nothing runs then.
        """
        streams = [write for write in writes if write.rows.isStreaming and write.continuous is None]
        endless = [write for write in writes if write.continuous is not None]
        self._check_folders(streams, source)
        _check_groups(endless, source)
        self._claim(streams, source)
        for write in writes:
            if not write.rows.isStreaming:
                with self._zone_of(write):
                    self._run_batch(write, source)
        queries: list[Any] = []
        started: list[ContinuousQuery] = []
        try:
            for each in endless:
                query = self._start_continuous(each, source)
                started.append(query)  # at once, so that it is stopped if the next one fails
            for write in streams:
                with self._as_planned(write):
                    queries.append(self._start_stream(write, source))
                if write.folder is not None:
                    self._started[write.folder] = queries[-1]
        except BaseException:
            stop_together(started)
            stop_soon(queries, _STOP_MS)
            raise
        parts = [Part(each.name, each.label, each.folder) for each in streams]
        parts += [Part(each.name, each.label, is_continuous=True) for each in endless]
        return list(zip([*queries, *started], parts, strict=True))

    @contextmanager
    def _as_planned(self, write: Write) -> Iterator[None]:
        """Return a context in which Spark starts a stream as its query was planned."""
        in_one_thread = has_operators(write.found.states)
        planned = planned_in_one_thread(self._spark) if in_one_thread else nullcontext()
        # The table of `filesystem` has a log beside its files, which may be on another store.
        is_files = isinstance(write.table.connector, Files)
        quick = nullcontext() if is_files else quick_local_checkpoints(self._spark, write.folder)
        with self._zone_of(write), without_reused_shuffles(self._spark), planned, quick:
            yield

    def _start_continuous(self, write: Write, source: Source) -> ContinuousQuery:
        assert write.continuous is not None  # noqa: S101 - the caller has asked
        try:
            query = _checkpoints.described(write.insert, write.key)
            definitions = sorted(write.found.definitions.items())
            return write.continuous.start(
                self._spark,
                write.label,
                json.dumps([query, definitions], ensure_ascii=False),
                self._settings.interval_ms,
                self._settings.parallelism,
                may_change=self._may_change,
            )
        except WRONG as error:
            here = (source, write.offset)
            raise located(error, (write.table.source, write.table.definition.name.offset), here) from None
        except PenstockError as error:
            said = self._queries.topics.named(error.message)
            raise source.failure(f"the INSERT cannot start: {said}", write.offset) from error

    def _zone_of(self, write: Write) -> AbstractContextManager[None]:
        """Return a context in which Spark is in the zone that a write was prepared in."""
        return self._queries.views.in_utc() if write.is_in_utc else nullcontext()

    def _check_folders(self, streams: list[Write], source: Source) -> None:
        """Refuse a stream without a folder of checkpoints, if it needs one, and a folder of another query.

        Spark would stop the other query, or share the folder.
        """
        seen: set[str] = set()
        for write in streams:
            folder = write.folder
            if folder is None:
                if not write.table.connector.needs_folder:
                    continue
                raise source.error(
                    f"a stream needs a folder for its checkpoints: SET '{FOLDER}' = "
                    "'/a/path/of/all/machines'. The script continues from there when it runs again.",
                    write.offset,
                )
            if folder in seen:
                raise source.error(
                    f"the statement set writes '{write.name}' twice, and both queries would have one folder "
                    "of checkpoints. Write one INSERT with UNION ALL.",
                    write.offset,
                )
            seen.add(folder)
            if folder in self._started and self._started[folder].isActive:
                raise source.error(
                    f"a query of this session still writes the checkpoint in {folder}. Stop its job first "
                    "(SHOW JOBS; STOP JOB '...';), or give this one another name: "
                    "SET 'pipeline.name' = '...'.",
                    write.offset,
                )

    def _claim(self, streams: list[Write], source: Source) -> None:
        """Note each query in its folder. All are compared first, so that a refusal changes no note."""
        notes: dict[str, _checkpoints.QueryNote | None] = {}
        for write in streams:
            if write.folder is None:
                continue
            query, found = _checkpoints.described(write.insert, write.key), write.found
            try:
                notes[write.folder] = _checkpoints.compare(
                    write.folder,
                    query,
                    found.definitions,
                    found.states,
                    may_change=self._may_change,
                    shared=found.shared,
                )
            except ValueError as error:
                raise source.error(str(error), write.offset) from None
        self.checkpoints += notes
        for folder, noted in notes.items():
            if noted is not None:
                _checkpoints.note(folder, noted)

    def job_name(self, writes: list[Write]) -> str:
        """Return the name of a job: `pipeline.name`, or one made of the tables."""
        given = self._settings.values.get(NAME)
        return given or "insert-into_" + "_".join(dict.fromkeys(write.name for write in writes))

    def _names(self, key: Key, *, in_set: bool) -> list[str]:
        """Return the names of the job and of a query, or one of them if the other is not given.

        The query has that of its own table. So its label and its folder do not depend on the other inserts.
        """
        job, own = self._settings.values.get(NAME), f"insert-into_{_name(key)}"
        if job is None:
            return [own]
        return [job, own] if in_set else [job]

    def _folder(self, names: list[str]) -> str | None:
        base = self._settings.values.get(FOLDER)
        return None if base is None else "/".join([base.rstrip("/"), *map(_file_name, names)])

    def _run_batch(self, write: Write, source: Source) -> None:
        try:
            write_batch(write.rows, write.table, self._emit, overwrites=write.insert.overwrite)
        except Exception as error:
            message = reason(error)
            if message is None:
                raise
            said = self._queries.topics.named(message)
            raise source.failure(f"the INSERT failed: {said}", write.offset) from error

    def _start_stream(self, write: Write, source: Source) -> Any:
        from pyspark.errors import AnalysisException  # noqa: PLC0415 - lazy

        try:
            interval_ms = self._settings.interval_ms
            return start_stream(write.rows, write.table, self._emit, write.folder, interval_ms)
        except AnalysisException as error:
            message = f"Spark cannot stream the query: {spark_message(error)}"
            raise source.error(message, write.offset) from None
        except Exception as error:
            found = reason(error)
            if found is None:
                raise
            said = self._queries.topics.named(found)
            raise source.failure(f"the INSERT cannot start: {said}", write.offset) from error


def _types(frame: Any) -> list[tuple[str, str]]:
    """Return names and types of the columns of a DataFrame, but those that are hidden."""
    return [(each.name, each.dataType.simpleString()) for each in tables.shown_fields(frame)]


def _check_conflict(
    insert: Insert, table: Table, rows: RowTraits, cut: frozenset[str], source: Source
) -> None:
    """Check ON CONFLICT of an INSERT. What it says is true then, so it changes no row.

    Raises:
        SqlError: it may not be true.
    """
    if insert.on_conflict is None:
        return
    try:
        check_conflict(table, rows, cut, insert.on_conflict.action)
    except ValueError as error:
        raise source.error(str(error), insert.on_conflict.offset) from None


def _name(key: Key) -> str:
    return key[1] if key[0] == DEFAULT_DATABASE else ".".join(key)


def _file_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "_", text)


def _check_groups(endless: list[Write], source: Source) -> None:
    """Refuse two continuous INSERTs of a set that would share the offsets of one consumer group."""
    first: dict[tuple[str, str], Write] = {}
    for write in endless:
        assert write.continuous is not None  # noqa: S101 - the caller has asked
        other = first.setdefault(write.continuous.group, write)
        if other is not write:
            group_id = write.continuous.group[1]
            raise source.error(
                f"the INSERT into '{write.name}' reads with the consumer group '{group_id}', and so does the "
                f"one into '{other.name}'. Without micro-batches the offsets of a group are the state of one "
                "INSERT. Give each one its own, by a hint behind the table that is read: "
                "/*+ OPTIONS('properties.group.id' = '...') */.",
                write.offset,
            )
