"""One batch of `replicate`: from the raw records of many topics to the rows of their tables.

Runs on the driver, in `foreachBatch`. Invariant, the order of the steps: the columns of tables are decided
and written down; tasks make rows with them; what each table gets is decided and written down; the tables
get it. After a death between any two steps the repeated batch decides the same, and each table gets the batch
once, because its marker says which batch it has.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import pyarrow as pa

from penstock.cdc.columns import Followed, change_between, follow_all
from penstock.cdc.commits import Target, apply_all, failed
from penstock.cdc.gather import Gathered, Known, Reader, digest_of_schema, joined, keys_in_several
from penstock.cdc.in_files import Parts, Place, Staging, staged_rows
from penstock.cdc.journal import Decided, Journal, TableColumns, TableState, rest_mark
from penstock.cdc.messages import MessageFormat, SourceTable
from penstock.errors import (
    DecodeError,
    MissingOptionError,
    PenstockError,
    RowError,
    SchemaError,
    StateError,
)
from penstock.state.columns import check_columns
from penstock.targets.all_rows import TakesAllRows
from penstock.targets.batch import Batch, LastRows, check_no_floats, last_indices
from penstock.targets.change import NO_CHANGE, ChangesColumns, ColumnChange
from penstock.targets.staged import Staged

OnTableError = Literal["stop", "leave-out"]
Kept = Literal["exception", "ignore", "lenient"]
"""What `evolve` may be. Not `evolve`, which drops columns: a topic partition that is behind may bring rows of
before the drop, and their schema is not told from that of a column which came again."""

_log = logging.getLogger(__name__)
_REMINDED: set[tuple[str, str]] = set()
"""The folder and the topic of tables that are left out, of which this process has told."""


@dataclass(frozen=True)
class SourceTopic:
    """A table of the source, as `tables` is asked for it.

    Attributes:
        topic: that has its changes.
        name: in the source, such as `shop.customers`: the schema or database, and the table.
    """

    topic: str
    name: str

    @property
    def schema(self) -> str:
        """The schema or database; "" if the name has none."""
        return self.name.rpartition(".")[0]

    @property
    def table(self) -> str:
        """The name without the schema or database."""
        return self.name.rpartition(".")[2]


@dataclass(frozen=True)
class Plan:
    """What the user has said; see `penstock.cdc.replicate`. Pickles if `tables` does."""

    format: MessageFormat
    tables: Callable[[SourceTopic], Target]
    journal: Journal
    keys: Mapping[str, tuple[str, ...]]
    evolve: Kept
    on_table_error: OnTableError
    threads: int


@dataclass
class ReplicatedBatch:
    """One batch of the stream.

    Attributes:
        plan: what the user has said.
        read: runs a reader in tasks over the records of the batch, and returns its receipts.
        query_id: of the stream.
        batch_id: Spark's number of the batch.
        staging: how rows that are many go into files; None if all go to the driver.
        columns: of the tables, by topic.
        failures: why tables get no more rows, by topic.
    """

    plan: Plan
    read: Callable[[Reader], pa.Table]
    query_id: str
    batch_id: int
    staging: Staging | None = None
    columns: dict[str, TableColumns] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def run(self) -> None:
        """Apply the batch; see the module."""
        journal = self.plan.journal
        before = journal.before(self.query_id, self.batch_id)
        self.columns = {topic: one.columns for topic, one in before.tables.items()}
        self.failures = dict(before.left_out)
        self._check_keys_of(before)
        self._remind(before.left_out)
        if (decided := journal.decided(self.batch_id)) is not None:
            self.failures |= decided.left_out
        batches = self._batches(self._gather(), before.tables)
        journal.decide(self.batch_id, Decided(self._states(before.tables, batches), self.failures))
        self._apply(batches)
        journal.sweep(self.batch_id)

    def _check_keys_of(self, before: Decided) -> None:
        """Raise SchemaError if `keys` was changed at a restart."""
        for topic, keys in self.plan.keys.items():
            table = before.tables.get(topic)
            if table is not None and set(table.columns.keys) != set(keys):
                raise _other_keys(topic, table.columns.keys, keys, self.batch_id)

    def _remind(self, left_out: Mapping[str, str]) -> None:
        """Say once in a process which tables get no rows."""
        for topic, reason in left_out.items():
            if (self.plan.journal.location, topic) not in _REMINDED:
                self._say_left_out(topic, reason)

    def _gather(self) -> Gathered:
        """Return the rows of all topics, after deciding the columns that they need."""
        decided = self.plan.journal.columns_of(self.batch_id)
        self.columns |= decided
        found = self._read(None)
        if found.unknown and self.plan.journal.decided(self.batch_id) is not None:
            raise _decided_before(found.unknown, self.batch_id)
        if found.unknown and (changed := self._follow(found)):
            self.plan.journal.decide_columns(self.batch_id, decided | changed)
            self.columns |= changed
            again = self._read(frozenset(changed))
            if again.unknown:
                raise AssertionError(f"expected columns for all schemas, got none for {list(again.unknown)}")
            found.update(again)
        for topic, reason in found.failures.items():
            self._fail_unread(topic, reason, found)
            found.rows.pop(topic, None)
        return found

    def _fail_unread(self, topic: str, reason: str, found: Gathered) -> None:
        what = f"Topic {topic}, {reason}. Nothing of batch {self.batch_id} was written to its table."
        self._fail(topic, DecodeError(what, topic=topic), found)

    def _read(self, only: frozenset[str] | None) -> Gathered:
        known = {topic: Known(one.columns, one.keys, one.schemas) for topic, one in self.columns.items()}
        folder = None if self.staging is None else self.staging.folder
        reader = Reader(self.plan.format, known, frozenset(self.failures), only, self._ignores, folder)
        return joined(self.read(reader), known)

    @property
    def _ignores(self) -> bool:
        return self.plan.evolve == "ignore"

    def _follow(self, found: Gathered) -> dict[str, TableColumns]:
        """Return the new columns of the topics that have unknown schemas."""
        changed = {}
        for topic, texts in found.unknown.items():
            try:
                changed[topic] = self._followed(topic, texts)
            except (SchemaError, MissingOptionError) as error:
                self._fail(topic, error, found)
        return changed

    def _followed(self, topic: str, texts: Sequence[str]) -> TableColumns:
        """Return the columns of a table that follow schemas, in the order of their messages."""
        known = self.columns.get(topic)
        messages = self.plan.format.of_topic(topic)
        sources = [messages.source(text) for text in texts]
        keys = self._keys(topic, sources)
        if known is not None:
            self._check_rest(topic, known, sources)
            if set(known.keys) != set(keys):
                raise _other_keys(topic, known.keys, keys, self.batch_id)
            keys = known.keys
        before = pa.schema([]) if known is None else known.columns
        schemas = [source.columns for source in sources]
        followed = follow_all(before, schemas, self.plan.evolve, keys, table=sources[-1].name)
        digests = frozenset(digest_of_schema(text, ignores=self._ignores) for text in texts)
        digests |= rest_mark(sources[0].rest)
        if known is not None and sources[0].rest in (None, known.rest):
            # If `rest` is new, the schemas of before are followed again, and so judged beside it.
            digests |= known.schemas
        name = sources[0].name if known is None else known.name
        columns = TableColumns(self.batch_id, followed.columns, keys, name, digests)
        self._check_table(topic, known, columns)
        if known is not None and str(followed) != str(Followed(followed.columns)):
            told = replace(followed, is_declared=not messages.has_schemas)
            _log.warning("Table %s of topic %s, batch %s: %s", name, topic, self.batch_id, told)
        return columns

    def _check_table(self, topic: str, known: TableColumns | None, now: TableColumns) -> None:
        """Raise SchemaError if the table cannot have these columns, or cannot get them."""
        target = self._target(topic, now)
        if isinstance(target, TakesAllRows):
            raise SchemaError(
                f"{target} keeps a history, and replicate keeps the newest rows. Nothing of batch "
                f"{self.batch_id} was written to it. Use penstock.changelog.materialize for a history.",
                topic=topic,
            )
        check_columns(now.columns, now.keys)
        check_no_floats(now.columns, now.keys)
        target.check(now.columns, now.keys)
        if known is not None and (change := change_between(known.columns, now.columns)):
            self._check_change(target, topic, change)

    def _check_rest(self, topic: str, known: TableColumns, sources: Sequence[SourceTable]) -> None:
        """Raise SchemaError if one column would have values of its own, and fields that are not declared."""
        old, new = known.rest, sources[0].rest
        if old == new:
            return
        if old is None and self._ignores:
            raise SchemaError(
                f"`rest` names column '{new}' for the table of topic {topic}, which does not have it yet. "
                "With evolve='ignore' no column is added, and the other fields would be left out. "
                f"Nothing of batch {self.batch_id} was written to it. Set evolve='lenient', or leave `rest` "
                "out.",
                topic=topic,
            )
        names = {name for source in sources for name in source.columns.names}
        if old is not None and (old in names or not self.plan.format.has_schemas):
            mixed = old
        elif new is not None and new in known.columns.names:
            mixed = new
        else:
            return
        raise SchemaError(
            f"`rest` was {old!r} for the table of topic {topic}, and now it is {new!r}. Column '{mixed}' "
            "would have fields that are not declared in some rows, and other values in others. Nothing of "
            f"batch {self.batch_id} was written to it. Set `rest` as before. For a table without one give "
            "it a name that no column has.",
            topic=topic,
        )

    def _keys(self, topic: str, sources: Sequence[SourceTable]) -> tuple[str, ...]:
        """Return the primary key: the user's, or that of the records."""
        given, first = self.plan.keys.get(topic), sources[0].keys
        for source in sources:
            if given and source.keys and set(given) != set(source.keys):
                raise SchemaError(
                    f"`keys` says {', '.join(given)} for topic {topic}, and its record key has "
                    f"{', '.join(source.keys)}. Nothing of batch {self.batch_id} was written to its table. A "
                    "change of another key would leave the old row. Leave the topic out of `keys`, which is "
                    "for topics without a record key.",
                    topic=topic,
                )
            if not given and source.keys != first:
                raise _other_keys(topic, first or (), source.keys or (), self.batch_id)
        if given:
            return given
        if not first:
            raise MissingOptionError(
                f"The primary key of topic {topic} is unknown: its records have no key with a schema. "
                f"Nothing of batch {self.batch_id} was written to its table. Name the columns: "
                f"keys={{{topic!r}: ['id']}}.",
                option="keys",
                topic=topic,
            )
        return first

    def _check_change(self, target: Target, topic: str, change: ColumnChange) -> None:
        if not isinstance(target, ChangesColumns):
            raise SchemaError(
                f"The columns of topic {topic} have changed, and those of {target} cannot change. Nothing of "
                f"batch {self.batch_id} was written to it. Use evolve='ignore', or a table of Delta, Iceberg "
                "or a database.",
                topic=topic,
            )
        target.check_change(change)

    def _batches(self, found: Gathered, before: Mapping[str, TableState]) -> dict[str, Batch | Staged]:
        """Return what each table gets."""
        batches: dict[str, Batch | Staged] = {}
        for topic, rows in found.rows.items():
            if rows.num_rows:
                place = self._place(topic, before)
                batches[topic] = Batch(place.query_id, place.batch_id, place.keys, rows, place.change)
        for topic, parts in found.in_files.items():
            try:
                batches[topic] = self._staged(topic, parts, before)
            except RowError as error:
                self._fail_unread(topic, str(error), found)
        return batches

    def _place(self, topic: str, before: Mapping[str, TableState]) -> Place:
        state = before.get(topic)
        number = 0 if state is None else state.number + 1
        now = self.columns[topic]
        applied = None if state is None else state.applied
        change = NO_CHANGE if applied is None else change_between(applied.columns, now.columns)
        schema = LastRows(now.keys, now.columns).schema
        return Place(_query_of(self.query_id, topic), number, now.keys, schema, change)

    def _staged(self, topic: str, parts: Parts, before: Mapping[str, TableState]) -> Staged:
        """Return a batch in files.

        Raises:
            RowError: two topic partitions have a row of one key.
        """
        if self.staging is None:
            raise AssertionError(f"expected no rows of topic {topic} in files without a staging folder")
        batch = staged_rows(parts, self._place(topic, before), self.staging)
        if len(last_indices(batch.key_rows, batch.keys)) != batch.key_rows.num_rows:
            raise keys_in_several(parts)
        return batch

    def _states(
        self, before: Mapping[str, TableState], batches: Mapping[str, Batch | Staged]
    ) -> dict[str, TableState]:
        """Return every table after this batch."""
        found = {}
        for topic, columns in self.columns.items():
            state = before.get(topic, TableState(columns))
            batch = batches.get(topic)
            if batch is None:
                found[topic] = TableState(columns, state.number, None, state.applied)
            else:
                found[topic] = TableState(columns, batch.batch_id, batch.digest(), columns)
        return found

    def _apply(self, batches: Mapping[str, Batch | Staged]) -> None:
        run = None if self.staging is None else self.staging.run
        failures = apply_all(batches, self._target_of, self.plan.threads, run)
        errors = {topic: one.error for topic, one in failures.items()}
        if not errors:
            return
        if self.plan.on_table_error == "stop" or any(one.stops for one in failures.values()):
            error, cause = failed(errors, self.batch_id, len(batches)), next(iter(errors.values()))
            if error is cause:  # an error must not be its own cause
                raise error
            raise error from cause
        reasons = {topic: f"{type(error).__name__}: {error}" for topic, error in errors.items()}
        self.plan.journal.leave_out(self.batch_id, reasons)
        for topic, reason in reasons.items():
            self._say_left_out(topic, reason)

    def _target_of(self, topic: str) -> Target:
        return self._target(topic, self.columns[topic])

    def _target(self, topic: str, columns: TableColumns) -> Target:
        return self.plan.tables(SourceTopic(topic, columns.name))

    def _fail(self, topic: str, error: PenstockError, found: Gathered) -> None:
        """End the query, or leave a table out from the first record of this batch on."""
        if self.plan.on_table_error == "stop":
            raise error
        begins = ", ".join(
            f"{offset} of partition {partition}" for partition, offset in found.begins[topic].items()
        )
        self.failures[topic] = f"{error} Its table has the records before the offset {begins}."
        self._say_left_out(topic, self.failures[topic])

    def _say_left_out(self, topic: str, reason: str) -> None:
        _REMINDED.add((self.plan.journal.location, topic))
        _log.error(
            "The table of topic %s is left out in batch %s of query %s and after it, because it failed: %s",
            topic,
            self.batch_id,
            self.query_id,
            reason,
        )


def _decided_before(topics: Iterable[str], batch_id: int) -> StateError:
    return StateError(
        f"Batch {batch_id} was decided before, and messages of the topics {', '.join(sorted(topics))} have "
        "other columns for it now. Nothing was written now. If `evolve`, `columns` or `rest` was changed, "
        "start with the value of before until this batch is done.",
        batch_id=batch_id,
    )


def _other_keys(topic: str, known: Sequence[str], found: Sequence[str], batch_id: int) -> SchemaError:
    return SchemaError(
        f"The primary key of topic {topic} was {', '.join(known)}, and now it is "
        f"{', '.join(found) or 'none'}. Nothing of batch {batch_id} was written to its table. Build the "
        "table again with a new checkpoint and a new state.",
        topic=topic,
    )


def _query_of(query_id: str, topic: str) -> str:
    """Return the query that the marker of a table names, so that two topics cannot share a table."""
    return f"{query_id}/{hashlib.sha256(topic.encode()).hexdigest()[:16]}"
