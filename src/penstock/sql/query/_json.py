"""Flink's JSON functions.

Runs on the driver. Invariant: a path is a literal of names and indexes, so that both systems find the same
value. Wildcards, filters and `strict` are refused.
"""

from __future__ import annotations

import re

from penstock.sql.query._let import let
from penstock.sql.query.piece import Piece

_PATH = re.compile(r"\$(?:\.[A-Za-z0-9_-]+|\[\d+\]|\[\\'[^'\\]+\\'\])*")
_RETURNING = {
    "STRING": "STRING",
    "VARCHAR": "STRING",
    "INT": "INT",
    "INTEGER": "INT",
    "DOUBLE": "DOUBLE",
    "BOOLEAN": "BOOLEAN",
}


class _Clauses:
    """The words behind the arguments of a function: RETURNING, ON EMPTY, ON ERROR."""

    def __init__(self, pieces: list[Piece], words: tuple[str, ...]) -> None:
        self.returning = "STRING"
        self.on = {"EMPTY": "NULL", "ERROR": "NULL"}
        left = list(pieces)
        while left:
            said = left.pop(0).text[1:-1]
            first, *_, last = said.split(" ")
            if first == "RETURNING" and last in _RETURNING and "RETURNING" in words:
                self.returning = _RETURNING[last]
            elif first in words and last in self.on:
                self.on[last] = left.pop(0).text if first == "DEFAULT" else first
            else:
                raise ValueError(f"{said} is not served. Leave it out, or use a Python function.")

    def text_of(self, case: str) -> str:
        """Return what the function gives for EMPTY or ERROR."""
        if self.on[case] != "ERROR":
            return self.on[case]
        return f"CAST(raise_error('JSON: {case.lower()} at the path') AS {self.returning})"


def _path(piece: Piece) -> str:
    path = piece.text[1:-1].removeprefix("lax ") if piece.text.startswith("'") else ""
    if not _PATH.fullmatch(path):
        raise ValueError(
            "expected a path in quotes of names and indexes, e.g. '$.a.b[0]'. Wildcards, filters and strict "
            "are not served."
        )
    return f"'{path}'"


def _value(text: str, path: str) -> tuple[str, str, str]:
    """Return the parsed text, the value at the path, and the name of its type."""
    parsed = f"try_parse_json({text})"
    value = f"variant_get({parsed}, {path})"
    return parsed, value, f"schema_of_variant({value})"


def json_value(args: list[Piece]) -> str:
    """Return JSON_VALUE.

    Raises:
        ValueError: the path or a clause is not served.
    """
    path = _path(args[1])
    said = _Clauses(args[2:], ("RETURNING", "NULL", "ERROR", "DEFAULT"))

    def body(x: list[str]) -> str:
        parsed, value, kind = _value(x[0], path)
        return (
            f"CASE WHEN {x[0]} IS NULL THEN NULL WHEN {parsed} IS NULL THEN {said.text_of('ERROR')} "
            f"WHEN {value} IS NULL OR {kind} = 'VOID' THEN {said.text_of('EMPTY')} "
            f"WHEN {kind} LIKE 'OBJECT%' OR {kind} LIKE 'ARRAY%' THEN {said.text_of('ERROR')} "
            f"ELSE {_scalar(value, kind, said)} END"
        )

    return let([args[0].text], body)


def _scalar(value: str, kind: str, said: _Clauses) -> str:
    """Return a scalar as the type of RETURNING. Flink takes numbers with a fraction as DOUBLE."""
    if said.returning != "STRING":
        return f"CAST({value} AS {said.returning})"
    double = f"CAST(CAST({value} AS DOUBLE) AS STRING)"
    return (
        f"CASE WHEN {kind} = 'DOUBLE' OR ({kind} LIKE 'DECIMAL%' AND {kind} NOT LIKE '%,0)') THEN {double} "
        f"ELSE CAST({value} AS STRING) END"
    )


def json_exists(args: list[Piece]) -> str:
    """Return JSON_EXISTS.

    Raises:
        ValueError: the path or a clause is not served.
    """
    path = _path(args[1])
    if len(args) > 2:
        raise ValueError("ON ERROR is not served in JSON_EXISTS. Leave it out.")
    return let([args[0].text], lambda x: f"({_value(x[0], path)[1]} IS NOT NULL)")


def json_query(args: list[Piece]) -> str:
    """Return JSON_QUERY.

    Raises:
        ValueError: the path or a clause is not served.
    """
    path = _path(args[1])
    if len(args) > 2:
        raise ValueError("wrappers, ON EMPTY and ON ERROR are not served in JSON_QUERY. Leave them out.")

    def body(x: list[str]) -> str:
        kind = _value(x[0], path)[2]
        found = f"get_json_object({x[0]}, {path})"
        return f"CASE WHEN {kind} LIKE 'OBJECT%' OR {kind} LIKE 'ARRAY%' THEN {found} END"

    return let([args[0].text], body)
