"""Session: run Flink's SQL on Spark.

Runs in the user's program, on Spark classic and Connect. Invariant: a script is read as a whole before its
first statement runs, and each query is checked by Spark before it starts.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import Any

from penstock.changelog.row_kinds import ROW_KIND
from penstock.errors import OptionError
from penstock.spark.one_thread import plan_in_one_thread
from penstock.spark.reused_shuffles import keep_watermarks, without_reused_shuffles
from penstock.sql.connectors.sessions import is_stopped, make_active
from penstock.sql.language.parse import ParsedStatement, parse_script
from penstock.sql.language.source import Source, shown_value
from penstock.sql.language.statements import (
    CreateTable,
    DescribeJob,
    Explain,
    Fragment,
    Insert,
    Name,
    ResetOption,
    Select,
    SetOption,
    Show,
    Statement,
    StatementSet,
    StopJob,
)
from penstock.sql.passes.assign_state_ids import has_operators
from penstock.sql.plan.hidden import KIND
from penstock.sql.run import _jobs as jobs
from penstock.sql.run._changing import taken
from penstock.sql.run._cuts import Notes
from penstock.sql.run._declarations import Declarations
from penstock.sql.run._described import promise
from penstock.sql.run._explain import (
    OF_SPARK,
    SQL_OF_SPARK,
    Explanation,
    add_changes,
    add_plan,
    add_reads,
    guarantee,
    option_text,
    warnings_of,
    write_warnings,
)
from penstock.sql.run._groups import shared_groups
from penstock.sql.run._inserts import Inserts, Write
from penstock.sql.run._queries import Queries, QueryRows
from penstock.sql.run._rows import RowTraits
from penstock.sql.run._views import SparkViews
from penstock.sql.run._writers import print_line
from penstock.sql.run.catalog import (
    Catalog,
)
from penstock.sql.run.job import Job, Result
from penstock.sql.run.settings import FOLDER, NEEDED, PARALLELISM, SYNC, ZONE, Settings, note_of

_log = logging.getLogger("penstock.sql")
_SPARK_KEYS = {ZONE: "spark.sql.session.timeZone", PARALLELISM: "spark.sql.shuffle.partitions"}
"""Options of Flink that are options of Spark under another name."""


class Session:
    """Flink's SQL on one Spark session.

    Tables, views and functions live as long as this object. A table reads nothing until a query starts.
    """

    def __init__(self, spark: Any, emit: Callable[[str], None] = print_line) -> None:
        """Make a session.

        Args:
            spark: a SparkSession, classic or Connect.
            emit: takes the lines of tables with the connector `print`.

        Raises:
            OptionError: Spark's ANSI mode is off, so errors of Flink would become NULL; or Spark reads
                backslashes in another way than the translation writes them.
        """
        self.spark = spark
        self._check_spark()
        self.jobs: list[Job] = []
        self.on_failure: Callable[[Job], None] | None = None
        """Is called with a job that has failed, in another thread."""
        self._before: dict[str, str | None] = {}
        """The values that options of Spark had before SET."""
        self._settings = Settings()
        self._catalog = Catalog()
        self._views = SparkViews(spark)
        self._queries = Queries(self._views, self._catalog, self._settings)
        self._declarations = Declarations(spark, self._catalog, self._views, self._queries)
        self.topics = self._queries.topics
        """Adds to why a job failed which tables read a topic that is missing."""
        self._inserts = Inserts(spark, self._catalog, self._settings, self._queries, emit)
        self.checkpoints = self._inserts.checkpoints
        """The folders of checkpoints of all INSERTs that were started."""

    def _begin(self) -> None:
        self._check_spark()
        self._queries.forget()

    def _check_spark(self) -> None:
        """Check the options of Spark that decide what a translated query means. A program may change them."""
        for option, (wanted, why) in NEEDED.items():
            found = str(self.spark.conf.get(option)).lower()
            if found != wanted:
                raise OptionError(f"{option} is {found}: {why} Set it to {wanted}.", option=option)

    def execute(self, text: str) -> list[Result]:
        """Run a script and return what each statement gave.

        An INSERT over streams starts and runs in the background: see `Result.job`.

        Raises:
            SqlError: a statement is wrong or not served. Statements before it have run.
        """
        source = Source(text)
        return [self.run(parsed, source) for parsed in parse_script(text)]

    def run(self, parsed: ParsedStatement, source: Source) -> Result:
        """Run one statement of a script that `parse_script` has read; see `execute`."""
        self._begin()
        try:
            return self._run(parsed.statement, source)
        except ValueError as error:
            raise source.error(str(error), _offset_of(parsed)) from None

    def explained(self, parsed: ParsedStatement, source: Source) -> Result:
        """Run a statement that only declares or shows something, and explain any other. No job starts.

        The texts and plans of Spark are left out. EXPLAIN itself shows them.

        Raises:
            SqlError: as `run` does.
        """
        self._begin()
        statement: Statement | None = parsed.statement
        try:
            if isinstance(statement, CreateTable) and statement.query is not None:
                statement = self._declarations.create_table(statement, source)
            if isinstance(statement, (Select, Insert, StatementSet)):
                return self._explain(Explain(statement), source, has_plans=False)
        except ValueError as error:
            raise source.error(str(error), _offset_of(parsed)) from None
        return self.run(parsed, source)

    def sql(self, query: str) -> Any:
        """Return the DataFrame of a query: a stream, unless the mode is batch or all tables are static.

        Raises:
            SqlError: the text is not one query, or a part of it is not served.
        """
        source = Source(query)
        found = parse_script(query)
        if len(found) != 1 or not isinstance(found[0].statement, Select):
            raise source.error("expected one query.", found[1].offset if len(found) > 1 else 0)
        self._begin()
        return self._query(found[0].statement.query, source)[0]

    def stop(self) -> None:
        """Stop all jobs of this session, remove its views from Spark, and undo SET of Spark's options.

        If Spark itself was stopped before, its views and options are gone already.
        """
        with contextlib.ExitStack() as stack:
            for spark_key in list(self._before) if not is_stopped(self.spark) else ():
                stack.callback(self._restore, spark_key)
            stack.callback(self._queries.close)
            for job in self.jobs:
                stack.callback(job.stop)

    def _query(self, query: Fragment, source: Source) -> tuple[Any, RowTraits]:
        """Return the rows of a query, and what is known of them. Warnings of a stream are logged.

        Changes have the column `row_kind`.
        """
        found = self._queries.found(query, source)
        frame = self._for_user(found)
        if frame.isStreaming:
            self._warn(("", found.notes))
        return frame, found.rows

    def _for_user(self, found: QueryRows) -> Any:
        """Return the rows of a query that the user, or the shell, starts."""
        if has_operators(found.states):
            plan_in_one_thread(self.spark)
        if found.frame.isStreaming:
            keep_watermarks(found.frame)
        return _with_kind(found.frame)

    # ---- statements

    def _run(self, statement: Statement, source: Source) -> Result:  # noqa: C901, PLR0911 - one for each
        match statement:
            case Select():
                frame, rows = self._query(statement.query, source)
                return Result(columns=tuple(frame.columns), frame=frame, is_changing=rows.changes is not None)
            case Insert():
                return self._start([statement], source)
            case StatementSet():
                return self._start(list(statement.inserts), source, in_set=True)
            case CreateTable():
                return self._create_table(statement, source)
            case SetOption():
                return self._set_option(statement)
            case ResetOption():
                return self._reset_option(statement)
            case Show(what="JOBS"):
                return jobs.shown(self.jobs)
            case DescribeJob():
                return jobs.described(jobs.found(self.jobs, statement.job))
            case StopJob():
                job = jobs.found(self.jobs, statement.job)
                return jobs.stopped(job, with_savepoint=statement.with_savepoint)
            case Explain():
                return self._explain(statement, source)
            case _:
                return self._declarations.run(statement, source)

    def _start(self, inserts: list[Insert], source: Source, *, in_set: bool = False) -> Result:
        make_active(self.spark)
        writes, streams = [], []
        for insert in inserts:
            writes.append(self._inserts.prepare(insert, source, in_set=in_set))
            if writes[-1].rows.isStreaming:
                streams.append((writes[-1].name, writes[-1].found.notes))
        self._warn(*streams)
        started = self._inserts.start(writes, source)
        queries, parts = [query for query, _ in started], [part for _, part in started]
        job = Job(self._inserts.job_name(writes), queries, parts, explain=self.topics.named)
        if job.queries:
            self.jobs.append(job)
            job.watch(self.on_failure)
        if self._settings.values.get(SYNC) == "true":
            job.wait()
        return Result("The job was started." if job.is_active else "The INSERT is done.", job=job)

    def _warn(self, *streams: tuple[str, Notes]) -> None:
        """Log once what a user should know of streams, each with the table that it writes; "" for none."""
        each = [warning for _, notes in streams for warning in warnings_of(notes, self._catalog)]
        for warning in dict.fromkeys([*each, *shared_groups(streams, self._catalog)]):
            _log.warning("%s", warning)

    def _create_table(self, statement: CreateTable, source: Source) -> Result:
        """Create a table; with AS SELECT also fill it."""
        insert = self._declarations.create_table(statement, source)
        return Result("The table was created.") if insert is None else self._start([insert], source)

    def _set_option(self, statement: SetOption) -> Result:
        """Set an option, or show those that are set."""
        if statement.key is None:
            values = sorted(self._settings.values.items())
            rows = tuple((key, shown_value(key, value)) for key, value in values)
            return Result(columns=("key", "value"), rows=rows)
        key = self._settings.set(statement.key, statement.value or "")
        spark_key = _SPARK_KEYS.get(key, key)
        if spark_key.startswith("spark."):
            self._before.setdefault(spark_key, self.spark.conf.get(spark_key, None))
            self.spark.conf.set(spark_key, self._settings.values[key])
        return Result(" ".join(filter(None, ("The option was set.", note_of(key)))))

    def _reset_option(self, statement: ResetOption) -> Result:
        """Forget an option, or all of them. Options of Spark get the value that they had before SET."""
        for key in self._settings.reset(statement.key):
            spark_key = _SPARK_KEYS.get(key, key)
            if spark_key in self._before:
                self._restore(spark_key)
        return Result("The option was reset.")

    def _restore(self, spark_key: str) -> None:
        """Give an option of Spark the value that it had before SET."""
        before = self._before.pop(spark_key)
        if before is None:
            self.spark.conf.unset(spark_key)
        else:
            self.spark.conf.set(spark_key, before)

    def _explain(self, statement: Explain, source: Source, *, has_plans: bool = True) -> Result:
        """Return how a query or inserts would run: options, state, guarantee, warnings, and plan."""
        inner = statement.statement
        inserts = inner.inserts if isinstance(inner, StatementSet) else [inner]
        streams: list[tuple[str, Notes]] = []
        found = [self._explained(each, source, streams) for each in inserts]
        found[0].add("Warnings", shared_groups(streams, self._catalog))
        hidden = () if has_plans else OF_SPARK
        lines = [line for each in found for line in each.lines(hidden)]
        return Result(columns=("plan",), rows=tuple((line,) for line in lines))

    def _explained(
        self, statement: Select | Insert, source: Source, streams: list[tuple[str, Notes]]
    ) -> Explanation:
        """Return the explanation of one statement, and add an INSERT of a stream to `streams`."""
        if isinstance(statement, Insert):
            write = self._inserts.prepare(statement, source, is_explained=True)
            found, query, frame = self._explained_write(write), write.found, write.rows
        else:
            found, query = Explanation("SELECT"), self._queries.found(statement.query, source)
            frame = query.frame
        notes = query.notes
        reads = add_reads(found, notes, self._catalog)
        if frame.isStreaming:
            add_changes(found, notes, query.rows)
            found.add("Warnings", warnings_of(notes, self._catalog))
            if isinstance(statement, Insert):
                found.add("Changes", [f"{statement.table} takes {taken(write.table)}"])
                streams.append((write.name, notes))
        found.add("Plan", query.plan.splitlines())
        if isinstance(statement, Insert) and write.continuous is not None:
            found.add("Continuous", write.continuous.lines(self._settings.interval_ms))
            return found
        found.add(SQL_OF_SPARK, [query.sql])
        with without_reused_shuffles(self.spark):
            add_plan(found, frame, reads, notes)
        return found

    def _explained_write(self, write: Write) -> Explanation:
        connector = write.table.connector
        found = Explanation(f"INSERT INTO {write.insert.table}: {promise(connector)}")
        found.add("Writes", [option_text(*each) for each in connector.options.items() if each[1]])
        if write.rows.isStreaming:
            found.add("Guarantee", guarantee(write.table))
            folder = self._settings.values.get(FOLDER)
            found.add("Warnings", write_warnings(write.table, folder=folder))
        return found


def _with_kind(frame: Any) -> Any:
    return frame.withColumnRenamed(KIND, ROW_KIND) if KIND in frame.columns else frame


def _offset_of(parsed: ParsedStatement) -> int:
    statement = parsed.statement
    name = getattr(statement, "name", None)
    if isinstance(name, Name):
        return name.offset
    return getattr(statement, "offset", parsed.offset) or parsed.offset
