"""Write the rows of queries into tables: batches at once, streams as queries of Spark.

Runs on the driver. Invariant: a stream into Kafka or files has a folder of checkpoints, so that it continues
where it ended, and no two queries share a folder. All inserts of a statement are checked before the first one
starts.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from penstock.errors import PenstockError, SqlError
from penstock.spark.continuous import INTERVAL_MAX_MS, ContinuousQuery, stop_together
from penstock.spark.local_checkpoints import quick_local_checkpoints
from penstock.spark.one_thread import planned_in_one_thread
from penstock.spark.process.short_errors import short_errors_of_batches
from penstock.spark.reused_shuffles import without_reused_shuffles
from penstock.spark.stop_after_batch import stop_soon
from penstock.sql.connectors.described import Blackhole, Connector, Files, Jdbc, Print
from penstock.sql.connectors.files import written_with
from penstock.sql.connectors.jdbc import frames as jdbc
from penstock.sql.connectors.sessions import reason
from penstock.sql.functions.zones import local_rows
from penstock.sql.language.source import Source
from penstock.sql.language.statements import Insert
from penstock.sql.passes.assign_state_ids import has_operators
from penstock.sql.plan.hidden import HIDDEN, KIND
from penstock.sql.run import _checkpoints
from penstock.sql.run import _tables as tables
from penstock.sql.run._changing import written_as
from penstock.sql.run._continuous import ContinuousInsert, continuous_insert
from penstock.sql.run._lines import line
from penstock.sql.run._options import WRONG, is_about, located
from penstock.sql.run._queries import Queries, QueryRows
from penstock.sql.run._rows import RowTraits
from penstock.sql.run._sinks import (
    check_conflict,
    check_updates,
    cut_columns,
    fitted,
    has_last_rows,
    of_columns,
    of_no_key,
)
from penstock.sql.run._views import spark_message
from penstock.sql.run.catalog import DEFAULT_DATABASE, Catalog, Key, Table, stored_columns
from penstock.sql.run.job import Part
from penstock.sql.run.settings import CHANGED, CONTINUOUS, FOLDER, INTERVAL, NAME, Settings

Emit = Callable[[str], None]
_SHOWN_KIND = "+I"
_STOP_MS = 10_000
"""How long the queries of a set that did not start as a whole have for the end of their batches."""


@dataclass(frozen=True)
class Write:
    """RowTraits that are ready to be written: into which table (database and name), with which options."""

    key: Key
    rows: Any
    table: Table
    insert: Insert
    found: QueryRows
    is_in_utc: bool = False
    """Whether it runs in UTC although the session is in another zone."""
    continuous: ContinuousInsert | None = None
    """It, if it runs without micro-batches."""

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

        Args:
            insert: the statement.
            source: its script.
            in_set: whether it is one of a statement set.
            is_explained: whether it is not started, so that nothing is made beside a checkpoint.

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
        folder = None if is_explained else self._folder_of(key, in_set=in_set)
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
                tables.check_local_target(table, self._queries.views.foreign_zone)
            rows = tables.rows_for(found.frame, table, insert.columns)
            given = _types(found.frame)
            known = of_columns(found.rows, [name for name, _ in given], targets)
            types = dict(zip(targets, (kind for _, kind in given), strict=True))
            cut = cut_columns(types, dict(_types(rows)), known, table, is_utc=self._queries.views.zone_is_utc)
            _check_conflict(insert, table, known, cut, source)
            rows = fitted(rows, known, table, cut)
            table, rows = tables.for_target(table, rows)
            _check_overwrite(table.connector, rows, insert)
            tables.check_write(self._spark, table, rows)
        except WRONG as error:
            here, there = (source, insert.table.offset), (table.source, table.definition.name.offset)
            raise located(error, *([] if is_about(error, dict(insert.hints)) else [there]), here) from None
        is_in_utc = self._queries.views.foreign_zone is not None
        write = Write(key, rows, table, insert, found, is_in_utc=is_in_utc)
        return replace(write, continuous=self._continuous(write, source))

    def _continuous(self, write: Write, source: Source) -> ContinuousInsert | None:
        """Return a write as a continuous query, if the session wants it so."""
        if not self._settings.is_continuous:
            return None
        if self._settings.is_batch or not write.rows.isStreaming:
            raise source.error(
                f"'{CONTINUOUS}' is 'true', and the INSERT is a batch. Nothing was started. RESET "
                f"'{CONTINUOUS}', or read a table of Kafka in the mode 'streaming'.",
                write.offset,
            )
        if (self._settings.interval_ms or 0) > INTERVAL_MAX_MS:
            raise source.error(
                f"'{INTERVAL}' is '{self._settings.values[INTERVAL]}', and a continuous query ends a "
                f"transaction after {INTERVAL_MAX_MS // 1000} s at most. Nothing was started. Set less.",
                write.offset,
            )
        if write.is_in_utc:
            raise source.error(
                "a continuous query takes no INSERT that runs in UTC while the session is in another zone. "
                "Nothing was started. SET 'table.local-time-zone' = 'UTC'.",
                write.offset,
            )
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

    def start(self, writes: list[Write], source: Source, *, in_set: bool) -> list[tuple[Any, Part]]:
        """Run the batches, start the streams, and return the queries of the streams.

        Raises:
            SqlError: a stream has no folder for its checkpoints, or Spark refuses it. Nothing runs then.
        """
        streams = [write for write in writes if write.rows.isStreaming and write.continuous is None]
        folders = [self._folder(write, source, in_set=in_set) for write in streams]
        self._check_free(streams, folders, source)
        endless = [write for write in writes if write.continuous is not None]
        _check_groups(endless, source)
        self._claim(streams, folders, source)
        for write in writes:
            if not write.rows.isStreaming:
                with self._zone_of(write):
                    self._run_batch(write, source)
        queries: list[Any] = []
        started: list[ContinuousQuery] = []
        try:
            for each in endless:
                query = self._start_continuous(each, source, in_set=in_set)
                started.append(query)  # at once, so that it is stopped if the next one fails
            for write, folder in zip(streams, folders, strict=True):
                in_one_thread = has_operators(write.found.states)
                planned = planned_in_one_thread(self._spark) if in_one_thread else nullcontext()
                # The table of `filesystem` has a log beside its files, which may be on another store.
                is_files = isinstance(write.table.connector, Files)
                quick = nullcontext() if is_files else quick_local_checkpoints(self._spark, folder)
                with self._zone_of(write), without_reused_shuffles(self._spark), planned, quick:
                    queries.append(self._start_stream(write, folder, source))
                if folder is not None:
                    self._started[folder] = queries[-1]
        except BaseException:
            stop_together(started)
            stop_soon(queries, _STOP_MS)
            raise
        parts = [
            Part(write.name, self._label(write, in_set=in_set), folder)
            for write, folder in zip(streams, folders, strict=True)
        ]
        parts += [Part(each.name, self._label(each, in_set=in_set), None, True) for each in endless]
        return list(zip([*queries, *started], parts, strict=True))

    def _start_continuous(self, write: Write, source: Source, *, in_set: bool) -> ContinuousQuery:
        settings, label = self._settings, self._label(write, in_set=in_set)
        assert write.continuous is not None  # noqa: S101 - the caller has asked
        try:
            query = _checkpoints.described(write.insert, write.key)
            definitions = sorted(write.found.definitions.items())
            return write.continuous.start(
                self._spark,
                label,
                json.dumps([query, definitions], ensure_ascii=False),
                settings.interval_ms,
                settings.parallelism,
                may_change=self._may_change,
            )
        except WRONG as error:
            here = (source, write.offset)
            raise located(error, (write.table.source, write.table.definition.name.offset), here) from None
        except PenstockError as error:
            said = self._queries.topics.named(error.message)
            raise source.failure(f"the INSERT cannot start: {said}", write.offset) from error

    def _label(self, write: Write, *, in_set: bool) -> str:
        """Return the name that a query reports with: that of its own table, also in a set."""
        job, own = self._settings.values.get(NAME), f"insert-into_{write.name}"
        if job is None:
            return own
        return f"{job}/{own}" if in_set else job

    def _zone_of(self, write: Write) -> AbstractContextManager[None]:
        """Return a context in which Spark is in the zone that a write was prepared in."""
        return self._queries.views.in_utc() if write.is_in_utc else nullcontext()

    def _check_free(self, streams: list[Write], folders: list[str | None], source: Source) -> None:
        """Refuse a folder that another query writes. Spark would stop that query, or share the folder."""
        seen: set[str] = set()
        for write, folder in zip(streams, folders, strict=True):
            if folder is None:
                continue
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

    def _claim(self, streams: list[Write], folders: list[str | None], source: Source) -> None:
        """Note each query in its folder. All are compared first, so that a refusal changes no note."""
        notes: dict[str, _checkpoints.QueryNote | None] = {}
        for write, folder in zip(streams, folders, strict=True):
            if folder is None:
                continue
            query, found = _checkpoints.described(write.insert, write.key), write.found
            try:
                notes[folder] = _checkpoints.compare(
                    folder,
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

    def _folder(self, write: Write, source: Source, *, in_set: bool) -> str | None:
        """Return the folder of a query. It does not depend on the other inserts of a set."""
        base = self._settings.values.get(FOLDER)
        if base is None:
            if not write.table.connector.needs_folder:
                return None
            raise source.error(
                f"a stream needs a folder for its checkpoints: SET '{FOLDER}' = '/a/path/of/all/machines'. "
                "The script continues from there when it runs again.",
                write.offset,
            )
        return self._folder_of(write.key, in_set=in_set)

    def _folder_of(self, key: Key, *, in_set: bool) -> str | None:
        base, job = self._settings.values.get(FOLDER), self._settings.values.get(NAME)
        if base is None:
            return None
        own = f"insert-into_{_file_name(_name(key))}"
        parts = [own] if job is None else [_file_name(job), *([own] if in_set else [])]
        return "/".join([base.rstrip("/"), *parts])

    def _run_batch(self, write: Write, source: Source) -> None:
        try:
            self._write_batch(write)
        except Exception as error:
            message = reason(error)
            if message is None:
                raise
            said = self._queries.topics.named(message)
            raise source.failure(f"the INSERT failed: {said}", write.offset) from error

    def _write_batch(self, write: Write) -> None:
        connector = write.table.connector
        if isinstance(connector, Print):
            for row in local_rows(write.rows).toLocalIterator():
                self._emit(_shown(row))
            return
        writer = write.rows.write.mode("overwrite" if write.insert.overwrite else "append")
        if isinstance(connector, Blackhole):
            writer.format("noop").mode("overwrite").save()
        elif isinstance(connector, Files):
            of_partitions = write.table.definition.partitioned_by
            writer = writer.partitionBy(*of_partitions).option("partitionOverwriteMode", "dynamic")
            writer.format(connector.format).options(**written_with(connector)).save(connector.path)
        elif isinstance(connector, Jdbc):
            jdbc.write_batch(connector.settings, write.table.definition.primary_key, write.rows)
        else:
            writer.format("penstock").options(**connector.options).save()

    def _start_stream(self, write: Write, folder: str | None, source: Source) -> Any:
        from pyspark.errors import AnalysisException  # noqa: PLC0415 - lazy

        try:
            return self._start_writer(write, folder)
        except AnalysisException as error:
            message = f"Spark cannot stream the query: {spark_message(error)}"
            raise source.error(message, write.offset) from None
        except Exception as error:
            found = reason(error)
            if found is None:
                raise
            said = self._queries.topics.named(found)
            raise source.failure(f"the INSERT cannot start: {said}", write.offset) from error

    def _start_writer(self, write: Write, folder: str | None) -> Any:
        connector = write.table.connector
        if isinstance(connector, Jdbc):
            keys = write.table.definition.primary_key
            writer = jdbc.stream_writer(connector.settings, keys, write.rows)
        else:
            writer = write.rows.writeStream
        writer = writer.outputMode("append")
        if folder is not None:
            writer = writer.option("checkpointLocation", folder)
        interval_ms = self._settings.interval_ms
        if interval_ms is not None:
            writer = writer.trigger(processingTime=f"{interval_ms} milliseconds")
        if isinstance(connector, Print):
            emit = self._emit
            printed = short_errors_of_batches(lambda batch, _: _print(batch, emit))
            return writer.foreachBatch(printed).start()
        if isinstance(connector, Blackhole):
            return writer.format("noop").start()
        if isinstance(connector, Jdbc):
            return writer.start()
        if isinstance(connector, Files):
            writer = writer.partitionBy(*write.table.definition.partitioned_by)
            return writer.format(connector.format).options(**written_with(connector)).start(connector.path)
        return writer.format("penstock").options(**connector.options).start()


def _types(frame: Any) -> list[tuple[str, str]]:
    """Return names and types of the columns of a DataFrame, but those that are hidden."""
    return [
        (each.name, each.dataType.simpleString()) for each in frame.schema.fields if each.name not in HIDDEN
    ]


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


def _check_overwrite(connector: Connector, rows: Any, insert: Insert) -> None:
    if not insert.overwrite:
        return
    if not isinstance(connector, Files):
        raise ValueError(
            f"INSERT OVERWRITE is for 'filesystem'. The connector '{connector.name}' only adds rows."
        )
    if rows.isStreaming:
        raise ValueError(
            "INSERT OVERWRITE is not for a stream, which only adds files. Use INSERT INTO, or the batch "
            "mode: SET 'execution.runtime-mode' = 'batch'."
        )


def _print(batch: Any, emit: Emit) -> None:
    for row in local_rows(batch).collect():
        emit(_shown(row))


def _shown(row: Any) -> str:
    values = row.asDict()
    kind = values.pop(KIND, _SHOWN_KIND)
    return line(tuple(values.values()), kind)


def print_line(line: str) -> None:
    """Write a line to standard output."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


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
