"""Session: run Flink's SQL on Spark.

Runs in the user's program, on Spark classic and Connect. Invariant: a script is read as a whole before its
first statement runs, and each query is checked by Spark before it starts.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from penstock.changelog.row_kinds import ROW_KIND
from penstock.errors import OptionError
from penstock.spark.one_thread import plan_in_one_thread
from penstock.spark.reused_shuffles import keep_watermarks, without_reused_shuffles
from penstock.sql.connectors.sessions import is_stopped, make_active
from penstock.sql.functions.names import is_flinks
from penstock.sql.language.parse import ParsedStatement, parse_script
from penstock.sql.language.source import Source, shown_value, without_secrets
from penstock.sql.language.statements import (
    AlterTable,
    CreateDatabase,
    CreateFunction,
    CreateTable,
    CreateView,
    Describe,
    DescribeJob,
    Drop,
    Explain,
    Fragment,
    Insert,
    Name,
    PhysicalColumn,
    ResetOption,
    Select,
    SetOption,
    Show,
    Statement,
    StatementSet,
    StopJob,
    Use,
)
from penstock.sql.language.write import statement_text, type_text
from penstock.sql.passes.assign_state_ids import has_operators
from penstock.sql.plan.hidden import HIDDEN, KIND
from penstock.sql.run import _jobs as jobs
from penstock.sql.run._changing import taken
from penstock.sql.run._cuts import Notes
from penstock.sql.run._described import described, flink_type, promise
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
from penstock.sql.run._options import check_alone
from penstock.sql.run._queries import Queries, QueryRows
from penstock.sql.run._rows import RowTraits
from penstock.sql.run._tables import check_watermark, read_schema
from penstock.sql.run._views import SparkViews
from penstock.sql.run._writers import print_line
from penstock.sql.run.catalog import (
    DEFAULT_CATALOG,
    DEFAULT_DATABASE,
    Catalog,
    Table,
    View,
    altered,
    with_like,
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
            return _RUNNERS[type(parsed.statement)](self, parsed.statement, source)
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
                statement = self._declare(statement, source)
            if isinstance(statement, (Select, Insert, StatementSet)):
                return self.explain(Explain(statement), source, has_plans=False)
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
        found = self._found(query, source)
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

    def _found(self, query: Fragment, source: Source) -> QueryRows:
        return self._queries.in_its_zone(lambda: self._queries.query(query, source))

    # ---- statements

    def select(self, statement: Select, source: Source) -> Result:
        frame, rows = self._query(statement.query, source)
        return Result(columns=tuple(frame.columns), frame=frame, is_changing=rows.changes is not None)

    def insert(self, statement: Insert, source: Source) -> Result:
        return self._start([statement], source, in_set=False)

    def statement_set(self, statement: StatementSet, source: Source) -> Result:
        """Start the inserts of a statement set as one job."""
        return self._start(list(statement.inserts), source, in_set=True)

    def _start(self, inserts: list[Insert], source: Source, *, in_set: bool) -> Result:
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

    def create_table(self, statement: CreateTable, source: Source) -> Result:
        """Create a table; with AS SELECT also fill it."""
        insert = self._declare(statement, source)
        if insert is not None:
            return self._start([insert], source, in_set=False)
        return Result("The table was created.")

    def _declare(self, statement: CreateTable, source: Source) -> Insert | None:
        """Create a table without its rows, and return the INSERT that fills it."""
        if statement.like is not None:
            base = self._catalog.find(statement.like.table.parts)
            if not isinstance(base, Table):
                raise source.error(
                    f"there is no table '{statement.like.table}'.", statement.like.table.offset
                )
            statement = with_like(statement, base.definition)
        query = statement.query
        if query is not None:
            if statement.columns:
                raise ValueError(
                    "CREATE TABLE ... AS SELECT takes its columns from the query. Leave them out."
                )
            if statement.if_not_exists:
                raise ValueError(
                    "IF NOT EXISTS is not served with AS SELECT, because an old table would be filled "
                    "again. Write CREATE TABLE IF NOT EXISTS and INSERT INTO."
                )
            fields = _shown_fields(self._found(query, source).frame)
            columns = tuple(PhysicalColumn(each.name, flink_type(each.dataType)) for each in fields)
            statement = replace(statement, columns=columns, query=None)
        table = Table(statement, source)
        check_parts(table)
        self._catalog.add(statement.name, table, if_not_exists=statement.if_not_exists)
        return None if query is None else Insert(statement.name, query)

    def create_view(self, statement: CreateView, source: Source) -> Result:
        """Create a view whose query is checked."""
        fields = _shown_fields(self._found(statement.query, source).frame)
        if statement.columns and len(statement.columns) != len(fields):
            raise ValueError(f"the query has {len(fields)} columns, not {len(statement.columns)}.")
        view = View(statement, source, self._catalog.database)
        self._catalog.add(statement.name, view, if_not_exists=statement.if_not_exists)
        return Result("The view was created.")

    def create_function(self, statement: CreateFunction, source: Source) -> Result:
        """Register a Python function under a name of its own, so that no function of Spark changes."""
        name = statement.name.parts[-1].lower()
        if is_flinks(name):
            raise ValueError(
                f"'{name}' is a function of Flink, which would be called instead. Choose another name."
            )
        if name in self._catalog.functions:
            if statement.if_not_exists:
                return Result("The function exists.")
            raise ValueError(f"there is a function '{name}' already. DROP it first.")
        module, _, attribute = statement.path.rpartition(".")
        try:
            function = getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise ValueError(f"the function '{statement.path}' cannot be loaded: {error}.") from None
        is_table = type(function).__name__ == "UserDefinedTableFunction"  # of Spark classic or of Connect
        said = getattr(function, "deterministic", None)
        if statement.is_deterministic and not is_table and said is False:
            raise ValueError(
                f"'{statement.path}' is declared DETERMINISTIC here and asNondeterministic() in Python. "
                "Remove one of them."
            )
        registry = self.spark.udtf if is_table else self.spark.udf
        registry.register(self._views.function_name(name), function)
        # Spark takes a scalar function for deterministic unless it is told, so that says nothing about it.
        is_deterministic = statement.is_deterministic or (is_table and said is True)
        self._catalog.functions[name] = replace(statement, is_deterministic=is_deterministic)
        return Result("The function was created.")

    def create_database(self, statement: CreateDatabase, source: Source) -> Result:
        """Add a database."""
        name = statement.name.parts[-1]
        if name in self._catalog.databases and not statement.if_not_exists:
            raise ValueError(f"there is a database '{name}' already.")
        self._catalog.databases.add(name)
        return Result("The database was created.")

    def set_option(self, statement: SetOption, source: Source) -> Result:
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

    def reset_option(self, statement: ResetOption, source: Source) -> Result:
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

    def show(self, statement: Show, source: Source) -> Result:
        """Return the rows of SHOW."""
        what, name = statement.what, statement.name
        if what in ("CREATE TABLE", "CREATE VIEW"):
            found = self._object(name, Table if what.endswith("TABLE") else View)
            shown = without_secrets(statement_text(found.definition))
            return Result(columns=("result",), rows=((shown,),))
        if what == "COLUMNS":
            return self.describe(Describe(name or Name(())), source)
        if what == "JOBS":
            return jobs.shown(self.jobs)
        texts = self._shown_names(statement)
        return Result(columns=(what.lower(),), rows=tuple((each,) for each in texts))

    def _shown_names(self, statement: Show) -> list[str]:
        what, catalog = statement.what, self._catalog
        database = statement.name.parts[-1] if statement.name is not None else None
        if what in ("TABLES", "VIEWS"):
            return catalog.names(View if what == "VIEWS" else None, database, statement.like)
        shown = {
            "DATABASES": sorted(catalog.databases),
            "CATALOGS": [DEFAULT_CATALOG],
            "CURRENT CATALOG": [DEFAULT_CATALOG],
            "CURRENT DATABASE": [catalog.database],
            "FUNCTIONS": sorted(catalog.functions),
            "USER FUNCTIONS": sorted(catalog.functions),
            "MODULES": ["core"],
        }
        return shown[what]

    def describe_job(self, statement: DescribeJob, source: Source) -> Result:
        return jobs.described(jobs.found(self.jobs, statement.job))

    def stop_job(self, statement: StopJob, source: Source) -> Result:
        """Stop a job after its batch, and wait until it has stopped."""
        return jobs.stopped(jobs.found(self.jobs, statement.job), with_savepoint=statement.with_savepoint)

    def describe(self, statement: Describe, source: Source) -> Result:
        """Return the columns of a table or view."""
        found = self._catalog.find(statement.name.parts)
        columns = ("name", "type", "null", "key", "extras", "watermark")
        if isinstance(found, Table):
            return Result(columns=columns, rows=tuple(described(found)))

        if found is None and self._views.table(statement.name.parts) is None:
            raise ValueError(f"there is no table or view '{statement.name}'.")
        fields = self._queries.in_its_zone(lambda: self._queries.fields(statement.name))
        rows = [(field.name, type_text(flink_type(field.dataType)), "TRUE", "", "", "") for field in fields]
        return Result(columns=columns, rows=tuple(rows))

    def explain(self, statement: Explain, source: Source, *, has_plans: bool = True) -> Result:
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
            found, query = Explanation("SELECT"), self._found(statement.query, source)
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

    def drop(self, statement: Drop, source: Source) -> Result:
        """Remove a table, view, function or database."""
        name = statement.name.parts[-1]
        if statement.kind in ("TABLE", "VIEW"):
            self._catalog.drop(statement.kind, statement.name, if_exists=statement.if_exists)
        elif statement.kind == "FUNCTION":
            if self._catalog.functions.pop(name.lower(), None) is None and not statement.if_exists:
                raise ValueError(f"there is no function '{name}'.")
        else:
            self._drop_database(name, if_exists=statement.if_exists)
        return Result(f"The {statement.kind.lower()} was dropped.")

    def _drop_database(self, name: str, *, if_exists: bool) -> None:
        if name not in self._catalog.databases:
            if if_exists:
                return
            raise ValueError(f"there is no database '{name}'.")
        if name == DEFAULT_DATABASE or self._catalog.names(database=name):
            raise ValueError(f"the database '{name}' is the default one or has tables.")
        self._catalog.databases.discard(name)

    def use(self, statement: Use, source: Source) -> Result:
        """Choose the database of names without one."""
        name = statement.name.parts[-1]
        if name not in self._catalog.databases:
            raise ValueError(f"there is no database '{name}'.")
        self._catalog.database = name
        return Result("The database was chosen.")

    def alter_table(self, statement: AlterTable, source: Source) -> Result:
        """Change a table."""
        found = self._catalog.find(statement.name.parts)
        if not isinstance(found, Table):
            if statement.if_exists:
                return Result("There is no such table.")
            raise ValueError(f"there is no table '{statement.name}'.")
        changed = Table(altered(found.definition, statement), found.source)
        check_parts(changed, (source, statement.name.offset))
        if statement.rename_to is not None:
            self._catalog.rename(statement.name, statement.rename_to, changed)
        else:
            self._catalog.objects[self._catalog.key(statement.name.parts)] = changed
        return Result("The table was changed.")

    def _object(self, name: Name | None, kind: type) -> Any:
        found = self._catalog.find(name.parts if name is not None else ())
        if not isinstance(found, kind):
            raise ValueError(f"there is no {kind.__name__.lower()} '{name}'.")
        return found


_RUNNERS: dict[type, Callable[..., Result]] = {
    Select: Session.select,
    Insert: Session.insert,
    StatementSet: Session.statement_set,
    CreateTable: Session.create_table,
    CreateView: Session.create_view,
    CreateFunction: Session.create_function,
    CreateDatabase: Session.create_database,
    SetOption: Session.set_option,
    ResetOption: Session.reset_option,
    Show: Session.show,
    Describe: Session.describe,
    DescribeJob: Session.describe_job,
    StopJob: Session.stop_job,
    Explain: Session.explain,
    Drop: Session.drop,
    Use: Session.use,
    AlterTable: Session.alter_table,
}


def check_parts(table: Table, *altered_by: tuple[Source, int]) -> None:
    """Check what a table declares, without reading it.

    Args:
        table: its declaration.
        altered_by: the script of ALTER TABLE, and the offset of the table's name in it.

    Raises:
        ValueError: a type is not served, or a key names a column that does not exist.
        SqlError: Spark has no such watermark.
    """
    read_schema(table.definition)
    names = {column.name for column in table.definition.columns}
    missing = [name for name in table.definition.primary_key if name not in names]
    if missing:
        raise ValueError(f"the PRIMARY KEY names the column '{missing[0]}', which the table does not have.")
    missing = [name for name in table.definition.partitioned_by if name not in names]
    if missing:
        raise ValueError(f"PARTITIONED BY names the column '{missing[0]}', which the table does not have.")
    check_watermark(table)
    check_alone(table, *altered_by)


def _shown_fields(frame: Any) -> list[Any]:
    return [field for field in frame.schema.fields if field.name not in HIDDEN]


def _with_kind(frame: Any) -> Any:
    return frame.withColumnRenamed(KIND, ROW_KIND) if KIND in frame.columns else frame


def _offset_of(parsed: ParsedStatement) -> int:
    statement = parsed.statement
    name = getattr(statement, "name", None)
    if isinstance(name, Name):
        return name.offset
    return getattr(statement, "offset", parsed.offset) or parsed.offset
