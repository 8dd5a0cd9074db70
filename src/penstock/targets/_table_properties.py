"""The properties of a table that penstock has made: its query, keys and format.

Runs on the driver. Invariant: a table of another writer is never written, because its rows could be
different from those of the changelog.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from penstock.errors import MaterializeError
from penstock.targets.batch import Changes

QUERY, KEYS, VERSION = "penstock.query", "penstock.keys", "penstock.format"
"""Names of the properties: the id of the query, the primary key as JSON, and the format of the marker."""
_FORMAT = "1"
_RETRIES, _NONE = "commit.retry.num-retries", "0"
OF_ICEBERG = {_RETRIES: _NONE, "write.metadata.delete-after-commit.enabled": "true"}
"""Properties of each new Iceberg table of penstock.

A file of metadata names every snapshot, so without the second one the files of metadata would grow with the
square of the number of batches: 4 GB after 2,500. The newest 100 stay.
"""


def new_properties(batch: Changes) -> dict[str, str]:
    """Return the properties of a table that a batch creates."""
    return properties_for(batch.query_id, batch.keys)


def properties_for(query_id: str, keys: Sequence[str]) -> dict[str, str]:
    """Return the properties of a table of a query."""
    return {QUERY: query_id, KEYS: json.dumps(keys), VERSION: _FORMAT}


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


def check_no_retries(properties: Mapping[str, str], target: str) -> None:
    """Raise MaterializeError if penstock has not made an Iceberg table, or pyiceberg repeats its commits."""
    check_made_by_penstock(properties, target)
    if properties.get(_RETRIES) != _NONE:
        raise MaterializeError(
            f"Expected {_NONE} for the property {_RETRIES} of {target}, got {properties.get(_RETRIES)}. With "
            "retries pyiceberg could put a batch on top of the same one of another driver. Nothing was "
            f"written. Set it to {_NONE}."
        )
