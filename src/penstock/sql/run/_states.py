"""The folders of the states of a query's operators, and what is said if one belongs to another query.

Runs on the driver. Invariant: each operator of a query has a folder of its own. The folder's name is the id
of the operator in the plan, so a query that runs again finds its states.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from penstock.errors import StateError
from penstock.sql.language.write import type_text
from penstock.sql.run._described import flink_type
from penstock.state.files import NOT_KEPT

_BESIDE = "penstock-sql/state"


def beside(checkpoint: str) -> str:
    """Return the folder of the states of a query with a folder of checkpoints."""
    return f"{checkpoint}/{_BESIDE}"


class TemporaryFolders:
    """Folders for queries without a checkpoint. They are on this machine, and go with the session.

    After a crash no query continues from them.
    """

    def __init__(self) -> None:
        self._made: list[str] = []

    def new(self) -> str:
        self._made.append(tempfile.mkdtemp(prefix="penstock-sql-"))
        Path(self._made[-1], NOT_KEPT).touch()
        return self._made[-1]

    def remove(self) -> None:
        for folder in self._made:
            shutil.rmtree(folder, ignore_errors=True)
        self._made.clear()


_DIFFERS = {
    "operator": "another operator made it",
    "operator_version": "another version of penstock made it",
    "arguments": "the keys, the times, the order or the conditions of the operator are others",
    "columns": "its columns have other names, positions or types",
}


def in_words(error: StateError, operator: str) -> str | None:
    """Return in words of SQL that a state belongs to another query; None if the error says something else.

    The columns of a state have names of penstock, so only their types are shown.
    """
    differing = error.facts.get("differing")
    if differing is None:
        return None
    # Columns that come or go move the others, which have their positions in the arguments of the operator.
    what = list(_columns(error.facts["kept"], error.facts["needed"]))
    what = what or [text for name, text in _DIFFERS.items() if name in differing]
    return (
        f"the state of '{operator}' does not fit this query: {'; '.join(what)}. A state keeps each column "
        "that the query names, also in SELECT and WHERE. Nothing was started. To continue from the "
        "checkpoint, start the old script. To run this one, give the job a new name: "
        "SET 'pipeline.name' = '...'. docs/change-a-job.md, 'A new name', says how to begin where the old "
        f"script stopped. The state is in {error.facts['path']}"
    )


def _columns(kept: pa.Schema, needed: pa.Schema) -> Iterator[str]:
    """Yield in words which columns only a query or only its state has."""
    old, new = (Counter(_sql_type(field.type) for field in each) for each in (kept, needed))
    more, fewer = list((new - old).elements()), list((old - new).elements())
    if more:
        yield f"the query needs {_counted(more)} that the state does not keep"
    if fewer:
        yield f"the state keeps {_counted(fewer)} that the query does not need"


def _counted(types: Sequence[str]) -> str:
    return f"{'a column' if len(types) == 1 else f'{len(types)} columns'} ({', '.join(types)})"


def _sql_type(kind: pa.DataType) -> str:
    """Return the name of a type in SQL; Arrow's name of a type that only operators make."""
    from pyspark.errors import PySparkException  # noqa: PLC0415 - lazy
    from pyspark.sql.pandas.types import from_arrow_type  # noqa: PLC0415 - lazy

    try:
        return type_text(flink_type(from_arrow_type(kind, prefer_timestamp_ntz=True)))
    except (PySparkException, ValueError):
        return str(kind)
