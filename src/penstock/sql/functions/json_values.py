"""Flink's functions that read JSON.

Runs on the driver. Invariant: a path is a literal of names and indexes, so that both systems find the same
value, and a number keeps the digits that were written. Wildcards and filters are refused. Flink reads a path
without a word as `strict`: there a value that is not found is an error, and with `lax` it is empty.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from penstock.sql.plan.expressions import TypedSql
from penstock.sql.plan.texts import let, literal

_PATH = re.compile(r"\$(?:\.[A-Za-z0-9_-]+|\[\d+\]|\[\\'[^'\\]+\\'\])*")
_IS_NO_SCALAR = "({0} = 'VOID' OR {0} LIKE 'OBJECT%' OR {0} LIKE 'ARRAY%')"
_HAS_FRACTION = "{0} = 'DOUBLE' OR {0} LIKE 'DECIMAL%'"
_NUMBER, _END, _BACKSLASH, _QUOTE = "\ue000", "\ue001", "\ue002", "\ue003"
"""Signs for private use, which stand in a text for the beginning and end of a number, `\\\\` and `\\"`."""
_MARKS = f"[{_NUMBER}-{_QUOTE}]"
_STRING_OR_NUMBER = r'("[^"]*+")|(-?(?:0|[1-9]\d*+)(?:\.\d++)?+(?:[eE][+-]?\d++)?+(?![\d.eE+-])(?!\s*+:))'
_STRING, _QUOTES = r'"[^"\x00-\x1f]*+"', "[\"']"
_ODD = r'"' + _NUMBER + r"-?(?:[0-9.]*+[eE]|0[.]0{6})"
"""A number that Flink writes with an exponent, or without the one it has."""
_RETURNING = {
    "STRING": "STRING",
    "VARCHAR": "STRING",
    "INT": "INT",
    "INTEGER": "INT",
    "DOUBLE": "DOUBLE",
    "BOOLEAN": "BOOLEAN",
}
_EMPTY = {"EMPTY ARRAY": "'[]'", "EMPTY OBJECT": "'{}'"}
_WRAPPERS = {
    "WITHOUT WRAPPER": "",
    "WITHOUT ARRAY WRAPPER": "",
    **dict.fromkeys(("WITH WRAPPER", "WITH ARRAY WRAPPER"), "always"),
    **dict.fromkeys(("WITH UNCONDITIONAL WRAPPER", "WITH UNCONDITIONAL ARRAY WRAPPER"), "always"),
    **dict.fromkeys(("WITH CONDITIONAL WRAPPER", "WITH CONDITIONAL ARRAY WRAPPER"), "unless array"),
}


@dataclass(frozen=True)
class _Clauses:
    """What stands behind the path: RETURNING, the wrapper, and what a value that is not there gives."""

    returning: str
    wrapper: str
    otherwise: str


def _clauses(name: str, path: TypedSql, pieces: list[TypedSql]) -> _Clauses:
    """Read the clauses. Of ON EMPTY and ON ERROR only that of the path's mode counts, as in Flink 2.3."""
    counts = "EMPTY" if _is_lax(path) else "ERROR"
    returning, wrapper, otherwise = "STRING", "", "NULL"
    left = iter(pieces)
    for each in left:
        said = each.text[1:-1]
        what, _, case = said.rpartition(" ")
        given = next(left, None) if what == "DEFAULT" else None
        if given is not None and given.type not in (returning.lower(), "void"):
            raise ValueError(f"expected a DEFAULT of the type {returning}, got {given.type.upper()}.")
        value = given.text if given is not None else _EMPTY.get(what, "NULL")
        if said.startswith("RETURNING "):
            returning = _returning(name, said)
        elif case == "WRAPPER" and name == "JSON_QUERY" and said in _WRAPPERS:
            wrapper = _WRAPPERS[said]
        elif case not in ("EMPTY", "ERROR") or what not in _BEHAVIOURS[name]:
            raise ValueError(f"{what} ON {case} is not served.")
        elif case == counts:
            otherwise = _raised(f"{name}: no value is found") if what == "ERROR" else value
    return _Clauses(returning, wrapper, otherwise)


_BEHAVIOURS = {
    "JSON_VALUE": ("NULL", "ERROR", "DEFAULT"),
    "JSON_QUERY": ("NULL", "ERROR", "EMPTY ARRAY", "EMPTY OBJECT"),
}


def _returning(name: str, said: str) -> str:
    kind = said.removeprefix("RETURNING ")
    if kind not in _RETURNING or (name == "JSON_QUERY" and _RETURNING[kind] != "STRING"):
        raise ValueError(f"{said} is not served. Write a CAST.")
    return _RETURNING[kind]


def _raised(message: str) -> str:
    return f"CAST(raise_error({literal(message)}) AS STRING)"


def _is_lax(path: TypedSql) -> bool:
    return path.text.startswith("'lax ")


def _path(piece: TypedSql) -> str:
    path = piece.text[1:-1] if piece.text.startswith("'") else ""
    path = re.sub(r"^(lax|strict) +", "", path)
    if not _PATH.fullmatch(path):
        raise ValueError(
            "expected a path in quotes of names and indexes, e.g. '$.a.b[0]'. Wildcards and filters are "
            "not served."
        )
    return f"'{path}'"


def json_value(args: list[TypedSql]) -> str:
    """Return JSON_VALUE.

    Raises:
        ValueError: the path or a clause is not served.
    """
    path, clauses = _path(args[1]), _clauses("JSON_VALUE", args[1], args[2:])

    def body(x: list[str]) -> str:
        value = f"variant_get(try_parse_json({x[0]}), {path})"
        kind = f"schema_of_variant({value})"
        cast = f"CAST({value} AS {clauses.returning})"
        if clauses.returning == "STRING":
            cast = f"CASE WHEN {_HAS_FRACTION.format(kind)} THEN {_digits(x[0], path)} ELSE {cast} END"
        if clauses.returning == "INT":  # Flink fails, too
            fails = _raised("JSON_VALUE: expected an INT, got a number with a fraction")
            cast = f"CASE WHEN {_HAS_FRACTION.format(kind)} THEN CAST({fails} AS INT) ELSE {cast} END"
        otherwise = f"CAST({clauses.otherwise} AS {clauses.returning})"
        return (
            f"CASE WHEN {x[0]} IS NULL THEN NULL WHEN try_parse_json({x[0]}) IS NULL "
            f"THEN {_unparsed(x[0], otherwise)} WHEN coalesce({_IS_NO_SCALAR.format(kind)}, TRUE) "
            f"THEN {otherwise} ELSE {cast} END"
        )

    return let([args[0].text], body)


def _unparsed(text: str, otherwise: str) -> str:
    """Return what a text gives that Spark does not read as JSON.

    Flink reads one that names a key twice. So does get_json_object, which also reads texts in single quotes
    and signs of control. Flink does not.
    """
    no_strings = f"regexp_replace({_hidden(text)}, {literal(_STRING)}, '')"
    twice = "JSON: a name comes twice in an object. Flink takes the last one, and Spark reads none"
    is_json = f"get_json_object({text}, '$') IS NOT NULL AND NOT {no_strings} RLIKE {literal(_QUOTES)}"
    return f"if({is_json}, raise_error({literal(twice)}), {otherwise})"


def _digits(text: str, path: str) -> str:
    """Return the number at a path as it is written, for Flink does not read its value either."""
    return _plain(f"""concat('"', CAST(variant_get({_marked(text)}, {path}) AS STRING), '"')""")


def _hidden(text: str) -> str:
    """Return a text with signs instead of its escaped backslashes and quotes."""
    no_backslashes = f"replace({text}, {literal(chr(92) * 2)}, '{_BACKSLASH}')"
    return f"replace({no_backslashes}, {literal(chr(92) + chr(34))}, '{_QUOTE}')"


def _marked(text: str) -> str:
    """Return the VARIANT of a text in which numbers are texts with a sign before them."""
    marked = f"regexp_replace({_hidden(text)}, {literal(_STRING_OR_NUMBER)}, '$1{_NUMBER}$2{_END}')"
    for sign, by in (
        (_NUMBER + _END, ""),
        (_NUMBER, '"' + _NUMBER),
        (_END, '"'),
        (_QUOTE, '\\"'),
        (_BACKSLASH, "\\\\"),
    ):
        marked = f"replace({marked}, '{sign}', {literal(by)})"
    taken = _raised("JSON: the text has a character of U+E000 to U+E003, which is not served")
    return f"try_parse_json(if({text} RLIKE '{_MARKS}', {taken}, {marked}))"


def _plain(text: str) -> str:
    """Return a text with marked numbers as it was before."""
    odd = _raised("JSON: a number with an exponent is not served. JSON_VALUE ... RETURNING DOUBLE reads one")
    zero = literal(f'"{_NUMBER}-(0(?:[.]0+)?)"')
    number = literal(f'"{_NUMBER}([^"]*+)"')
    return let(
        [text],
        lambda x: (
            f"if({x[0]} RLIKE {literal(_ODD)}, {odd}, "
            f"regexp_replace(regexp_replace({x[0]}, {zero}, '$1'), {number}, '$1'))"
        ),
    )


def sorted_json(text: str) -> str:
    """Return a text of JSON as Flink writes it: without blanks, the names of objects sorted."""
    value = f"coalesce({_marked(text)}, {_raised('JSON: the text is not JSON')})"
    return let([text], lambda x: f"CASE WHEN {x[0]} IS NOT NULL THEN {_plain(f'to_json({value})')} END")


def json_query(args: list[TypedSql]) -> str:
    """Return JSON_QUERY.

    Raises:
        ValueError: the path or a clause is not served.
    """
    path, clauses = _path(args[1]), _clauses("JSON_QUERY", args[1], args[2:])

    def of_value(x: list[str]) -> str:
        value, text = x
        kind = f"schema_of_variant({value})"
        plain = _plain(f"to_json({value})")
        wrapped = f"concat('[', {plain}, ']')"
        found = {
            "": f"WHEN {kind} LIKE 'OBJECT%' OR {kind} LIKE 'ARRAY%' THEN {plain}",
            "always": f"WHEN {kind} <> 'VOID' THEN {wrapped}",
            "unless array": f"WHEN {kind} LIKE 'ARRAY%' THEN {plain} WHEN {kind} <> 'VOID' THEN {wrapped}",
        }[clauses.wrapper]
        missing = f"WHEN try_parse_json({text}) IS NULL THEN {_unparsed(text, clauses.otherwise)}"
        return f"CASE WHEN {text} IS NULL THEN NULL {found} {missing} ELSE {clauses.otherwise} END"

    return let([f"variant_get({_marked(args[0].text)}, {path})", args[0].text], of_value)


def json_exists(args: list[TypedSql]) -> str:
    """Return JSON_EXISTS. JSON's null does not exist for Flink, and what does not exist is an error.

    Raises:
        ValueError: the path or a clause is not served.
    """
    path = _path(args[1])
    otherwise = "FALSE"
    for each in args[2:]:
        what, _, case = each.text[1:-1].partition(" ")
        if case != "ERROR" or what not in ("TRUE", "FALSE", "UNKNOWN") or _is_lax(args[1]):
            raise ValueError(f"{what} ON {case} is not served in JSON_EXISTS. Leave it out.")
        otherwise = "NULL" if what == "UNKNOWN" else what

    def body(x: list[str]) -> str:
        kind = f"schema_of_variant(variant_get(try_parse_json({x[0]}), {path}))"
        missing = f"WHEN try_parse_json({x[0]}) IS NULL THEN {_unparsed(x[0], otherwise)}"
        found = f"WHEN {kind} <> 'VOID' THEN TRUE {missing}"
        return f"CASE WHEN {x[0]} IS NULL THEN NULL {found} ELSE {otherwise} END"

    return let([args[0].text], body)


def is_json(text: str, kind: str) -> str:
    """Return IS JSON, IS JSON OBJECT and so on. NULL is not JSON."""
    tests = {
        "VALUE": "TRUE",
        "SCALAR": "{0} NOT LIKE 'OBJECT%' AND {0} NOT LIKE 'ARRAY%'",
        "OBJECT": "{0} LIKE 'OBJECT%'",
        "ARRAY": "{0} LIKE 'ARRAY%'",
    }

    def body(x: list[str]) -> str:
        value = f"try_parse_json({x[0]})"
        test = tests[kind].format(f"schema_of_variant({value})")
        unparsed = _unparsed(x[0], "FALSE")
        return f"CASE WHEN {x[0]} IS NULL THEN FALSE WHEN {value} IS NULL THEN {unparsed} ELSE {test} END"

    return let([text], body)


def json_unquote(args: list[TypedSql]) -> str:
    """Return JSON_UNQUOTE. Any text that is not in JSON's quotes stays as it is."""
    message = "JSON_UNQUOTE: a quote within the text has no backslash"

    def body(x: list[str]) -> str:
        value, hidden = f"try_parse_json({x[0]})", _hidden(x[0])
        return (
            f'CASE WHEN {hidden} RLIKE \'(?s)^".*".*"$\' THEN raise_error({literal(message)}) '
            f"WHEN {hidden} RLIKE '(?s)^\".*\"$' AND schema_of_variant({value}) = 'STRING' "
            f"THEN CAST({value} AS STRING) ELSE {x[0]} END"
        )

    return let([args[0].text], body)
