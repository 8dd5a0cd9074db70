"""The properties of a table that penstock has made: its query, keys and format.

Runs on the driver. Invariant: a table of another writer is never written, because its rows could be
different from those of the changelog.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from penstock.errors import MaterializeError
from penstock.targets.batch import Changes

QUERY, KEYS, VERSION = "penstock.query", "penstock.keys", "penstock.format"
"""Names of the properties: the id of the query, the primary key as JSON, and the format of the marker."""
_FORMAT = "1"


def new_properties(batch: Changes) -> dict[str, str]:
    """Return the properties of a table that a batch creates."""
    return {QUERY: batch.query_id, KEYS: json.dumps(batch.keys), VERSION: _FORMAT}


def keys_of(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Return the primary key of a table."""
    return tuple(json.loads(properties[KEYS]))


def check_made_by_penstock(properties: Mapping[str, str], target: str, version: str = _FORMAT) -> None:
    """Raise MaterializeError if penstock has not made a table, or another target or version of it has."""
    if QUERY not in properties:
        raise MaterializeError(
            f"{target} was not made by penstock: it has no property {QUERY}. Nothing was "
            "written. Name another table. penstock creates it."
        )
    if properties[VERSION] != version:
        raise MaterializeError(
            f"The marker of {target} has version {properties[VERSION]}, and this target of this version of "
            f"penstock reads version {version}. Nothing was written. A table that a SparkDeltaTable or a "
            "SparkIcebergTable has made cannot be kept by another target, and the other way round. Use the "
            "target that has made it, or a newer penstock."
        )
