"""The journal of `replicate`: what was decided for each batch of the stream, before any table got it.

Runs on the driver. Invariants: the columns of a batch are written down before a task makes rows with them,
and the tables of a batch before the first of them is changed. So a repeated batch gives the same rows to the
same tables, or ends in an error. Spark repeats only the newest batch, so older files are deleted.

Files in the folder of the state, all JSON with a `format`:

    query.json            the query that has the folder
    columns/<batch>.json  the columns of tables that a batch has found or changed
    batches/<batch>.json  for every table its own number of its last batch, and what this batch gave it

Batches are numbered for each table, because a batch of the stream has rows of some tables only: the marker of
a table then follows the rule of `penstock.targets.marker` without gaps.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa

from penstock.errors import MaterializeError, StateError
from penstock.security.location import without_secrets
from penstock.state.files import TEMPORARY, Files, open_files

_FORMAT = 1
_QUERY, _COLUMNS, _BATCHES = "query.json", "columns", "batches"
_KEPT_BATCHES = 3
_REST = "rest:"


def rest_mark(rest: str | None) -> frozenset[str]:
    """Return what stands among the digests of schemas for the column of the fields that are not declared."""
    return frozenset() if rest is None else frozenset({f"{_REST}{rest}"})


@dataclass(frozen=True)
class TableColumns:
    """The columns of a table.

    Attributes:
        decided_in: the batch of the stream that decided them; it names the file.
        columns: of the table, as Arrow types.
        keys: the primary key.
        name: of the table in its source, such as `shop.customers`.
        schemas: digests of the schemas of messages that these columns follow, and `rest_mark` if a column has
            the fields that are not declared.
    """

    decided_in: int
    columns: pa.Schema
    keys: tuple[str, ...]
    name: str
    schemas: frozenset[str]

    @property
    def rest(self) -> str | None:
        """The column that has or had the fields that are not declared; None without one."""
        return next((one.removeprefix(_REST) for one in self.schemas if one.startswith(_REST)), None)


@dataclass(frozen=True)
class TableState:
    """A table after a batch of the stream.

    Attributes:
        columns: of the table.
        number: of the last batch of this table, counted for itself from 0; -1 before the first one.
        digest: of what this batch of the stream gives the table; None if it has no rows of it.
        applied: the columns that its last batch had; None before the first one.
    """

    columns: TableColumns
    number: int = -1
    digest: str | None = None
    applied: TableColumns | None = None


@dataclass(frozen=True)
class Decided:
    """All tables after a batch of the stream.

    Attributes:
        tables: by topic.
        left_out: why topics get no more rows in their tables, by topic. Some of them have no table.
    """

    tables: Mapping[str, TableState] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Journal:
    """The folder of one query.

    Attributes:
        location: a path or a URI, as of a state.
    """

    location: str = field(repr=False)

    def __str__(self) -> str:
        return f"the state of replicate in {without_secrets(self.location)}"

    @cached_property
    def _files(self) -> Files:
        return open_files(self.location)

    def __getstate__(self) -> dict[str, Any]:
        return {"location": self.location}

    def before(self, query_id: str, batch_id: int) -> Decided:
        """Return the tables before a batch of the stream.

        Raises:
            StateError: the folder is of another query, or lacks the batch before.
        """
        self._check_query(query_id, batch_id)
        if batch_id == 0:
            return Decided()
        found = self.decided(batch_id - 1)
        if found is None:
            raise StateError(
                f"Batch {batch_id} of query {query_id} does not follow {self}, which has no batch "
                f"{batch_id - 1}. Nothing of the batch was written. The state or the checkpoint has gone "
                "back in time. Restore both from the same time, or build the tables again with a new "
                "checkpoint and a new state.",
                batch_id=batch_id,
            )
        return found

    def decided(self, batch_id: int) -> Decided | None:
        """Return what was decided for a batch; None if nothing was."""
        path = f"{_BATCHES}/{batch_id}.json"
        written = self._read(path)
        if written is None:
            return None
        with self._reading(path):
            states = {topic: _state_from(one) for topic, one in _field(written, "tables", dict).items()}
            left_out = _field(written, "left_out", dict)
        return Decided(self._tables_of(states), left_out)

    def columns_of(self, batch_id: int) -> dict[str, TableColumns]:
        """Return the columns that a batch has decided, by topic; {} if it has decided none."""
        path = f"{_COLUMNS}/{batch_id}.json"
        written = self._read(path)
        if written is None:
            return {}
        with self._reading(path):
            tables = _field(written, "tables", dict)
            return {topic: _columns_from(batch_id, one) for topic, one in tables.items()}

    def decide_columns(self, batch_id: int, tables: Mapping[str, TableColumns]) -> None:
        """Write down the columns that a batch has found or changed, by topic."""
        self._write(f"{_COLUMNS}/{batch_id}.json", {topic: _columns_as(one) for topic, one in tables.items()})

    def decide(self, batch_id: int, now: Decided) -> None:
        """Write down what a batch gives each table. A repeated batch must give the same.

        Raises:
            MaterializeError: it gives other rows than before.
        """
        then = self.decided(batch_id)
        if then is None:
            self._write_batch(batch_id, now)
            return
        differing = sorted(
            topic
            for topic in (then.tables.keys() | now.tables.keys()) - then.left_out.keys()
            if _content(then.tables.get(topic)) != _content(now.tables.get(topic))
        )
        if differing:
            raise MaterializeError(
                f"Batch {batch_id} was decided before with other rows of the topics {', '.join(differing)} "
                f"({self}). Nothing was written now. Spark repeats a batch with the same records, so the "
                "data of the source has changed. Build these tables again with a new checkpoint and a new "
                "state.",
                batch_id=batch_id,
            )

    def leave_out(self, batch_id: int, reasons: Mapping[str, str]) -> None:
        """Write down that tables get no more rows, from this batch on."""
        then = self.decided(batch_id)
        if then is None:
            raise AssertionError(f"expected batch {batch_id} to be decided before its tables fail")
        if self.decided(batch_id + 1) is not None:
            raise StateError(
                f"Tables failed in batch {batch_id} ({', '.join(reasons)}), and another driver of the query "
                f"has decided batch {batch_id + 1} since ({self}). Nothing was changed now. Stop one of the "
                "two drivers.",
                batch_id=batch_id,
            )
        self._write_batch(batch_id, replace(then, left_out={**then.left_out, **reasons}))

    def _write_batch(self, batch_id: int, decided: Decided) -> None:
        tables = {topic: _state_as(one) for topic, one in decided.tables.items()}
        self._write(f"{_BATCHES}/{batch_id}.json", tables, left_out=dict(decided.left_out))

    def sweep(self, batch_id: int) -> None:
        """Delete what no batch from this one on needs. Spark may still repeat this one."""
        kept = set()
        for name in self._files.names(_BATCHES):
            number = _number(name)
            if number < batch_id - _KEPT_BATCHES:
                self._files.delete(f"{_BATCHES}/{name}")
            elif name != f"{number}.json":
                continue  # a driver has died while it wrote this file, or is writing it now
            elif (written := self._read(f"{_BATCHES}/{name}", batch_id)) is not None:
                with self._reading(f"{_BATCHES}/{name}", batch_id):
                    states = [_state_from(one) for one in _field(written, "tables", dict).values()]
                kept |= {number for one in states for number in (one.columns, one.applied)}
        for name in self._files.names(_COLUMNS):
            if _number(name) < batch_id - _KEPT_BATCHES and _number(name) not in kept:
                self._files.delete(f"{_COLUMNS}/{name}")

    def _check_query(self, query_id: str, batch_id: int) -> None:
        written = self._read(_QUERY)
        if written is None and batch_id == 0:
            self._write(_QUERY, {}, query_id=query_id)
            return
        with self._reading(_QUERY):
            found = None if written is None else _field(written, "query_id", str)
        if found != query_id:
            raise StateError(
                f"Batch {batch_id} is of query {query_id}, and {self} is of "
                f"{'no query' if found is None else f'query {found}'}. Nothing of the batch was written. "
                "Each checkpoint needs a state of its own: give a new folder to a new checkpoint.",
                query_id=query_id,
            )

    def _tables_of(self, states: Mapping[str, _State]) -> dict[str, TableState]:
        files: dict[int, dict[str, TableColumns]] = {}

        def columns(topic: str, decided_in: int) -> TableColumns:
            if decided_in not in files:
                files[decided_in] = self.columns_of(decided_in)
            if topic not in files[decided_in]:
                raise StateError(
                    f"{_COLUMNS}/{decided_in}.json has no columns of topic {topic} ({self}). Nothing was "
                    "written. A file of the state is missing or was changed. Restore the state together with "
                    "the checkpoint."
                )
            return files[decided_in][topic]

        return {
            topic: TableState(
                columns(topic, one.columns),
                one.number,
                one.digest,
                None if one.applied is None else columns(topic, one.applied),
            )
            for topic, one in states.items()
        }

    def _read(self, path: str, applied: int | None = None) -> dict[str, Any] | None:
        """Return what is in a file; None if there is none. See `_reading` for `applied`."""
        try:
            contents = self._files.read(path).to_pybytes()
        except FileNotFoundError:
            return None
        with self._reading(path, applied):
            found: dict[str, Any] = json.loads(contents)
            number = _field(found, "format", int)
        if number != _FORMAT:
            raise StateError(
                f"{path} has format {number}, and this version of penstock reads {_FORMAT} ({self}). Nothing "
                "was written. Use the version of penstock that wrote it.",
                path=path,
            )
        return found

    @contextmanager
    def _reading(self, path: str, applied: int | None = None) -> Iterator[None]:
        """Raise StateError, which names the file, for each ValueError: it is not as a journal has written it.

        Args:
            path: of the file.
            applied: the batch that all tables have by now; None before any table has it.
        """
        try:
            yield
        except ValueError as error:
            done = "Nothing was written" if applied is None else f"The tables have batch {applied}"
            raise StateError(
                f"{path} cannot be read ({self}): {error}. {done}. Restore the state together with the "
                "checkpoint.",
                path=path,
            ) from error

    def _write(self, path: str, tables: Mapping[str, Any], **more: Any) -> None:
        text = json.dumps({"format": _FORMAT, **more, "tables": dict(tables)}, sort_keys=True)
        with self._files.create(path) as file:
            file.write(text.encode())


def _content(state: TableState | None) -> tuple[int, str | None] | None:
    return None if state is None else (state.number, state.digest)


def _number(name: str) -> int:
    """Return the batch of a file, also of one that is not complete."""
    stem = name.partition(TEMPORARY)[0].removesuffix(".json")
    return int(stem) if stem.isdecimal() else 1 << 62  # not ours


def _columns_as(one: TableColumns) -> dict[str, Any]:
    return {
        "name": one.name,
        "keys": list(one.keys),
        "columns": {each.name: str(each.type) for each in one.columns},
        "arrow": base64.b64encode(one.columns.serialize().to_pybytes()).decode(),
        "schemas": sorted(one.schemas),
    }


def _columns_from(batch_id: int, written: Any) -> TableColumns:
    columns = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(_field(written, "arrow", str))))
    keys, schemas = _texts(written, "keys"), _texts(written, "schemas")
    return TableColumns(batch_id, columns, keys, _field(written, "name", str), frozenset(schemas))


def _state_as(one: TableState) -> dict[str, Any]:
    applied = None if one.applied is None else one.applied.decided_in
    return {
        "columns": one.columns.decided_in,
        "number": one.number,
        "digest": one.digest,
        "applied": applied,
    }


class _State(NamedTuple):
    """A `TableState` as it is written: its columns are named by the batches that decided them."""

    columns: int
    number: int
    digest: str | None
    applied: int | None


def _state_from(written: Any) -> _State:
    return _State(
        _field(written, "columns", int),
        _field(written, "number", int),
        _field(written, "digest", str, type(None)),
        _field(written, "applied", int, type(None)),
    )


def _texts(written: Any, name: str) -> tuple[str, ...]:
    found = _field(written, name, list)
    if not all(isinstance(one, str) for one in found):
        raise ValueError(f"expected texts as '{name}', got {found}")
    return tuple(found)


def _field(written: Any, name: str, *kinds: type) -> Any:
    """Return a field of an object in JSON. Raises ValueError if it is missing, or is of another type."""
    if not isinstance(written, dict):
        raise ValueError(f"expected an object with the field '{name}', got {type(written).__name__}")
    if name not in written:
        raise ValueError(f"the field '{name}' is missing")
    if type(written[name]) not in kinds:  # True is an int for isinstance
        expected = " or ".join("null" if one is type(None) else one.__name__ for one in kinds)
        raise ValueError(f"expected {expected} as '{name}', got {type(written[name]).__name__}")
    return written[name]
