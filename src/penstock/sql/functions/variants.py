"""VARIANT: values whose type is known only when they are read, made of JSON.

Runs on the driver. Invariant: a VARIANT is not written into a table. What Flink's means and Spark's does not
is refused, or stops the query.
"""

from __future__ import annotations

from penstock.sql.plan.expressions import TypedSql
from penstock.sql.plan.texts import let, literal

NO_CAST = (
    "a CAST of a VARIANT is not served, as in Flink 2.3. Write JSON_VALUE(JSON_STRING(v['a']), 'lax $' "
    "RETURNING INT), or JSON_STRING(v) for a text of JSON."
)
NO_COMPARISON = "a VARIANT cannot be compared. Compare texts: JSON_STRING(v['a']) = '1'."


def parse_json(name: str, args: list[TypedSql]) -> str:
    """Return PARSE_JSON or TRY_PARSE_JSON.

    Raises:
        ValueError: the argument is not a text, or a key may come twice.
    """
    if args[0].type not in ("string", "void"):
        raise ValueError(f"expected a STRING, got {args[0].type.upper()}. Write CAST(... AS STRING).")
    if len(args) > 1 and args[1].text != "FALSE":
        raise ValueError("a key that comes twice is not served by Spark's VARIANT. Leave the argument out.")
    text = f"CAST({args[0].text} AS STRING)"
    if name == "TRY_PARSE_JSON":
        return f"try_parse_json({text})"
    wrong = literal(
        "PARSE_JSON: the text is not JSON, or an object in it has a key twice. TRY_PARSE_JSON gives NULL."
    )

    def body(x: list[str]) -> str:
        failure = f"CAST(raise_error({wrong}) AS VARIANT)"
        return f"CASE WHEN {x[0]} IS NOT NULL THEN coalesce(try_parse_json({x[0]}), {failure}) END"

    return let([text], body)


def element_of(key: str | int, value: str) -> str:
    """Return a field of an object, or an element of an array from 1, as a VARIANT. NULL if it is not there.

    As in Flink, a value that is not an object, or not an array, stops the query.

    Raises:
        ValueError: Spark cannot name the field.
    """
    kind, path = ("OBJECT", _path(key)) if isinstance(key, str) else ("ARRAY", f"$[{key - 1}]")
    shown = f"'{key}'" if isinstance(key, str) else key
    wrong = literal(f"VARIANT: expected an {kind.lower()} before [{shown}], got ")

    def body(x: list[str]) -> str:
        found = f"schema_of_variant({x[0]})"
        failure = f"raise_error(concat({wrong}, {found}))"
        return (
            f"CASE WHEN {x[0]} IS NULL THEN NULL WHEN startswith({found}, '{kind}<') THEN "
            f"variant_get({x[0]}, {literal(path)}, 'variant') ELSE CAST({failure} AS VARIANT) END"
        )

    return let([value], body)


def _path(key: str) -> str:
    if not key or "?" in key or ("'" in key and '"' in key):
        raise ValueError(
            "the name of a field is empty, or has a question mark or both kinds of quotes. Spark cannot find "
            "it in a VARIANT. Use JSON_VALUE or JSON_QUERY of the text."
        )
    return f"$['{key}']" if '"' in key else f'$["{key}"]'
