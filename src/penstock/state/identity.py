"""Which query, operator and columns a state belongs to: the file `state.json` of its folder.

Runs on executors, and in `penstock state`. Invariant: all tasks of all batches of a query write the same
bytes, so it does not matter which task writes the file.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from penstock.errors import StateError
from penstock.state.files import Files
from penstock.state.followed import follows

TOGETHER = (
    "A checkpoint, the states of its operators and the tables that it keeps belong together. Use those of "
    "one query, or begin again with a new checkpoint, new folders for the states and an empty table "
    "(docs/table-maintenance.md, 'Checkpoint, state and table')."
)


FORMAT = 2
"""The version of the files. docs/decisions/0008-own-keyed-state.md describes it."""
IDENTITY_FILE = "state.json"
NORMALIZE_FOLLOWS = 2
"""The version of `normalize` whose columns may change: an absent value and null are the same to it."""
_LOOKED_AT = 100
"""How many names of a folder without a state are asked whether they are states."""
_SHOWN = {
    "query_id": "the query id",
    "operator": "the operator",
    "operator_version": "the version of the operator",
    "arguments": "the arguments",
    "partition_count": "the number of partitions",
}
"""What messages call the attributes of an identity, but for the columns."""


@dataclass(frozen=True)
class Identity:
    """What a state belongs to.

    Attributes:
        query_id: Spark's id of the streaming query, which changes with the checkpoint.
        operator: the name of the function that keeps the state.
        operator_version: changes when the function keeps something else.
        arguments: of the function, as text; those that decide what it keeps.
        partition_count: number of partitions, fixed at the first start.
        columns: what the function keeps, without the state's own columns. In the file: what it kept first.
    """

    query_id: str
    operator: str
    operator_version: int
    arguments: str
    partition_count: int
    columns: pa.Schema

    @property
    def has_parts(self) -> bool:
        """Return whether a key may have several rows. If not, the part of a row may change."""
        return self.operator not in ("normalize", "deduplicate")

    @property
    def may_follow(self) -> bool:
        """Return whether later batches may have more columns, or wider ones, than `columns`."""
        return self.operator == "normalize" and self.operator_version >= NORMALIZE_FOLLOWS

    def to_json(self) -> bytes:
        """Return the contents of the file."""
        return json.dumps(
            {
                "format": FORMAT,
                "query_id": self.query_id,
                "operator": self.operator,
                "operator_version": self.operator_version,
                "arguments": self.arguments,
                "partition_count": self.partition_count,
                "columns": [f"{field.name} {field.type}" for field in self.columns],
                "arrow_schema": base64.b64encode(self.columns.serialize().to_pybytes()).decode(),
            },
            indent=1,
        ).encode()

    def fingerprint(self) -> str:
        """Return the fingerprint of the file that this identity writes."""
        return fingerprint_of(self.to_json())

    def differing(self, expected: Identity) -> list[str]:
        """Return the names of what is not as expected. Columns that may follow may be older.

        A key keeps its type, because the hash by which its rows are found depends on the type.
        """
        names = [name for name in _SHOWN if getattr(self, name) != getattr(expected, name)]
        is_followed = self.columns.equals(expected.columns) or (
            self.may_follow
            and follows(self.columns, expected.columns)
            and self._key_types() == expected._key_types()
        )
        return names if is_followed else [*names, "columns"]

    def _key_types(self) -> list[pa.DataType | None]:
        types = {field.name: field.type for field in self.columns}
        return [types.get(name) for name in json.loads(self.arguments).get("keys", ())]

    def differences(self, expected: Identity) -> Iterator[str]:
        """Yield what differs, as text for a message."""
        differing = self.differing(expected)
        for name, shown in _SHOWN.items():
            if name in differing:
                found, wanted = getattr(self, name), getattr(expected, name)
                yield f"{shown} is {found!r} in the state and {wanted!r} in the query"
        if "columns" in differing:
            found, wanted = (
                ", ".join(f"{f.name} {f.type}" for f in each.columns) for each in (self, expected)
            )
            yield f"the columns are [{found}] in the state and [{wanted}] in the query"


def fingerprint_of(contents: bytes) -> str:
    """Return a short text that differs for different files."""
    return hashlib.sha256(contents).hexdigest()[:32]


def parse_identity(contents: bytes, where: str) -> Identity:
    """Return the identity in a file.

    Raises:
        StateError: the file is damaged, or of a newer version of penstock.
    """
    try:
        read = json.loads(contents)
        form = read["format"]
        if form == FORMAT:
            schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(read["arrow_schema"])))
            return Identity(
                read["query_id"],
                read["operator"],
                read["operator_version"],
                read["arguments"],
                read["partition_count"],
                schema,
            )
    except (ValueError, KeyError, TypeError, pa.ArrowInvalid, OSError) as error:
        raise StateError(
            f"The state is damaged: {where} cannot be read ({error}). Nothing was written. Restore the "
            "folder together with the checkpoint of the same time.",
            path=where,
        ) from error
    raise other_format(where, form)


def other_format(where: str, form: int) -> StateError:
    """Return the error of a file with another format."""
    return StateError(
        f"{where} has format {form}, and this version of penstock reads format {FORMAT}. Nothing was "
        "written. Use the version of penstock that wrote the state. If it was a development version before "
        "0.1.0, start with a new checkpoint and an empty folder.",
        path=where,
    )


def read_identity(files: Files) -> tuple[Identity, str] | None:
    """Return the identity of the state in a folder, and its fingerprint; None if there is none."""
    try:
        contents = files.read(IDENTITY_FILE).to_pybytes()
    except FileNotFoundError:
        return None
    return parse_identity(contents, f"{files.root}/{IDENTITY_FILE}"), fingerprint_of(contents)


def no_state(files: Files) -> StateError:
    """Return the error of a folder without a state. It names the states in the folders of the folder.

    The folder of the states of an SQL query has a folder for each operator.
    """
    inside = [name for name in files.names("")[:_LOOKED_AT] if _has_state(files, name)]
    advice = f" There are states in it: {', '.join(inside)}. Name one of them." if inside else ""
    message = f"There is no state in {files.root}: it has no {IDENTITY_FILE}.{advice}"
    return StateError(message, path=files.root)


def _has_state(files: Files, folder: str) -> bool:
    try:
        files.read(f"{folder}/{IDENTITY_FILE}")
    except OSError:  # it is not a folder, or a folder of something else
        return False
    return True


def write_identity(files: Files, identity: Identity) -> None:
    """Write the identity of a new state. Several tasks may do it at once.

    A late task does not write it again: on Azure it would be gone until the task ends, or for ever.
    """
    known = read_identity(files)
    if known is not None and not known[0].differing(identity):
        return
    try:
        with files.create(IDENTITY_FILE) as sink:
            sink.write(identity.to_json())
    except OSError:  # HDFS does not rename a file to a name that another task has just taken
        found = read_identity(files)
        if found is None or found[0].differing(identity):
            raise


def check_identity(files: Files, expected: Identity, batch_id: int) -> str | None:
    """Return the fingerprint of the state in the folder; None if there is no state yet.

    The fingerprint is that of the file. The metadata of columns may have changed since: it does not count.

    Raises:
        StateError: the state belongs to something else, or the checkpoint is not new and there is no state.
    """
    found = read_identity(files)
    if found is None:
        if batch_id == 0:
            return None
        raise StateError(
            f"There is no state in {files.root}, but the checkpoint is at batch {batch_id}. To continue "
            "would give wrong rows. Nothing was written. Correct the folder, or restore it from the time of "
            f"the checkpoint. {TOGETHER}",
            path=files.root,
            batch_id=batch_id,
        )
    _check_differences(files, found[0], expected)
    return found[1]


def check_before_start(files: Files, expected: Identity, *, is_count_chosen: bool) -> int:
    """Compare a state with an operator before a query starts, and return its number of partitions.

    Args:
        files: the folder of the state.
        expected: of the operator. Its query is not known yet, and does not count.
        is_count_chosen: whether the user has chosen the number of partitions. If not, an existing state
            decides.

    Raises:
        StateError: the state is of another operator, or has other columns or arguments.
    """
    found = read_identity(files)
    if found is None:
        return expected.partition_count
    count = expected.partition_count if is_count_chosen else found[0].partition_count
    _check_differences(files, found[0], replace(expected, query_id=found[0].query_id, partition_count=count))
    return count


def _check_differences(files: Files, found: Identity, expected: Identity) -> None:
    if differences := list(found.differences(expected)):
        raise StateError(
            f"The state in {files.root} does not belong to this query: {'; '.join(differences)}. Nothing was "
            f"written. {TOGETHER}",
            path=files.root,
            differing=found.differing(expected),
            kept=found.columns,
            needed=expected.columns,
        )
