"""Decide the columns of a table after its source has changed them: `evolve`.

Runs on the driver; pure. Invariants: no value that a table has, or that a message brings, is cut or changed.
Columns are added at the end. What cannot be followed is an error, and the error comes before anything is
written. If columns may be added, the order in which schemas are seen does not change which columns a table
gets, nor their types.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Literal

import pyarrow as pa

from penstock.errors import SchemaError
from penstock.state.followed import GENERATION, common_type, generation
from penstock.targets.change import ColumnChange, Widening

Evolve = Literal["exception", "ignore", "lenient", "evolve"]
EVOLVE: tuple[Evolve, ...] = ("exception", "ignore", "lenient", "evolve")

_DROPPED = b"penstock.dropped"
"""In the metadata of the columns: how often each name was dropped, as JSON."""

_NOTHING = "Nothing of this batch was written."
_NEW_TABLE = (
    "Undo the change in the source, or start again with a new checkpoint, an empty state and an empty table, "
    "and read the topic from its start"
)


@dataclass(frozen=True)
class Widened:
    """A column whose type became wider."""

    name: str
    old: pa.DataType
    new: pa.DataType


@dataclass(frozen=True)
class Followed:
    """The columns of a table after its source, and what changed.

    Attributes:
        columns: of the table. A key is NOT NULL, and a new column may be null. The metadata of the schema
            and its fields belongs to them: keep it if you write them down.
        added: new columns. Old rows have null in them.
        widened: columns with a wider type.
        dropped: columns that leave the table, with their values (`evolve` only).
        kept: columns that the source does not have any more. They stay, and new rows have null. If columns
            are declared: those that are not declared any more. They stay, and get the values of their fields.
        ignored: columns of the source that are left out (`ignore` only).
        unwidened: columns that are wider in the source than in the table (`ignore` only). Their values have
            to fit.
        is_declared: whether the user declares the columns, because messages do not say them.
    """

    columns: pa.Schema
    added: tuple[str, ...] = ()
    widened: tuple[Widened, ...] = ()
    dropped: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    unwidened: tuple[Widened, ...] = ()
    is_declared: bool = False

    @property
    def is_changed(self) -> bool:
        """Return whether the table has to change."""
        return bool(self.added or self.widened or self.dropped)

    def __str__(self) -> str:
        gone, place = "which the source does not have any more", "in the source"
        if self.is_declared:
            gone, place = (
                "which is not declared any more and still gets the values of its field",
                "in `columns`",
            )
        parts = [
            *(f"added {self.columns.field(name).type} {name}" for name in self.added),
            *(f"widened {one.name} from {one.old} to {one.new}" for one in self.widened),
            *(f"dropped {name}" for name in self.dropped),
            *(f"kept {name}, {gone}" for name in self.kept),
            *(f"left out {name}" for name in self.ignored),
            *(f"left {one.name} as {one.old}, which is {one.new} {place}" for one in self.unwidened),
        ]
        return "; ".join(parts) or "no change"


def follow(
    known: pa.Schema, found: pa.Schema, evolve: Evolve, keys: Sequence[str], *, table: str = ""
) -> Followed:
    """Return the columns of a table after one schema of its source; see `follow_all`."""
    return follow_all(known, [found], evolve, keys, table=table)


def follow_all(
    known: pa.Schema, found: Sequence[pa.Schema], evolve: Evolve, keys: Sequence[str], *, table: str = ""
) -> Followed:
    """Return the columns of a table after all schemas that messages of one batch have.

    A column is gone from the source if none of the schemas has it. So a batch of old and new messages keeps
    what the old messages bring. A new table gets the columns of all schemas of its first batch.

    Args:
        known: columns of the table; empty for a table that does not exist yet.
        found: columns of the source, one schema for each kind of message, in the order of the messages.
        evolve: what to do with a change.
        keys: the primary key of the table.
        table: its name, for messages.

    Raises:
        SchemaError: the change cannot be followed, or `evolve` does not allow it. Nothing was written.
    """
    if not found:
        return Followed(known)
    is_new = not len(known)
    about = _About(table, tuple(keys), "lenient" if is_new else evolve, is_new)
    for one in (known, *found):
        about.check_names(one)
    known = _first(found[0], about) if is_new else known
    step = reduce(lambda step, schema: _with(step, schema, about), found, Followed(known))
    there = {name for schema in found for name in schema.names}
    step = _without_missing(step, there, about)
    return Followed(step.columns, added=tuple(step.columns.names)) if is_new else step


def change_between(before: pa.Schema, after: pa.Schema) -> ColumnChange:
    """Return what a table has to change between two of its batches."""
    old, new = ({(one.name, generation(one)): one for one in columns} for columns in (before, after))
    return ColumnChange(
        tuple(name for name, count in old if (name, count) not in new),
        tuple(new[one] for one in new if one not in old),
        tuple(
            Widening(one[0], old[one].type, new[one].type)
            for one in new
            if one in old and new[one].type != old[one].type
        ),
    )


@dataclass(frozen=True)
class _About:
    """What does not change while schemas are followed."""

    table: str
    keys: tuple[str, ...]
    evolve: Evolve
    is_new: bool

    def error(self, column: str, what: str, advice: str, **facts: object) -> SchemaError:
        of_table = f" of table {self.table}" if self.table else ""
        return SchemaError(
            f"Column '{column}'{of_table} {what}. {_NOTHING} {advice}.",
            table=self.table,
            column=column,
            evolve=self.evolve,
            **facts,
        )

    def check_names(self, schema: pa.Schema) -> None:
        """Raise SchemaError if a key is missing, or two names differ in case only."""
        by_lower: dict[str, str] = {}
        for name in schema.names:
            other = by_lower.setdefault(name.lower(), name)
            if other != name or schema.names.count(name) > 1:
                raise self.error(
                    name,
                    f"has a name that differs from '{other}' in upper and lower case only. Spark and Delta "
                    "cannot tell them apart",
                    "Rename one of them in the source, or leave it out there",
                )
        for name in self.keys:
            if name not in schema.names and len(schema):
                raise self.error(
                    name,
                    f"is a key of the table, and the source has only {', '.join(schema.names)}",
                    f"The rows of the table cannot be found without it. {_NEW_TABLE}",
                )


def _first(found: pa.Schema, about: _About) -> pa.Schema:
    """Return the columns of a new table."""
    return pa.schema([pa.field(one.name, one.type, one.name not in about.keys) for one in found])


def _with(step: Followed, found: pa.Schema, about: _About) -> Followed:
    """Return a step after one more schema."""
    fields = list(step.columns)
    at = {one.name: index for index, one in enumerate(fields)}
    by_lower = {one.name.lower(): one.name for one in fields}
    added, ignored = [*step.added], [*step.ignored]
    widened = {one.name: one for one in step.widened}
    unwidened = {one.name: one for one in step.unwidened}
    for new in found:
        if new.name in at:
            old = fields[at[new.name]]
            wanted = _wanted(old, new, about)
            if wanted == old.type:
                continue
            if about.evolve == "ignore":
                before = unwidened[new.name].new if new.name in unwidened else wanted
                unwidened[new.name] = Widened(new.name, old.type, common_type(before, wanted) or wanted)
                continue
            first = widened[new.name].old if new.name in widened else old.type
            fields[at[new.name]] = old.with_type(wanted)
            if new.name not in added:
                widened[new.name] = Widened(new.name, first, wanted)
        elif new.name.lower() in by_lower:
            other = by_lower[new.name.lower()]
            raise about.error(
                new.name,
                f"is '{other}' in the table. The names differ in upper and lower case only, and Spark and "
                "Delta cannot tell them apart",
                f"Name it '{other}' in the source",
                known=other,
            )
        elif about.evolve == "ignore":
            ignored += [new.name] if new.name not in ignored else []
        elif about.evolve == "exception":
            raise about.error(
                new.name,
                f"of type {new.type} is new in the source, and evolve = 'exception' adds no column",
                "Set evolve = 'lenient' to add it, or 'ignore' to leave it out",
                found=new.type,
            )
        else:
            added.append(new.name)
            at[new.name], by_lower[new.name.lower()] = len(fields), new.name
            fields.append(_new_field(new, step.columns))
    columns = pa.schema(fields, step.columns.metadata)
    return Followed(
        columns,
        tuple(added),
        tuple(widened.values()),
        ignored=tuple(ignored),
        unwidened=tuple(unwidened.values()),
    )


def _wanted(old: pa.Field, new: pa.Field, about: _About) -> pa.DataType:
    """Return the type of a column after its source, or raise SchemaError."""
    wanted = common_type(old.type, new.type)
    facts = {"known": old.type, "found": new.type}
    if wanted is None:
        raise about.error(
            old.name,
            f"is of type {old.type} in the table and of type {new.type} in the source, and no type holds the "
            "values of both",
            f"{_NEW_TABLE}. Or give the new column another name in the source",
            **facts,
        )
    if wanted == old.type:
        return wanted
    if old.name in about.keys and not about.is_new:
        raise about.error(
            old.name,
            f"is a key of type {old.type} in the table and of type {new.type} in the source. A key cannot "
            "become wider, because the state finds rows by the bytes of their keys",
            _NEW_TABLE,
            **facts,
        )
    if about.evolve == "exception":
        raise about.error(
            old.name,
            f"is of type {old.type} in the table and of type {new.type} in the source, and "
            "evolve = 'exception' changes no type",
            "Set evolve = 'lenient' to make it wider, or 'ignore' to keep its type while the values fit",
            **facts,
        )
    return wanted


def _new_field(new: pa.Field, columns: pa.Schema) -> pa.Field:
    count = _dropped(columns).get(new.name, 0)
    metadata = {GENERATION: str(count).encode()} if count else None
    return pa.field(new.name, new.type, True, metadata)


def _dropped(columns: pa.Schema) -> dict[str, int]:
    found: dict[str, int] = json.loads((columns.metadata or {}).get(_DROPPED, b"{}"))
    return found


def _without_missing(step: Followed, there: set[str], about: _About) -> Followed:
    """Return a step after the columns that the source does not have any more."""
    missing = [one for one in step.columns if one.name not in there]
    for one in missing:
        if not one.nullable:
            raise about.error(
                one.name,
                "is NOT NULL in the table, and the source does not have it any more",
                "Declare the column as nullable and let the table have nulls, or add it to the source again",
            )
    names = tuple(one.name for one in missing)
    if about.evolve != "evolve" or not names:
        return replace(step, kept=names)
    counts = _dropped(step.columns)
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    metadata = {**(step.columns.metadata or {}), _DROPPED: json.dumps(counts, sort_keys=True).encode()}
    columns = pa.schema([one for one in step.columns if one.name in there], metadata)
    return replace(step, columns=columns, dropped=names)
