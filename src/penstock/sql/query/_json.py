"""Flink's JSON functions.

Runs on the driver. Invariant: a path is a literal of names and indexes, so that both systems find the same
value. Wildcards, filters and `strict` are refused.
"""

from __future__ import annotations

import re

from penstock.sql.query._let import let
from penstock.sql.query.piece import Piece

_PATH = re.compile(r"\$(?:\.[A-Za-z0-9_-]+|\[\d+\]|\[\\'[^'\\]+\\'\])*")
_IS_NO_SCALAR = "{0} = 'VOID' OR {0} LIKE 'OBJECT%' OR {0} LIKE 'ARRAY%'"
_HAS_FRACTION = "{0} = 'DOUBLE' OR {0} LIKE 'DECIMAL%'"
_NO_FRACTIONS = (
    "CAST(raise_error('JSON_VALUE: the text of a number with a fraction, or beyond BIGINT, may differ from "
    "that of Flink. Write RETURNING DOUBLE.') AS STRING)"
)
_RETURNING = {
    "STRING": "STRING",
    "VARCHAR": "STRING",
    "INT": "INT",
    "INTEGER": "INT",
    "DOUBLE": "DOUBLE",
    "BOOLEAN": "BOOLEAN",
}


def _returning(pieces: list[Piece]) -> str:
    """Read the clauses behind the arguments. Those that say NULL say what is the default."""
    returning = "STRING"
    for each in pieces:
        said = each.text[1:-1]
        name = said.removeprefix("RETURNING ")
        if name in _RETURNING:
            returning = _RETURNING[name]
        elif said not in ("NULL EMPTY", "NULL ERROR"):
            shown = said if said.startswith("RETURNING") else " ON ".join(said.rsplit(" ", 1))
            raise ValueError(
                f"{shown} is not served, because Flink 2.3 takes a missing value for an error. Use COALESCE."
            )
    return returning


def _path(piece: Piece) -> str:
    path = piece.text[1:-1].removeprefix("lax ") if piece.text.startswith("'") else ""
    if not _PATH.fullmatch(path):
        raise ValueError(
            "expected a path in quotes of names and indexes, e.g. '$.a.b[0]'. Wildcards, filters and strict "
            "are not served."
        )
    return f"'{path}'"


def json_value(args: list[Piece]) -> str:
    """Return JSON_VALUE.

    Raises:
        ValueError: the path or a clause is not served.
    """
    path = _path(args[1])
    returning = _returning(args[2:])

    def body(x: list[str]) -> str:
        value = f"variant_get(try_parse_json({x[0]}), {path})"
        kind = f"schema_of_variant({value})"
        cast = f"CAST({value} AS {returning})"
        if returning == "STRING":
            cast = f"CASE WHEN {_HAS_FRACTION.format(kind)} THEN {_NO_FRACTIONS} ELSE {cast} END"
        return f"CASE WHEN {_IS_NO_SCALAR.format(kind)} THEN NULL ELSE {cast} END"

    return let([args[0].text], body)


def json_exists(args: list[Piece]) -> str:
    """Return JSON_EXISTS. JSON's null does not exist for Flink.

    Raises:
        ValueError: the path or a clause is not served.
    """
    path = _path(args[1])
    if len(args) > 2:
        raise ValueError("ON ERROR is not served in JSON_EXISTS. Leave it out.")

    def body(x: list[str]) -> str:
        kind = f"schema_of_variant(variant_get(try_parse_json({x[0]}), {path}))"
        return f"CASE WHEN {x[0]} IS NOT NULL THEN coalesce({kind} <> 'VOID', FALSE) END"

    return let([args[0].text], body)
