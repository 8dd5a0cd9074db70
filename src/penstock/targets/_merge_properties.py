"""The properties of a table that Spark changes by MERGE: its query, keys and format.

Pure; runs on the driver. Spark replaces the value of a property that it shows, if the setting
`spark.redaction.regex` or `spark.sql.redaction.options.regex` matches the name or the value. A key column
`token_id` is enough. So names are neutral and values are hexadecimal digits. Invariant: a value that Spark
has replaced is an error, and never a key.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from penstock.errors import MaterializeError
from penstock.targets._table_properties import QUERY, VERSION, check_made_by_penstock
from penstock.targets.batch import Changes

FORMAT = "merge-1"
"""The format of properties and marker. Targets without a JAR have another one, so they refuse the table."""
PRIMARY = "penstock.primary"
"""Name of the property with the primary key. The other targets have `penstock.keys`, and people add the word
`key` to `spark.redaction.regex`."""


class Made(NamedTuple):
    """What the properties say.

    Attributes:
        query_id: of the query that has created the table.
        keys: the primary key.
    """

    query_id: str
    keys: tuple[str, ...]


def new_properties(batch: Changes) -> dict[str, str]:
    """Return the properties of a table that a batch creates."""
    return {QUERY: _hex(batch.query_id), PRIMARY: _hex(batch.keys), VERSION: FORMAT}


def made_in(properties: Mapping[str, str], target: str) -> Made:
    """Return what the properties of a table say.

    Raises:
        MaterializeError: penstock has not made the table, another target has, or Spark hides a property.
    """
    if (shown := properties.get(VERSION)) is not None and "redacted" in shown.lower():
        raise _hidden(VERSION, shown, target)
    check_made_by_penstock(properties, target, FORMAT)
    query_id, keys = (_read(name, properties.get(name, ""), target) for name in (QUERY, PRIMARY))
    return Made(str(query_id), tuple(keys))


def _hex(value: object) -> str:
    return json.dumps(value).encode().hex()


def _read(name: str, value: str, target: str) -> str | list[str]:
    try:
        found: str | list[str] = json.loads(bytes.fromhex(value))
    except ValueError as error:
        raise _hidden(name, value, target) from error
    return found


def _hidden(name: str, value: str, target: str) -> MaterializeError:
    return MaterializeError(
        f"Expected what penstock has written in the property {name} of {target}, got {value!r}. Nothing was "
        "written. If Spark hides the value, the setting spark.redaction.regex or "
        "spark.sql.redaction.options.regex matches the name or hexadecimal digits: let it match less. If a "
        "program has changed the property, set it back."
    )
