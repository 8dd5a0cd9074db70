"""Functions of numbers, texts and arrays that few scripts use: the second half of `served.py`.

Runs on the driver. Invariant: that of `served.py`.
"""

from __future__ import annotations

import re

from penstock.sql.functions.casts import cast
from penstock.sql.language.flink_types import FlinkType
from penstock.sql.plan.expressions import MANY, Function, TypedSql
from penstock.sql.plan.texts import INTEGERS, decimal_digits, let, literal, unquoted

_MEANING_MORE = ".$|()[{^?*+\\"
"""Characters that mean something else in a pattern, where no backslash stands before them."""
_WIDE = literal(r"[\x{10000}-\x{10FFFF}]")


def no_wide(name: str, *texts: str) -> str:
    """Return a WHEN that fails for characters beyond U+FFFF, of which Flink counts each as two."""
    message = f"{name.upper()}: a character beyond U+FFFF is not served, because Flink counts it as two"
    tests = " OR ".join(f"{each} RLIKE {_WIDE}" for each in texts if not _is_narrow(each)) or "FALSE"
    return f"WHEN {tests} THEN raise_error({literal(message)})"


def _is_narrow(text: str) -> bool:
    return bool(re.fullmatch(r"'[^'\U00010000-\U0010ffff]*'", text))


def _overlay(args: list[TypedSql]) -> str:
    def body(x: list[str]) -> str:
        return f"CASE {no_wide('OVERLAY', x[0], x[1])} ELSE overlay({', '.join(x)}) END"

    return let([each.text for each in args], body)


def _unhex(args: list[TypedSql]) -> str:
    """Return UNHEX. Flink makes another byte of a text with an odd number of digits."""
    message = "UNHEX: expected an even number of digits"
    return let(
        [args[0].text],
        lambda x: f"if(char_length({x[0]}) % 2 = 1, raise_error({literal(message)}), unhex({x[0]}))",
    )


def _logarithm(name: str) -> Function:
    """Return a logarithm. Flink's gives -Infinity for 0 and NaN below; Spark's gives NULL."""

    def body(x: list[str]) -> str:
        return (
            f"CASE WHEN {x[0]} > 0 THEN {name}({x[0]}) WHEN {x[0]} = 0 THEN CAST('-Infinity' AS DOUBLE) "
            f"WHEN {x[0]} < 0 THEN CAST('NaN' AS DOUBLE) END"
        )

    return Function(1, 1, lambda args: let([f"CAST({args[0].text} AS DOUBLE)"], body), "double")


def _log(args: list[TypedSql]) -> str:
    written = str(_logarithm("ln").apply(args[-1:]))
    if len(args) == 1:
        return written
    base = args[0].text
    if not re.fullmatch(r"[\d.]+", base) or float(base) <= 1:
        raise ValueError("expected a base above 1 as a literal. Or write LN(x) / LN(base).")
    return f"({written} / ln(CAST({base} AS DOUBLE)))"


def _ascii(args: list[TypedSql]) -> str:
    """Return ASCII: the first byte, with a sign, as Flink gives it."""
    first = f"CAST(conv(hex(left(CAST({args[0].text} AS BINARY), 1)), 16, 10) AS INT)"
    return let(
        [first, args[0].text],
        lambda x: f"CASE WHEN {x[1]} = '' THEN 0 ELSE {x[0]} - if({x[0]} > 127, 256, 0) END",
    )


def _initcap(args: list[TypedSql]) -> str:
    """Return INITCAP. For Flink a word has the letters A to Z and digits; others stay as they are."""
    word = "upper(left(__w, 1)) || lower(substring(__w, 2))"
    cased = f"if(__w RLIKE '^[A-Za-z]', {word}, if(__w RLIKE '^[0-9]', lower(__w), __w))"
    parts = f"regexp_extract_all({args[0].text}, '[A-Za-z0-9]+|[^A-Za-z0-9]+', 0)"
    return f"array_join(transform({parts}, __w -> {cased}), '')"


def _elt(args: list[TypedSql]) -> str:
    """Return ELT. An index that is not there gives NULL."""
    if any(each.type not in ("string", "void") for each in args[1:]):
        raise ValueError("expected texts behind the index. Write CAST(... AS STRING).")
    values = ", ".join(each.text for each in args[1:])
    fails = "CAST(raise_error('ELT: expected an index from 0') AS STRING)"
    return let(
        [args[0].text], lambda x: f"if({x[0]} < 0, {fails}, get(array({values}), CAST({x[0]} AS INT) - 1))"
    )


def _truncate(args: list[TypedSql]) -> str:
    """Return TRUNCATE of an integer or DECIMAL, with the type of Flink."""
    one = args[0]
    if len(args) > 1 and not re.fullmatch(r"-?\d+", args[1].text):
        raise ValueError("expected the number of digits as a literal.")
    digits = int(args[1].text) if len(args) > 1 else 0
    if one.is_integer:
        unit = 10**-digits if digits < 0 else 1
        if unit > 10**9:
            raise ValueError("expected at least -9 digits.")
        return f"CAST(({one.text} div {unit}) * {unit} AS {one.type.upper()})" if unit > 1 else one.text
    found = decimal_digits(one.type)
    if found is None:
        raise ValueError(
            f"expected an integer or DECIMAL, got {one.type.upper()}. Write CAST(... AS DECIMAL(p, s))."
        )
    precision, scale = found
    if digits >= scale:
        return one.text
    kept = max(digits, 0)
    kind = f"DECIMAL({min(38, 1 + precision - scale + kept)},{kept})"
    return let(
        [one.text],
        lambda x: f"CAST(if({x[0]} < 0, ceil({x[0]}, {digits}), floor({x[0]}, {digits})) AS {kind})",
    )


_CHARSETS = ("UTF-8", "US-ASCII", "ISO-8859-1", "UTF-16BE", "UTF-16LE", "UTF-16")


def _charset(args: list[TypedSql]) -> str:
    name = args[1].text[1:-1].upper()
    if name not in _CHARSETS:
        raise ValueError(f"expected one of {', '.join(_CHARSETS)} in quotes.")
    return literal(name)


def _encode(args: list[TypedSql]) -> str:
    _expect(args[0], "string")
    return f"encode({args[0].text}, {_charset(args)})"


def _decode(args: list[TypedSql]) -> str:
    _expect(args[0], "binary")
    return f"decode({args[0].text}, {_charset(args)})"


def _expect(one: TypedSql, kind: str) -> None:
    if one.type not in (kind, "void"):
        raise ValueError(f"expected {kind.upper()}, got {one.type.upper()}. Write a CAST.")


def _printf(args: list[TypedSql]) -> str:
    for each in args[1:]:
        is_served = each.type in (*INTEGERS, "string", "double", "boolean", "void")
        if not is_served and not each.type.startswith("decimal"):
            raise ValueError(f"expected texts, numbers and BOOLEANs, got {each.type.upper()}. Write a CAST.")
    return f"format_string({', '.join(each.text for each in args)})"


def _all_of(pattern: str) -> Function:
    """Return whether a text has only characters of a class. Flink looks at UTF-16 units; NULL has none."""
    whole = literal(f"^{pattern}+$")

    def text(args: list[TypedSql]) -> str:
        _expect(args[0], "string")
        return f"coalesce({args[0].text} RLIKE {whole} AND NOT {args[0].text} RLIKE '\\\\n', FALSE)"

    return Function(1, 1, text, "boolean")


def _is_decimal(args: list[TypedSql]) -> str:
    _expect(args[0], "string")
    return f"({cast(args[0], FlinkType('DOUBLE', ()), is_try=True)} IS NOT NULL)"


def _array_slice(args: list[TypedSql]) -> str:
    """Return ARRAY_SLICE. Positions count from 1, negative ones from the end; both ends belong to it."""
    stop = args[2].text if len(args) > 2 else "2147483647"

    def body(x: list[str]) -> str:
        array, first, last = x
        bounds = [
            f"CASE WHEN {each} < 0 THEN size({array}) + {each} + 1 WHEN {each} = 0 THEN 1 ELSE {each} END"
            for each in (first, last)
        ]
        return let(
            [array, f"greatest({bounds[0]}, 1)", f"least({bounds[1]}, size({array}))"],
            lambda y: (
                f"CASE WHEN {array} IS NULL OR {first} IS NULL OR {last} IS NULL THEN NULL "
                f"ELSE slice({y[0]}, {y[1]}, greatest({y[2]} - {y[1]} + 1, 0)) END"
            ),
        )

    return let([args[0].text, args[1].text, stop], body)


def _array_sort(args: list[TypedSql]) -> str:
    """Return ARRAY_SORT. Nulls come first upwards and last downwards, or as the third argument says."""
    if len(args) < 3:
        return f"sort_array({', '.join(each.text for each in args)})"
    if not {args[1].text, args[2].text} <= {"TRUE", "FALSE"}:
        raise ValueError("expected TRUE or FALSE behind the array.")
    if args[1].text == args[2].text:
        return f"sort_array({args[0].text}, {args[1].text})"
    is_null, is_value = (f"filter({args[0].text}, __e -> __e IS {test})" for test in ("NULL", "NOT NULL"))
    values = f"sort_array({is_value}, {args[1].text})"
    both = (is_null, values) if args[2].text == "TRUE" else (values, is_null)
    return f"concat({', '.join(both)})"


def _sign(args: list[TypedSql]) -> str:
    return f"CAST(sign({args[0].text}) AS {args[0].type.upper()})"


def between_quotes(piece: TypedSql) -> str:
    """Return a literal as a pattern that stands for its own signs.

    Java splits a text at one character without a regular expression, also at one behind a backslash.
    """
    separator = unquoted(piece.text)
    if not separator:
        raise ValueError("expected a separator in quotes.")
    if len(separator) == 1:
        return literal(f"\\{separator}" if separator in _MEANING_MORE else separator)
    return literal("\\Q" + separator.replace("\\E", r"\E\\E\Q") + "\\E")


def _split(args: list[TypedSql]) -> str:
    """Return SPLIT. Flink's gives no parts of an empty text, and with an empty separator each character."""
    separator = "''" if args[1].text == "''" else between_quotes(args[1])
    nothing = "CAST(array() AS ARRAY<STRING>)"
    return let([args[0].text], lambda x: f"if({x[0]} = '', {nothing}, split({x[0]}, {separator}))")


def _str_to_map(args: list[TypedSql]) -> str:
    """Return STR_TO_MAP. Flink's gives no entry for an empty text."""
    separators = [between_quotes(each) for each in args[1:]] or ["','", "'='"]
    if len(separators) == 1:
        raise ValueError("expected a text alone, or a text and two separators.")
    nothing = "CAST(map() AS MAP<STRING, STRING>)"
    between = ", ".join(separators)
    return let([args[0].text], lambda x: f"if({x[0]} = '', {nothing}, str_to_map({x[0]}, {between}))")


def _all_matches(args: list[TypedSql]) -> str:
    """Return REGEXP_EXTRACT_ALL. Flink's gives NULL if nothing matches."""
    found = f"regexp_extract_all({', '.join(each.text for each in args)})"
    return let([found], lambda x: f"if(size({x[0]}) > 0, {x[0]}, NULL)")


def _map_union(args: list[TypedSql]) -> str:
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


def _sha2(args: list[TypedSql]) -> str:
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
    "UNHEX": Function(1, 1, _unhex, "binary"),
    "LEFT": Function(2, 2, "left({all})", "string"),
    "RIGHT": Function(2, 2, "right({all})", "string"),
    "ASCII": Function(1, 1, _ascii, "int"),
    "INITCAP": Function(1, 1, _initcap, "string"),
    "ELT": Function(2, MANY, _elt, "string"),
    "TRUNCATE": Function(1, 2, _truncate),
    "ENCODE": Function(2, 2, _encode, "binary"),
    "DECODE": Function(2, 2, _decode, "string"),
    "PRINTF": Function(1, MANY, _printf),
    "IS_ALPHA": _all_of(r"[\p{L}&&[\x{0}-\x{FFFF}]]"),
    "IS_DIGIT": _all_of(r"[\p{IsDigit}&&[\x{0}-\x{FFFF}]]"),
    "IS_DECIMAL": Function(1, 1, _is_decimal, "boolean"),
    "TRANSLATE3": Function(3, 3, "translate({all})", "string"),
    "ARRAY_SLICE": Function(2, 3, _array_slice),
    "CHR": Function(1, 1, "chr({0})", "string"),
    "BTRIM": Function(1, 2, "btrim({all})", "string"),
    "TRANSLATE": Function(3, 3, "translate({all})", "string"),
    "OVERLAY_PLACING_FROM": Function(3, 3, _overlay, "string"),
    "OVERLAY_PLACING_FROM_FOR": Function(4, 4, _overlay, "string"),
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
    "ARRAY_SORT": Function(1, 3, _array_sort),
    "MAP_ENTRIES": Function(1, 1, "map_entries({0})"),
    "MAP_FROM_ARRAYS": Function(2, 2, "map_from_arrays({all})"),
    "MAP_UNION": Function(1, MANY, _map_union),
}
