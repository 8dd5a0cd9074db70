"""Replace what a script of Flink SQL names of its cluster by what is of a test: brokers, topics, folders.

Runs in the program of the test, before the first statement runs. Invariant: a statement that would read or
write anything else that the script names is refused. It is not run as written.
"""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from penstock.options.config import PROCESSING_TIME
from penstock.sql.language.parse import ParsedStatement
from penstock.sql.language.source import Source
from penstock.sql.language.statements import (
    AlterTable,
    CreateTable,
    CreateView,
    Insert,
    ResetOption,
    SetOption,
    StatementSet,
)
from penstock.sql.language.tokens import Kind, tokenize
from penstock.sql.run.settings import FOLDER, MODE, current_name
from penstock.testing.produce import Record

_KAFKA = ("kafka", "penstock", "upsert-kafka")
_FOLDERS = (FOLDER, "spark.sql.streaming.checkpointLocation")
"""Keys of SET that say where checkpoints are."""
_TARGETS = {"jdbc": "url", "filesystem": "path"}
"""Connectors that read and write something else than Kafka, and the option that says what."""
_DROPPED = (
    "topic",
    "properties.bootstrap.servers",
    "properties.security.",
    "properties.sasl.",
    "properties.ssl.",
    "scan.startup.",
    "scan.bounded.",
    "sink.commit-log.topic",
)
"""Options of the cluster that the script is written for, and of what is read. The test has its own."""
_OTHER_TOPICS = ("topic-pattern", "topic-partitions", "subscribe", "subscribepattern", "assign", "kafka.")
_TOPIC, _DEAD_LETTERS, _PREFIX = "topic", "scan.dead-letter.topic", "sink.transactional-id-prefix"
_OPTION_HINT = re.compile(r"\bOPTIONS\s*\(", re.IGNORECASE)
_RUNS_AS_WRITTEN = "`run_sql` does not replace options there, so the test would use the cluster of the script"


class ScriptOfTest:
    """What is replaced in a script.

    Attributes:
        servers: the addresses of the brokers.
        topics: the new name of each topic of the script.
        settings: of the session, instead of those of the script.
    """

    def __init__(
        self,
        source: Source,
        servers: str,
        *,
        folder: str,
        records: Mapping[str, list[Record]],
        batches: int = 1,
        mode: str = "streaming",
        options: Mapping[str, Mapping[str, str]],
    ) -> None:
        self.servers = servers
        self.topics: dict[str, str] = {}
        self._source, self._records, self._batches, self._options = source, records, batches, options
        self.settings = {MODE: mode, FOLDER: f"{folder}/checkpoints"}
        self._topics_of: dict[str, set[str]] = {}
        """The topics of each table, and those that each view reads, by their names in the script."""
        self._tables: set[str] = set()
        self._token = uuid.uuid4().hex[:12]

    def replaced(self, parsed: ParsedStatement) -> Iterator[ParsedStatement]:
        """Return the statements that run instead of a statement.

        Raises:
            SqlError: an option stands where it is not replaced, or a topic is read while it is
                written.
            ValueError: a table would read or write what is not of the test.
        """
        statement = parsed.statement
        self._check_hints(parsed)
        if isinstance(statement, CreateTable):
            self._tables.add(statement.name.parts[-1])
            yield replace(parsed, statement=replace(statement, options=self._options_of(statement)))
            return
        if isinstance(statement, (SetOption, ResetOption)):
            yield from self._of_settings(parsed, statement)
            return
        if isinstance(statement, AlterTable):
            self._note_altered(statement)
        elif isinstance(statement, CreateView):
            self._topics_of[statement.name.parts[-1]] = self._read_by(statement.query.text)
        elif isinstance(statement, StatementSet):
            self._check_set(statement)
        yield parsed

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

    # ---- SET and RESET

    def _of_settings(
        self, parsed: ParsedStatement, statement: SetOption | ResetOption
    ) -> Iterator[ParsedStatement]:
        """Return the statement, with the folder of the test; after a RESET also with its mode."""
        key = None if statement.key is None else current_name(statement.key)
        if isinstance(statement, SetOption):
            value = self.settings[FOLDER] if key in _FOLDERS else statement.value
            yield replace(parsed, statement=replace(statement, value=value))
            return
        yield parsed
        for name, value in self.settings.items():
            if key in (None, name):
                yield replace(parsed, statement=SetOption(name, value, statement.offset))

    # ---- what is refused

    def _check_hints(self, parsed: ParsedStatement) -> None:
        for token in tokenize(Source(parsed.text)):
            if token.kind is Kind.HINT and _OPTION_HINT.search(token.value):
                raise self._source.error(
                    f"The hint OPTIONS is refused in a test: {_RUNS_AS_WRITTEN}. Nothing was run. Write "
                    "these options into WITH of CREATE TABLE, and leave the hint out.",
                    parsed.offset + token.start,
                )

    def _note_altered(self, statement: AlterTable) -> None:
        if statement.rename_to is not None:
            topics = self._topics_of.get(statement.name.parts[-1], set())
            self._topics_of[statement.rename_to.parts[-1]] = topics
        if statement.set_options or statement.reset_options:
            raise self._source.error(
                f"ALTER TABLE {statement.name} SET and RESET are refused in a test: {_RUNS_AS_WRITTEN}. "
                "Nothing was run. Write these options into WITH of CREATE TABLE.",
                statement.name.offset,
            )

    def _check_set(self, statement: StatementSet) -> None:
        """Refuse a topic that one INSERT fills while another one reads up to the end that it had before."""
        for insert in statement.inserts:
            read = self._read_by(insert.query.text)
            for other in statement.inserts:
                filled = self._topics_of.get(other.table.parts[-1], set())
                if other is not insert and (both := read & filled):
                    raise self._source.error(_read_in_set(insert, min(both)), insert.table.offset)

    def _read_by(self, query: str) -> set[str]:
        """Return the topics of all tables and views that a query names."""
        names = [
            token.value
            for token in tokenize(Source(query))
            if token.kind in (Kind.WORD, Kind.QUOTED_NAME) and token.value in self._topics_of
        ]
        return set().union(*(self._topics_of[name] for name in names))

    # ---- the options of a table

    def _options_of(self, table: CreateTable) -> tuple[tuple[str, str], ...]:
        name = table.name.parts[-1]
        own = dict(self._options.get(name, {}))
        is_replaced = "connector" in own
        given = own if is_replaced else dict(table.options)
        _check_connector(name, given)
        if table.like is not None and not given:
            self._topics_of[name] = self._topics_of.get(table.like.table.parts[-1], set())
        if given.get("connector") in _KAFKA:
            given = self._of_kafka(name, given)
        options = given if is_replaced else {**_without(given, own), **own}
        _check_targets(name, options, own)
        return tuple(options.items())

    def _of_kafka(self, table: str, given: dict[str, str]) -> dict[str, str]:
        _check_topics(table, given)
        names = [name.strip() for name in given[_TOPIC].split(";")]
        self._topics_of[table] = set(names)
        kept = _without(given, _DROPPED) | {
            _TOPIC: ";".join(map(self._new_topic, names)),
            "properties.bootstrap.servers": self.servers,
            "scan.bounded.mode": "latest-offset",
        }
        if kept["connector"] != "upsert-kafka":
            kept["scan.startup.mode"] = "earliest-offset"
        for key in kept:
            if key.lower() == _DEAD_LETTERS:
                kept[key] = self._new_topic(kept[key].strip())
            elif key.lower() == _PREFIX:
                kept[key] += f"-{self._token}"
        count = sum(len(self._records.get(name, ())) for name in names)
        if self._batches > 1 and count:
            kept["scan.max-records-per-batch"] = str(math.ceil(count / self._batches))
            kept["scan.trigger"] = PROCESSING_TIME  # Spark 4.0 and 4.1 refuse the limit without it
        return kept

    def _new_topic(self, name: str) -> str:
        return self.topics.setdefault(name, f"{name}-{self._token}")


def _without(options: Mapping[str, str], dropped: Iterable[str]) -> dict[str, str]:
    """Return the options but for these. A name that ends with `.` is the beginning of names."""
    names = {name.lower() for name in dropped}
    prefixes = tuple(name for name in names if name.endswith("."))
    return {
        key: value
        for key, value in options.items()
        if key.lower() not in names and not key.lower().startswith(prefixes)
    }


def _check_connector(table: str, given: Mapping[str, str]) -> None:
    """Refuse options whose connector is known only later, from LIKE."""
    if given and "connector" not in given:
        raise ValueError(
            f"Table {table} has options and no `connector`. A test cannot tell which of these options belong "
            f"to the cluster of the script. Nothing was run. Write all options of {table} into WITH, with "
            "`connector`, also those that it takes from LIKE."
        )


def _check_topics(table: str, given: Mapping[str, str]) -> None:
    """Refuse a Kafka table whose topics a test cannot replace."""
    kept = _without(given, _OTHER_TOPICS)
    if other := next((key for key in given if key not in kept), None):
        raise ValueError(
            f"Table {table} has a `{other}`. A test needs the names of the topics in `topic` and the address "
            "in `properties.bootstrap.servers`, because it replaces both. Nothing was run. Test the script "
            "with these options."
        )
    if _TOPIC not in given:
        raise ValueError(
            f"Table {table} has no option `topic`. A test replaces the topic by a new one. Nothing was run. "
            f"Write `topic` into WITH of {table}."
        )


def _check_targets(table: str, options: Mapping[str, str], own: Mapping[str, str]) -> None:
    """Refuse a database, files or a schema registry of the script."""
    target = _TARGETS.get(options.get("connector", ""))
    needed = {target} if target is not None else set()
    needed |= {key for key in options if key.lower().endswith("confluent.url")}
    if others := sorted(needed - own.keys()):
        what = others[0]
        raise ValueError(
            f"Table {table} has a `{what}`: a database, files or a Schema Registry of the script. The test "
            "would read or write there, so the script is refused. Nothing was run. Give one of the test: "
            f'run_sql(options={{"{table}": {{"{what}": "..."}}}}). Options with "connector" replace all '
            "options of the table."
        )


def _read_in_set(insert: Insert, topic: str) -> str:
    return (
        f"The INSERT INTO {insert.table} reads topic {topic}, and another INSERT of the statement set fills "
        "it. Both start together, and a test reads up to the end that the topic has at the start, so it is "
        "unknown which rows would be read. Nothing was run. Test them outside of a statement set: the "
        "INSERT that fills the topic first. Or put them into two scripts."
    )
