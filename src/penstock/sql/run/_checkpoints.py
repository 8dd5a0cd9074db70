"""The folders of checkpoints: which query each of them belongs to.

Runs on the driver. Invariant: a query continues from a checkpoint only if the checkpoint was made by the same
query, or if the user has said that a changed query may continue. The file `penstock-sql/query.json` in the
folder holds the query, with a version. It counts once Spark has planned a batch: before that the folder has
neither positions nor state, e.g. because Spark refused the query.
"""

from __future__ import annotations

import json

from penstock.sql.language.source import Source
from penstock.sql.language.statements import Insert
from penstock.sql.language.tokens import tokenize
from penstock.state.files import open_files

_FOLDER, _FILE, _VERSION = "penstock-sql", "query.json", 1


def described(insert: Insert, key: tuple[str, str]) -> str:
    """Return an INSERT without its comments and spaces, so that a new layout is not a new query.

    Args:
        insert: the statement.
        key: database and name of its table.
    """
    tokens = [[token.kind.name, token.value] for token in tokenize(Source(insert.query.text))]
    return json.dumps([*key, insert.columns, sorted(insert.hints), tokens], ensure_ascii=False)


def claim(folder: str, query: str, *, may_change: bool) -> None:
    """Note the query in its folder of checkpoints, or compare it with the one that is noted.

    Args:
        folder: a path, or a URI of `pyarrow.fs`.
        query: from `described`.
        may_change: whether another query may continue from the checkpoint.

    Raises:
        ValueError: the checkpoint belongs to another query, or the folder cannot be read.
    """
    try:
        files = open_files(folder)
        noted = _noted(json.loads(bytes(files.read(f"{_FOLDER}/{_FILE}"))), folder)
        has_begun = bool(files.names("offsets"))
    except FileNotFoundError:
        noted, has_begun = None, False
    except (OSError, ValueError) as error:
        raise ValueError(f"the folder of checkpoints {folder} cannot be read: {error}") from None
    if noted == query:
        return
    if has_begun and not may_change:
        raise ValueError(
            f"the checkpoint in {folder} belongs to another query, so its positions and state may not fit "
            "this one. Give the job another name: SET 'pipeline.name' = '...'. Or, if only a filter or a "
            "projection has changed: SET 'penstock.changed-query' = 'continue'."
        )
    with files.create(f"{_FOLDER}/{_FILE}") as sink:
        sink.write(json.dumps({"version": _VERSION, "query": query}).encode())


def _noted(found: dict[str, object], folder: str) -> str:
    if found.get("version") != _VERSION:
        raise ValueError(f"version {found.get('version')} of its note in {folder} is not known")
    return str(found["query"])
