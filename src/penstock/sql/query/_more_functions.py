"""Functions of numbers, texts and arrays that few scripts use: the second half of `_functions.py`.

Runs on the driver. Invariant: see `_functions.py`.
"""

from __future__ import annotations

from penstock.sql.query._function import MANY, Function
from penstock.sql.query._let import let
from penstock.sql.query.piece import Piece, literal


def _logarithm(name: str) -> Function:
    """Return a logarithm. Flink's gives -Infinity for 0 and NaN below; Spark's gives NULL."""

    def body(x: list[str]) -> str:
        return (
            f"CASE WHEN {x[0]} > 0 THEN {name}({x[0]}) WHEN {x[0]} = 0 THEN CAST('-Infinity' AS DOUBLE) "
            f"WHEN {x[0]} < 0 THEN CAST('NaN' AS DOUBLE) END"
        )

    return Function(1, 1, lambda args: let([f"CAST({args[0].text} AS DOUBLE)"], body), "double")


def _log(args: list[Piece]) -> str:
    if len(args) != 1:
        raise ValueError("a base is not served. Write LN(x) / LN(base).")
    written = _logarithm("ln").text
    return written(args) if callable(written) else written


def _sign(args: list[Piece]) -> str:
    return f"CAST(sign({args[0].text}) AS {args[0].type.upper()})"


def _between_quotes(piece: Piece) -> str:
    """Return a literal as a pattern that stands for its own signs."""
    if not piece.text.startswith("'") or len(piece.text) <= len("''"):
        raise ValueError("expected a separator in quotes.")
    return literal("\\Q" + piece.text[1:-1].replace("\\\\", "\\").replace("\\'", "'") + "\\E")


def _split(args: list[Piece]) -> str:
    """Return SPLIT. Flink's gives no parts of an empty text, and with an empty separator each character."""
    separator = "''" if args[1].text == "''" else _between_quotes(args[1])
    nothing = "CAST(array() AS ARRAY<STRING>)"
    return let([args[0].text], lambda x: f"if({x[0]} = '', {nothing}, split({x[0]}, {separator}))")


def _str_to_map(args: list[Piece]) -> str:
    """Return STR_TO_MAP. Flink's gives no entry for an empty text."""
    separators = [_between_quotes(each) for each in args[1:]] or ["','", "'='"]
    if len(separators) == 1:
        raise ValueError("expected a text alone, or a text and two separators.")
    nothing = "CAST(map() AS MAP<STRING, STRING>)"
    between = ", ".join(separators)
    return let([args[0].text], lambda x: f"if({x[0]} = '', {nothing}, str_to_map({x[0]}, {between}))")


def _all_matches(args: list[Piece]) -> str:
    """Return REGEXP_EXTRACT_ALL. Flink's gives NULL if nothing matches."""
    found = f"regexp_extract_all({', '.join(each.text for each in args)})"
    return let([found], lambda x: f"if(size({x[0]}) > 0, {x[0]}, NULL)")


def _map_union(args: list[Piece]) -> str:
    """Return MAP_UNION. The later map counts for a key of both. Spark's map_concat takes it for an error."""
    text = args[0].text
    for later in args[1:]:
        text = let(
            [text, later.text],
            lambda x: (
                f"map_concat(map_filter({x[0]}, (__k, __v) -> NOT map_contains_key({x[1]}, __k)), {x[1]})"
            ),
        )
    return text


def _sha2(args: list[Piece]) -> str:
    if args[1].text not in ("224", "256", "384", "512"):
        raise ValueError("expected 224, 256, 384 or 512 bits.")
    return f"sha2({args[0].text}, {args[1].text})"


MORE_FUNCTIONS: dict[str, Function] = {
    "LN": _logarithm("ln"),
    "LOG10": _logarithm("log10"),
    "LOG2": _logarithm("log2"),
    "LOG": Function(1, 2, _log, "double"),
    "COT": Function(1, 1, "cot(CAST({0} AS DOUBLE))", "double"),
    "SIGN": Function(1, 1, _sign, "{0}"),
    "BIN": Function(1, 1, "bin({0})", "string"),
    "HEX": Function(1, 1, "hex({0})", "string"),
    "UNHEX": Function(1, 1, "unhex({0})", "binary"),
    "LEFT": Function(2, 2, "left({all})", "string"),
    "RIGHT": Function(2, 2, "right({all})", "string"),
    "ASCII": Function(1, 1, "ascii({0})", "int"),
    "CHR": Function(1, 1, "chr({0})", "string"),
    "BTRIM": Function(1, 2, "btrim({all})", "string"),
    "TRANSLATE": Function(3, 3, "translate({all})", "string"),
    "OVERLAY_PLACING_FROM": Function(3, 3, "overlay({all})", "string"),
    "OVERLAY_PLACING_FROM_FOR": Function(4, 4, "overlay({all})", "string"),
    "TO_BASE64": Function(1, 1, "base64(CAST({0} AS BINARY))", "string"),
    "FROM_BASE64": Function(1, 1, "CAST(to_binary({0}, 'base64') AS STRING)", "string"),
    "URL_ENCODE": Function(1, 1, "url_encode({0})", "string"),
    "URL_DECODE": Function(1, 1, "try_url_decode({0})", "string"),
    "PARSE_URL": Function(2, 3, "try_parse_url({all})", "string"),
    "STARTSWITH": Function(2, 2, "startswith({all})", "boolean"),
    "ENDSWITH": Function(2, 2, "endswith({all})", "boolean"),
    "SPLIT": Function(2, 2, _split),
    "STR_TO_MAP": Function(1, 3, _str_to_map),
    "REGEXP_COUNT": Function(2, 2, "regexp_count({all})", "int"),
    "REGEXP_EXTRACT_ALL": Function(2, 3, _all_matches),
    "REGEXP_INSTR": Function(2, 2, "regexp_instr({all})", "int"),
    "REGEXP_SUBSTR": Function(2, 2, "regexp_substr({all})", "string"),
    "SHA2": Function(2, 2, _sha2, "string"),
    "SHA224": Function(1, 1, "sha2({0}, 224)", "string"),
    "ARRAY_CONTAINS": Function(2, 2, "exists({0}, __e -> __e <=> {1})", "boolean"),
    "ARRAY_DISTINCT": Function(1, 1, "array_distinct({0})", "{0}"),
    "ARRAY_POSITION": Function(2, 2, "CAST(array_position({all}) AS INT)", "int"),
    "ARRAY_REMOVE": Function(2, 2, "filter({0}, __e -> NOT (__e <=> {1}))"),
    "ARRAY_REVERSE": Function(1, 1, "reverse({0})", "{0}"),
    "ARRAY_UNION": Function(2, 2, "array_union({all})"),
    "ARRAY_INTERSECT": Function(2, 2, "array_intersect({all})"),
    "ARRAY_EXCEPT": Function(2, 2, "array_except({all})"),
    "ARRAY_CONCAT": Function(1, MANY, "concat({all})"),
    "ARRAY_MAX": Function(1, 1, "array_max({0})"),
    "ARRAY_MIN": Function(1, 1, "array_min({0})"),
    "ARRAY_JOIN": Function(2, 3, "array_join({all})"),
    "ARRAY_APPEND": Function(2, 2, "array_append({all})"),
    "ARRAY_PREPEND": Function(2, 2, "array_prepend({all})"),
    "ARRAY_SORT": Function(1, 2, "sort_array({all})"),
    "MAP_ENTRIES": Function(1, 1, "map_entries({0})"),
    "MAP_FROM_ARRAYS": Function(2, 2, "map_from_arrays({all})"),
    "MAP_UNION": Function(1, MANY, _map_union),
}
