"""Run a script of Flink SQL as a test: on topics of its own, bounded, in several micro-batches.

Runs in the program of the test. Needs the extras `sql` and `testing`. Invariant: only options of the
script's Kafka tables are replaced, and its folder of checkpoints.
"""

from __future__ import annotations

import math
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from penstock.sql.language.parse import Parsed, parse_script
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
from penstock.testing.judge import HasAddress, address_of
from penstock.testing.produce import Record, create_topic, produce
from penstock.testing.streams import run_to_end
from penstock.testing.tables import table_of

_KAFKA = ("kafka", "upsert-kafka")
_FOLDER = "execution.checkpointing.dir"
_MODE = "execution.runtime-mode"
_SECURITY = ("properties.security.", "properties.sasl.", "properties.ssl.")
"""Options of the cluster that the script is written for."""


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
    _statements: tuple[Parsed, ...] = field(repr=False)
    _source: Source = field(repr=False)

    def table(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of a table of the script, as a query in batch mode reads them.

        Raises:
            SqlError: the script has no such table.
        """
        with _session(self._spark, "batch") as session:
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
    script do not count.

    Args:
        spark: a SparkSession.
        script: the text, or a file.
        brokers: a `FakeKafka`, a `DevCluster` or addresses.
        inputs: the records of topics, by the names in the script. A record is a value, or a key and a value.
            Both are bytes, a text, None, or anything that becomes JSON. The topics have one partition.
        batches: in how many micro-batches each of these topics is read, if it has so many records. A table
            should not depend on it.
        mode: `streaming`, or `batch`.
        options: options of tables that replace those of the script, by the name of the table.

    Raises:
        SqlError: the script is wrong, or is not served.
        ValueError: a topic of `inputs` or a table of `options` is not in the script.
        TimeoutError: a query did not end in time.
    """
    text = script.read_text(encoding="utf-8") if isinstance(script, Path) else script
    source, records = Source(text), {topic: list(each) for topic, each in inputs.items()}
    with tempfile.TemporaryDirectory(prefix="penstock-sql-test-") as folder:
        test = _Test(address_of(brokers), records, batches, options)
        statements = tuple(test.replaced(parsed, folder) for parsed in parse_script(text))
        test.check()
        for name, topic in test.topics.items():
            create_topic(test.servers, topic)
            produce(test.servers, topic, records.get(name, ()))
        with _session(spark, mode, folder) as session:
            return SqlRun(test.topics, _run(session, statements, source), spark, statements, source)


def run_statement(session: Session, parsed: Parsed, source: Source) -> Any:
    """Run one statement until its queries have read all records. Return the frame of a SELECT."""
    result = session.run(parsed, source)
    if result.job is not None:
        for query in result.job.queries:
            run_to_end(query)
        result.job.stop()
    return result.frame


def _run(session: Session, statements: Iterable[Parsed], source: Source) -> list[dict[str, Any]]:
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
        return statement.key not in (_MODE, _FOLDER)
    return isinstance(statement, (CreateDatabase, Use, CreateFunction, AlterTable))


@contextmanager
def _session(spark: Any, mode: str, folder: str | None = None) -> Iterator[Session]:
    session = Session(spark, lambda _: None)
    try:
        session.execute(f"SET '{_MODE}' = '{mode}';")
        if folder is not None:
            session.execute(f"SET '{_FOLDER}' = '{folder}/checkpoints';")
        yield session
        session.execute("RESET;")
    finally:
        session.stop()


class _Test:
    """What is replaced in a script.

    Attributes:
        servers: the addresses of the brokers.
        topics: the new name of each topic of the script.
    """

    def __init__(
        self,
        servers: str,
        records: Mapping[str, list[Record]],
        batches: int,
        options: Mapping[str, Mapping[str, str]],
    ) -> None:
        self.servers = servers
        self.topics: dict[str, str] = {}
        self._records, self._batches, self._options = records, batches, options
        self._tables: set[str] = set()
        self._token = uuid.uuid4().hex[:12]

    def replaced(self, parsed: Parsed, folder: str) -> Parsed:
        """Return a statement with the options of the test."""
        statement = parsed.statement
        if isinstance(statement, SetOption) and statement.key == _FOLDER:
            return replace(parsed, statement=replace(statement, value=f"{folder}/checkpoints"))
        if isinstance(statement, CreateTable):
            return replace(parsed, statement=replace(statement, options=self._options_of(statement)))
        return parsed

    def check(self) -> None:
        """Raise ValueError if the test names a topic or a table that the script does not have."""
        for what, given, known in (
            ("topic", self._records, self.topics.keys()),
            ("table", self._options, self._tables),
        ):
            if others := sorted(set(given) - set(known)):
                raise ValueError(
                    f"The script has no {what} {', '.join(others)}. "
                    f"It has {', '.join(sorted(known)) or 'none'}."
                )

    def _options_of(self, table: CreateTable) -> tuple[tuple[str, str], ...]:
        given = dict(table.options)
        name = table.name.parts[-1]
        self._tables.add(name)
        if given.get("connector") in _KAFKA:
            given = self._of_kafka(name, given)
        return tuple({**given, **self._options.get(name, {})}.items())

    def _of_kafka(self, table: str, given: dict[str, str]) -> dict[str, str]:
        if "topic-pattern" in given:
            raise ValueError(
                f"Table {table} has a `topic-pattern`. A test needs the names of the topics, so the "
                "pattern is refused. Test the script with `topic`."
            )
        names = given["topic"].split(";")
        topics = [self.topics.setdefault(name, f"{name}-{self._token}") for name in names]
        kept = {key: value for key, value in given.items() if not key.startswith(_SECURITY)}
        kept |= {
            "topic": ";".join(topics),
            "properties.bootstrap.servers": self.servers,
            "scan.bounded.mode": "latest-offset",
        }
        if kept["connector"] == "kafka":
            kept["scan.startup.mode"] = "earliest-offset"
        if "sink.transactional-id-prefix" in kept:
            kept["sink.transactional-id-prefix"] += f"-{self._token}"
        count = sum(len(self._records.get(name, ())) for name in names)
        if self._batches > 1 and count:
            kept["scan.max-records-per-batch"] = str(math.ceil(count / self._batches))
        return kept
