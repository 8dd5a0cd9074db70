"""Run a script of Flink SQL as a test: on topics of its own, bounded, in several micro-batches.

Runs in the program of the test. Needs the extras `sql` and `testing`. Invariant: no statement runs before
`ScriptOfTest` has replaced what the script names of its cluster, or has refused the script.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.sql.language.parse import ParsedStatement, parse_script
from penstock.sql.language.source import Source
from penstock.sql.language.statements import (
    AlterTable,
    CreateDatabase,
    CreateFunction,
    CreateTable,
    SetOption,
    Statement,
    Use,
)
from penstock.sql.run.session import Session
from penstock.sql.run.settings import FOLDER, MODE, current_name
from penstock.testing.judge import HasAddress, address_of
from penstock.testing.produce import Record, create_topic, produce
from penstock.testing.script import ScriptOfTest
from penstock.testing.streams import run_to_end
from penstock.testing.tables import table_of


@dataclass(frozen=True)
class SqlRun:
    """What a script has left.

    Attributes:
        topics: the name that each topic had in this run, by its name in the script.
        rows: the table of the last SELECT, as dicts: of a stream, what its changes leave.
    """

    topics: Mapping[str, str]
    rows: list[dict[str, Any]]
    _spark: Any = field(repr=False)
    _statements: tuple[ParsedStatement, ...] = field(repr=False)
    _source: Source = field(repr=False)

    def table(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of a table of the script, as a query in batch mode reads them.

        Raises:
            SqlError: the script has no such table.
        """
        with _session(self._spark, {MODE: "batch"}) as session:
            for parsed in self._statements:
                if _is_declaration(parsed.statement):
                    session.run(parsed, self._source)
            return table_of(session.sql(f"SELECT * FROM {name}"))  # noqa: S608 - a name of the script


def run_sql(
    spark: Any,
    script: str | Path,
    *,
    brokers: HasAddress | str,
    inputs: Mapping[str, Iterable[Record]] = {},
    batches: int = 1,
    mode: str = "streaming",
    options: Mapping[str, Mapping[str, str]] = {},
) -> SqlRun:
    """Run a script until all records of its topics are read, and return what it has left.

    Each topic of its tables gets a name that no other test has. The tables are read from their first records
    to the ends of now. The addresses of brokers, logins, checkpoints and transactional id prefixes of the
    script are not used. Other addresses are refused, unless `options` replace them: the `url` of a jdbc
    table, the `path` of files, the URL of a schema registry.

    Args:
        spark: a SparkSession.
        script: the text, or a file.
        brokers: a `FakeKafka`, a `DevCluster` or addresses.
        inputs: the records of topics, by the names in the script. A record is a value, or a key and a value.
            Both are bytes, a text, None, or anything that becomes JSON. The topics have one partition.
        batches: in how many micro-batches each of these topics is read, if it has so many records. A table
            should not depend on it.
        mode: `streaming`, or `batch`.
        options: options of tables that replace those of the script, by the name of the table. With
            `connector` they replace all options of the table.

    Raises:
        SqlError: the script is wrong, is not served, or has options where they cannot be replaced.
        ValueError: a topic of `inputs` or a table of `options` is not in the script; or a table would read or
            write what is not of the test. Nothing was run.
        TimeoutError: a query did not end in time.
    """
    text = script.read_text(encoding="utf-8") if isinstance(script, Path) else script
    source, records = Source(text), {topic: list(each) for topic, each in inputs.items()}
    with tempfile.TemporaryDirectory(prefix="penstock-sql-test-") as folder:
        test = ScriptOfTest(
            source,
            address_of(brokers),
            folder=folder,
            records=records,
            batches=batches,
            mode=mode,
            options=options,
        )
        statements = tuple(each for parsed in parse_script(text) for each in test.replaced(parsed))
        test.check()
        for name, topic in test.topics.items():
            create_topic(test.servers, topic)
            produce(test.servers, topic, records.get(name, ()))
        with _session(spark, test.settings) as session:
            return SqlRun(test.topics, _run(session, statements, source), spark, statements, source)


def run_statement(session: Session, parsed: ParsedStatement, source: Source) -> Any:
    """Run one statement until its queries have read all records. Return the frame of a SELECT."""
    result = session.run(parsed, source)
    if result.job is not None:
        for query in result.job.queries:
            run_to_end(query)
        result.job.stop()
    return result.frame


def _run(session: Session, statements: Iterable[ParsedStatement], source: Source) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for parsed in statements:
        frame = run_statement(session, parsed, source)
        if frame is not None:
            rows = table_of(frame)
    return rows


def _is_declaration(statement: Statement) -> bool:
    """Return whether a statement says what the tables of a script are, and runs nothing."""
    if isinstance(statement, CreateTable):
        return statement.query is None
    if isinstance(statement, SetOption):
        return statement.key is not None and current_name(statement.key) not in (MODE, FOLDER)
    return isinstance(statement, (CreateDatabase, Use, CreateFunction, AlterTable))


@contextmanager
def _session(spark: Any, settings: Mapping[str, str]) -> Iterator[Session]:
    session = Session(spark, lambda _: None)
    try:
        for key, value in settings.items():
            session.execute(f"SET '{key}' = '{value}';")
        yield session
        session.execute("RESET;")
    finally:
        session.stop()
