"""The folders of checkpoints: which query each of them belongs to.

Runs on the driver. Invariant: a query continues from a checkpoint only if the checkpoint was made by the same
query, or if the user has said that a changed query may continue. The file `penstock-sql/query.json` in the
folder holds the query, with a version, since version 2 the definitions that it uses, since version 3 its
operators with a state, and since version 4 its joins whose sides have one read. A query without such joins
still has version 3. The file counts once Spark has planned a batch: before that the folder has neither
positions nor state, e.g. because Spark refused the query.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.security.location import without_secrets
from penstock.sql.language.hints import is_options_hint
from penstock.sql.language.source import Source
from penstock.sql.language.statements import ComputedColumn, Fragment, Insert
from penstock.sql.language.tokens import Kind, tokenize
from penstock.sql.run.catalog import Catalog, Table, View
from penstock.state.files import Files, open_files

_log = logging.getLogger("penstock.sql")
_FOLDER, _FILE, _VERSION = "penstock-sql", "query.json", 4
_WITHOUT_DEFINITIONS, _WITHOUT_STATES, _WITHOUT_SHARED = 1, 2, 3
_HINTS = 3
"""The index of the hints of the target in the list of `described`."""


@dataclass(frozen=True)
class QueryNote:
    """A query, the definitions that it uses, and its operators.

    The definitions have their names. What an operator does has the id of its state. `shared` has the joins
    whose sides have one read, by these ids: two reads would be two sources in the checkpoint.

    The definitions, or the operators, are None if the note is of a version without them.
    """

    query: str
    definitions: Mapping[str, str] | None
    states: Mapping[str, str] | None
    shared: frozenset[str] = frozenset()


def described(insert: Insert, key: tuple[str, str]) -> str:
    """Return an INSERT without its comments and spaces, so that a new layout is not a new query.

    The OPTIONS hints of the tables that it reads are left out, because their options in WITH may change too.
    """
    return json.dumps([*key, insert.columns, sorted(insert.hints), _tokens(insert.query)], ensure_ascii=False)


def _tokens(fragment: Fragment) -> list[list[str]]:
    return [
        [token.kind.name, token.value]
        for token in tokenize(Source(fragment.text))
        if token.kind is not Kind.HINT or not is_options_hint(token.value)
    ]


def definition_of(found: Table | View) -> str:
    """Return what a view or table does to the rows of a query, without comments and spaces.

    Of a table it is the computed columns, the watermark and the primary key. Its options may change.
    """
    if isinstance(found, View):
        parts: list[object] = [found.database, found.definition.columns, _tokens(found.definition.query)]
    else:
        table = found.definition
        computed = [each for each in table.columns if isinstance(each, ComputedColumn)]
        mark = table.watermark
        parts = [
            [[each.name, _tokens(each.expression)] for each in computed],
            [] if mark is None else [mark.column, _tokens(mark.expression)],
            table.primary_key,
        ]
    return json.dumps(parts, ensure_ascii=False)


def check(folder: str, query: str, catalog: Catalog) -> None:
    """Compare a query of `described` with that of its checkpoint, before all of its definitions are known.

    Raises:
        ValueError: the checkpoint belongs to another query, or the folder cannot be read.
    """
    noted, begun = _read(folder)
    if noted is None or begun.planned is None:
        return
    known = {".".join(key): found for key, found in catalog.objects.items()}
    names = set(noted.definitions or ())
    definitions = {name: definition_of(known[name]) for name in sorted(names & known.keys())}
    functions = {f"function {name}": made.path for name, made in catalog.functions.items()}
    definitions.update({name: functions[name] for name in sorted(names & functions.keys())})
    changed = _changed(noted, query, definitions)
    if changed is not None:
        raise ValueError(_refusal(without_secrets(folder), changed, begun))


def shared_reads(folder: str) -> frozenset[str] | None:
    """Return the joins of a checkpoint whose sides have one read, by the ids of their states.

    Returns:
        None if no batch was planned: the number of sources may still change.

    Raises:
        ValueError: the folder cannot be read.
    """
    noted, begun = _read(folder)
    if begun.planned is None:
        return None
    return frozenset() if noted is None else noted.shared


def compare(
    folder: str,
    query: str,
    definitions: Mapping[str, str],
    states: Mapping[str, str],
    *,
    may_change: bool,
    shared: frozenset[str] = frozenset(),
) -> QueryNote | None:
    """Compare a query with the one that is noted in its folder of checkpoints, and write nothing.

    Args:
        folder: a path, or a URI of `pyarrow.fs`.
        query: from `described`.
        definitions: of the views, tables and functions that it uses, by their names.
        states: what its operators do, by the ids of their states.
        may_change: whether another query may continue from the checkpoint.
        shared: its joins whose sides have one read. A checkpoint that has begun keeps its own.

    Returns:
        What `note` has to write before the query starts; None if that is noted already.

    Raises:
        ValueError: the checkpoint belongs to another query, or the folder cannot be read.
    """
    noted, begun = _read(folder)
    if begun.planned is not None:
        shared = frozenset() if noted is None else noted.shared
    if noted == QueryNote(query, definitions, states, shared):
        return None
    changed = _changed(noted, query, definitions) if noted is not None else None
    if begun.planned is not None and changed is not None:
        if not may_change:
            raise ValueError(_refusal(without_secrets(folder), changed, begun))
        if not begun.is_between_batches:
            _log.warning(
                "Batch %s of the checkpoint in %s was begun and not finished. The changed query repeats it. "
                "With exactly-once it stops with TransactionsInDoubtError if the batch is written already: "
                "start the old script once then, and stop it with one Ctrl-C.",
                begun.planned,
                without_secrets(folder),
            )
    if begun.planned is not None and noted is not None:
        _check_states(noted, states, without_secrets(folder))
    return QueryNote(query, definitions, states, shared)


def note(folder: str, noted: QueryNote) -> None:
    """Note a query in its folder of checkpoints."""
    definitions = dict(sorted((noted.definitions or {}).items()))
    states = dict(noted.states or {})
    made: dict[str, object] = {"query": noted.query, "definitions": definitions, "states": states}
    made |= (
        {"version": _VERSION, "shared": sorted(noted.shared)}
        if noted.shared
        else {"version": _WITHOUT_SHARED}
    )
    text = json.dumps(made)
    with open_files(folder).create(f"{_FOLDER}/{_FILE}") as sink:
        sink.write(text.encode())


@dataclass(frozen=True)
class _BatchLogs:
    """The last batches in Spark's two logs: the one that was planned, and the one that is done."""

    planned: int | None = None
    done: int | None = None

    @classmethod
    def of(cls, files: Files) -> _BatchLogs:
        """Return those of a checkpoint. Spark's other files have other names."""
        planned, done = (
            max((int(name) for name in files.names(log) if name.isdigit()), default=None)
            for log in ("offsets", "commits")
        )
        return cls(planned, done)

    @property
    def is_between_batches(self) -> bool:
        return self.planned == self.done


def _read(folder: str) -> tuple[QueryNote | None, _BatchLogs]:
    """Return the query that is noted in a folder of checkpoints, and its last batches.

    Raises:
        ValueError: the folder cannot be read.
    """
    try:
        files = open_files(folder)
        begun = _BatchLogs.of(files)
        try:
            text = bytes(files.read(f"{_FOLDER}/{_FILE}"))
        except FileNotFoundError:
            return None, begun
        return _noted(json.loads(text), folder), begun
    except (OSError, ValueError) as error:
        shown = without_secrets(folder)
        raise ValueError(
            f"the folder of checkpoints {shown} cannot be read: {str(error).replace(folder, shown)}"
        ) from None


def _refusal(folder: str, changed: str, begun: _BatchLogs) -> str:
    """Return why another query may not continue from a checkpoint, and what to do."""
    said = f"the checkpoint in {folder} belongs to another query{changed}"
    other = "give the job another name: SET 'pipeline.name' = '...'"
    if begun.done is None:
        return (
            f"{said}, whose first batch was begun and not finished. If that query failed before it wrote "
            f"anything, delete the folder {folder} and start this script again. Otherwise {other}. "
            "docs/change-a-job.md"
        )
    cut = (
        ""
        if begun.is_between_batches
        else (
            f" Batch {begun.planned} was cut off: start the old script once before, and stop it with one "
            "Ctrl-C."
        )
    )
    return (
        f"{said}, so its positions and state may not fit this one. G{other[1:]}. Or, if only a filter or a "
        f"projection has changed: SET 'penstock.changed-query' = 'continue'.{cut} docs/change-a-job.md"
    )


def _changed(noted: QueryNote, query: str, definitions: Mapping[str, str]) -> str | None:
    """Return in words which definition or hint has changed; "" if the query has; None if nothing has."""
    if noted.query != query:
        return ", which has another OPTIONS hint of the target" if _differ_by_hint(noted.query, query) else ""
    old = noted.definitions
    names = [] if old is None else [name for name in definitions if old.get(name) != definitions[name]]
    return f": '{names[0]}' has another definition now" if names else None


def _differ_by_hint(noted: str, query: str) -> bool:
    """Return whether two queries of `described` differ by the hints of their target alone."""
    old, new = _parts_of(noted), _parts_of(query)
    return len(old) == len(new) and [each for each in range(len(old)) if old[each] != new[each]] == [_HINTS]


def _parts_of(text: str) -> list[Any]:
    """Return the parts of a text of `described` or `definition_of`; only the text if it is something else."""
    try:
        found = json.loads(text)
    except ValueError:
        return [text]
    return found if isinstance(found, list) else [text]


def _without_read_hints(text: str) -> str:
    """Return a query or definition without the OPTIONS hints of tables that are read, if it has some.

    Earlier versions noted them.
    """
    parts = _parts_of(text)
    if parts and isinstance(parts[-1], list):
        kept = [token for token in parts[-1] if not _is_noted_hint(token)]
        if kept != parts[-1]:
            return json.dumps([*parts[:-1], kept], ensure_ascii=False)
    return text


def _is_noted_hint(token: object) -> bool:
    if not isinstance(token, list) or len(token) != 2:
        return False
    return bool(token[0] == Kind.HINT.name) and is_options_hint(str(token[1]))


def _noted(found: dict[str, object], folder: str) -> QueryNote:
    version, query = found.get("version"), _without_read_hints(str(found.get("query")))
    definitions, states = found.get("definitions"), found.get("states")
    if isinstance(definitions, dict):
        definitions = {name: _without_read_hints(text) for name, text in definitions.items()}
    if version == _WITHOUT_DEFINITIONS:
        return QueryNote(query, None, None)
    if version == _WITHOUT_STATES and isinstance(definitions, dict):
        return QueryNote(query, definitions, None)
    shared = found.get("shared", [])
    is_known = version in (_WITHOUT_SHARED, _VERSION) and isinstance(shared, list)
    if not is_known or not isinstance(definitions, dict) or not isinstance(states, dict):
        raise ValueError(f"version {version} of its note in {folder} is not known")
    return QueryNote(query, definitions, states, _ids(shared))


def _ids(listed: object) -> frozenset[str]:
    return frozenset(map(str, listed)) if isinstance(listed, list) else frozenset()


def _check_states(noted: QueryNote, states: Mapping[str, str], folder: str) -> None:
    """Check that no operator gets the state of another one.

    Raises:
        ValueError: one would, or the ids of the states are those of an older version.
    """
    if noted.states is None:
        if states:
            raise ValueError(
                f"the checkpoint in {folder} was made by a development version of penstock, which named the "
                f"states of operators in another way. Nothing was started. {_NEW_NAME}"
            )
        return
    changed = [each for each in {**noted.states, **states} if noted.states.get(each) != states.get(each)]
    if changed:
        raise ValueError(
            f"the operators with a state are others than those of the checkpoint in {folder}: "
            f"{', '.join(sorted(changed))}. An operator would continue with the state of another one, or "
            f"with none. Nothing was started. {_NEW_NAME}"
        )


_NEW_NAME = (
    "Start the script that made it, with the version of penstock that made it. Or give the job a new name: "
    "SET 'pipeline.name' = '...'. "
    "docs/change-a-job.md, 'A new name', says how to begin where the old script stopped."
)
