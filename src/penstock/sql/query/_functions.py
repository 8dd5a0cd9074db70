"""The functions of Flink that are served: name, number of arguments, translation, type of the result.

Runs on the driver. Invariant: a function that is not in these tables is refused, also where Spark has one of
the same name. docs/sql.md lists what differs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from penstock.sql.query.piece import Piece, literal


@dataclass(frozen=True)
class Function:
    """A function.

    Attributes:
        least: the smallest number of arguments.
        most: the largest one.
        text: with `{0}`, `{1}` ... for arguments and `{all}` for all of them; or a function of the pieces.
        type: of the result, as Spark's simple string; "" for asking Spark; "{0}" for that of an argument.
    """

    least: int
    most: int
    text: str | Callable[[list[Piece]], str]
    type: str = ""

    def apply(self, args: list[Piece]) -> str:
        """Return the translation.

        Raises:
            ValueError: an argument is not served. The message says what to do.
        """
        if callable(self.text):
            return self.text(args)
        texts = [each.text for each in args]
        return self.text.format(*texts, all=", ".join(texts))


SUFFIX = "\0"
"""Stands behind the call of an aggregate, where FILTER and OVER come."""

_MANY = 1_000
_PATTERN_PARTS = re.compile(r"yyyy|MM|dd|HH|mm|ss|SSSSSS|SSS|[-/: .,_]|'[^']*'")
_DOUBLE = (
    *("EXP", "SQRT", "SIN", "COS", "TAN", "ASIN", "ACOS", "ATAN", "SINH", "COSH", "TANH"),
    *("DEGREES", "RADIANS"),
)


def _pattern(piece: Piece) -> str:
    """Return a literal pattern of times if Java's two readers of patterns agree about each part of it."""
    text = piece.text[1:-1] if piece.text.startswith("'") else None
    if text is None or "\\" in text or "".join(_PATTERN_PARTS.findall(text)) != text:
        raise ValueError(
            "expected a pattern in quotes of yyyy, MM, dd, HH, mm, ss, SSS and signs between them, because "
            "Spark reads other letters differently."
        )
    return piece.text


def _date_format(args: list[Piece]) -> str:
    if args[0].type == "string":
        raise ValueError("expected a time, got a STRING. Write CAST(... AS TIMESTAMP).")
    return f"date_format({args[0].text}, {_pattern(args[1])})"


def _to_timestamp(args: list[Piece]) -> str:
    if len(args) == 1:
        return f"try_cast({args[0].text} AS TIMESTAMP_NTZ)"
    return f"CAST(try_to_timestamp({args[0].text}, {_pattern(args[1])}) AS TIMESTAMP_NTZ)"


def _to_timestamp_ltz(args: list[Piece]) -> str:
    names = {"0": "timestamp_seconds", "3": "timestamp_millis"}
    name = names.get(args[1].text) if len(args) > 1 else "timestamp_millis"
    if name is None or not args[0].is_integer:
        raise ValueError("expected an integer and the precision 0 or 3.")
    return f"{name}({args[0].text})"


def _from_unixtime(args: list[Piece]) -> str:
    return f"from_unixtime({args[0].text}{', ' + _pattern(args[1]) if len(args) > 1 else ''})"


def _to_date(args: list[Piece]) -> str:
    if len(args) == 1:
        return f"try_cast({args[0].text} AS DATE)"
    return f"CAST(try_to_timestamp({args[0].text}, {_pattern(args[1])}) AS DATE)"


def _null_if_any_is(name: str) -> Callable[[list[Piece]], str]:
    def text(args: list[Piece]) -> str:
        tests = " OR ".join(f"{each.text} IS NULL" for each in args)
        return f"CASE WHEN {tests} THEN NULL ELSE {name}({', '.join(each.text for each in args)}) END"

    return text


def _regexp_extract(args: list[Piece]) -> str:
    group = args[2].text if len(args) > 2 else "0"
    text, pattern = args[0].text, args[1].text
    return f"CASE WHEN {text} RLIKE {pattern} THEN regexp_extract({text}, {pattern}, {group}) END"


def _regexp_replace(args: list[Piece]) -> str:
    """Return REGEXP_REPLACE. `$1` in the replacement is plain text for Flink, and a group for Spark."""
    plain = f"replace(replace({args[2].text}, '\\\\', '\\\\\\\\'), '$', '\\\\$')"
    return f"regexp_replace({args[0].text}, {args[1].text}, {plain})"


def _substring(args: list[Piece]) -> str:
    """Return SUBSTRING. Flink gives '' for a start before the text, and NULL for a negative length."""
    text, start, *length = (each.text for each in args)
    found = f"substring({', '.join([text, start, *length])})"
    whens = [f"WHEN {each} IS NULL OR {each} < 0 THEN NULL" for each in length if not each.isdigit()]
    if not start.isdigit():
        whens.append(f"WHEN {start} < - char_length({text}) THEN ''")
    return f"CASE {' '.join(whens)} ELSE {found} END" if whens else found


def _split_index(args: list[Piece]) -> str:
    if not args[1].text.startswith("'") or len(args[1].text) <= 2:
        raise ValueError("expected a separator in quotes.")
    quoted = literal("\\Q" + args[1].text[1:-1].replace("\\\\", "\\").replace("\\'", "'") + "\\E")
    parts = f"split({args[0].text}, {quoted})"
    return f"CASE WHEN {args[0].text} <> '' AND {args[2].text} >= 0 THEN get({parts}, {args[2].text}) END"


def _whole(name: str) -> Callable[[list[Piece]], str]:
    """Return CEIL or FLOOR. Flink's have the type of the argument; doubles past 2^53 are whole already."""

    def text(args: list[Piece]) -> str:
        one = args[0]
        if one.type in ("double", "float"):
            kind = one.type.upper()
            whole = f"CAST({name}({one.text}) AS {kind})"
            return f"CASE WHEN abs({one.text}) < 9007199254740992 THEN {whole} ELSE {one.text} END"
        return one.text if one.is_integer else f"{name}({one.text})"

    return text


def _element_count(args: list[Piece]) -> str:
    return f"size({args[0].text})"


def _padded(name: str) -> Callable[[list[Piece]], str]:
    def text(args: list[Piece]) -> str:
        texts = ", ".join(each.text for each in args)
        return f"CASE WHEN {args[1].text} >= 0 AND {args[2].text} <> '' THEN {name}({texts}) END"

    return text


_POSITION = "locate({0}, {1})"
FUNCTIONS: dict[str, Function] = {
    **{name: Function(1, 1, f"{name.lower()}(CAST({{0}} AS DOUBLE))", "double") for name in _DOUBLE},
    "PI": Function(0, 0, "pi()", "double"),
    "E": Function(0, 0, "e()", "double"),
    "POWER": Function(2, 2, "power({all})", "double"),
    "ATAN2": Function(2, 2, "atan2({all})", "double"),
    "ABS": Function(1, 1, "abs({0})", "{0}"),
    "MOD": Function(2, 2, "({0} % {1})"),
    "CEIL": Function(1, 1, _whole("ceil")),
    "CEILING": Function(1, 1, _whole("ceil")),
    "FLOOR": Function(1, 1, _whole("floor")),
    "RAND": Function(0, 1, "rand({all})", "double"),
    "UPPER": Function(1, 1, "upper({0})", "string"),
    "LOWER": Function(1, 1, "lower({0})", "string"),
    "CHAR_LENGTH": Function(1, 1, "char_length({0})", "int"),
    "CHARACTER_LENGTH": Function(1, 1, "char_length({0})", "int"),
    "CONCAT": Function(1, _MANY, "concat({all})", "string"),
    "CONCAT_WS": Function(2, _MANY, "concat_ws({all})", "string"),
    "TRIM": Function(1, 1, "trim({0})", "string"),
    "TRIM_BOTH": Function(1, 2, lambda a: _trim("BOTH", a), "string"),
    "TRIM_LEADING": Function(1, 2, lambda a: _trim("LEADING", a), "string"),
    "TRIM_TRAILING": Function(1, 2, lambda a: _trim("TRAILING", a), "string"),
    "LTRIM": Function(1, 1, "ltrim({0})", "string"),
    "RTRIM": Function(1, 1, "rtrim({0})", "string"),
    "SUBSTRING": Function(2, 3, _substring, "string"),
    "SUBSTR": Function(2, 3, _substring, "string"),
    "SUBSTRING_FROM": Function(2, 2, _substring, "string"),
    "SUBSTRING_FROM_FOR": Function(3, 3, _substring, "string"),
    "REPLACE": Function(3, 3, "replace({all})", "string"),
    "POSITION_IN": Function(2, 2, _POSITION, "int"),
    "LOCATE": Function(2, 2, _POSITION, "int"),
    "INSTR": Function(2, 2, "instr({all})", "int"),
    "LPAD": Function(3, 3, _padded("lpad"), "string"),
    "RPAD": Function(3, 3, _padded("rpad"), "string"),
    "REPEAT": Function(2, 2, "repeat({all})", "string"),
    "REVERSE": Function(1, 1, "reverse({0})", "string"),
    "SPLIT_INDEX": Function(3, 3, _split_index, "string"),
    "REGEXP": Function(2, 2, "({0} RLIKE {1})", "boolean"),
    "REGEXP_REPLACE": Function(3, 3, _regexp_replace, "string"),
    "REGEXP_EXTRACT": Function(2, 3, _regexp_extract, "string"),
    "MD5": Function(1, 1, "md5({0})", "string"),
    "SHA1": Function(1, 1, "sha1({0})", "string"),
    "SHA256": Function(1, 1, "sha2({0}, 256)", "string"),
    "SHA384": Function(1, 1, "sha2({0}, 384)", "string"),
    "SHA512": Function(1, 1, "sha2({0}, 512)", "string"),
    "COALESCE": Function(1, _MANY, "coalesce({all})"),
    "IFNULL": Function(2, 2, "coalesce({all})"),
    "NULLIF": Function(2, 2, "nullif({all})", "{0}"),
    "IF": Function(3, 3, "if({all})"),
    "GREATEST": Function(1, _MANY, _null_if_any_is("greatest")),
    "LEAST": Function(1, _MANY, _null_if_any_is("least")),
    "CARDINALITY": Function(1, 1, _element_count, "int"),
    "MAP_KEYS": Function(1, 1, "map_keys({0})"),
    "MAP_VALUES": Function(1, 1, "map_values({0})"),
    "NOW": Function(0, 0, "current_timestamp()", "timestamp"),
    "PROCTIME": Function(0, 0, "current_timestamp()", "timestamp"),
    "CURRENT_ROW_TIMESTAMP": Function(0, 0, "current_timestamp()", "timestamp"),
    "CURRENT_TIMESTAMP": Function(0, 0, "current_timestamp()", "timestamp"),
    "LOCALTIMESTAMP": Function(0, 0, "localtimestamp()", "timestamp_ntz"),
    "CURRENT_DATE": Function(0, 0, "current_date()", "date"),
    "UNIX_TIMESTAMP": Function(0, 0, "unix_timestamp()", "bigint"),
    "FROM_UNIXTIME": Function(1, 2, _from_unixtime, "string"),
    "DATE_FORMAT": Function(2, 2, _date_format, "string"),
    "TO_DATE": Function(1, 2, _to_date, "date"),
    "TO_TIMESTAMP": Function(1, 2, _to_timestamp, "timestamp_ntz"),
    "TO_TIMESTAMP_LTZ": Function(1, 2, _to_timestamp_ltz, "timestamp"),
    **{
        name: Function(1, 1, f"CAST({spark}({{0}}) AS BIGINT)", "bigint")
        for name, spark in {
            "YEAR": "year",
            "QUARTER": "quarter",
            "MONTH": "month",
            "WEEK": "weekofyear",
            "DAYOFYEAR": "dayofyear",
            "DAYOFMONTH": "dayofmonth",
            "DAYOFWEEK": "dayofweek",
            "HOUR": "hour",
            "MINUTE": "minute",
            "SECOND": "second",
        }.items()
    },
}

EXTRACT_UNITS = {
    "YEAR": "YEAR",
    "QUARTER": "QUARTER",
    "MONTH": "MONTH",
    "WEEK": "WEEK",
    "DAY": "DAYOFMONTH",
    "DOY": "DAYOFYEAR",
    "DOW": "DAYOFWEEK",
    "HOUR": "HOUR",
    "MINUTE": "MINUTE",
    "SECOND": "SECOND",
}
"""The units of EXTRACT, and the functions that mean the same."""

TIME_UNITS = ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")


def _trim(side: str, args: list[Piece]) -> str:
    what = args[1].text if len(args) > 1 else "' '"
    return f"trim({side} {what} FROM {args[0].text})"


def _sum(args: list[Piece]) -> str:
    kind = args[0].type
    if kind in ("string", "boolean", "timestamp", "date"):
        raise ValueError(f"expected a number, got {kind.upper()}.")
    return f"CAST(sum({args[0].text}){SUFFIX} AS {_sum_type(kind)})"


def _sum_type(kind: str) -> str:
    decimal = re.fullmatch(r"decimal\(\d+,(\d+)\)", kind)
    return f"DECIMAL(38,{decimal.group(1)})" if decimal else kind.upper()


def _avg(args: list[Piece]) -> str:
    one = args[0]
    if one.is_integer:
        total, count = f"sum({one.text}){SUFFIX}", f"count({one.text}){SUFFIX}"
        return f"CAST({total} div nullif({count}, 0) AS {one.type.upper()})"
    decimal = re.fullmatch(r"decimal\((\d+),(\d+)\)", one.type)
    if decimal is None:
        return f"CAST(avg({one.text}){SUFFIX} AS {one.type.upper()})"
    scale = int(decimal.group(2))
    widened = (
        f"CAST({one.text} AS DECIMAL({min(38, int(decimal.group(1)) + 2)},2))" if scale < 2 else one.text
    )
    return f"CAST(avg({widened}){SUFFIX} AS DECIMAL(38,{max(6, scale)}))"


def _listagg(args: list[Piece]) -> str:
    return f"listagg({args[0].text}, {args[1].text if len(args) > 1 else literal(',')}){SUFFIX}"


AGGREGATES: dict[str, Function] = {
    "COUNT": Function(1, 1, f"count({{0}}){SUFFIX}", "bigint"),
    "SUM": Function(1, 1, _sum),
    "AVG": Function(1, 1, _avg),
    "MIN": Function(1, 1, f"min({{0}}){SUFFIX}", "{0}"),
    "MAX": Function(1, 1, f"max({{0}}){SUFFIX}", "{0}"),
    "STDDEV_POP": Function(1, 1, f"stddev_pop({{0}}){SUFFIX}", "double"),
    "STDDEV_SAMP": Function(1, 1, f"stddev_samp({{0}}){SUFFIX}", "double"),
    "VAR_POP": Function(1, 1, f"var_pop({{0}}){SUFFIX}", "double"),
    "VAR_SAMP": Function(1, 1, f"var_samp({{0}}){SUFFIX}", "double"),
    "VARIANCE": Function(1, 1, f"var_samp({{0}}){SUFFIX}", "double"),
    "LISTAGG": Function(1, 2, _listagg, "string"),
    "FIRST_VALUE": Function(1, 1, f"first({{0}}, true){SUFFIX}", "{0}"),
    "LAST_VALUE": Function(1, 1, f"last({{0}}, true){SUFFIX}", "{0}"),
}

OVER_ONLY: dict[str, Function] = {
    "ROW_NUMBER": Function(0, 0, f"CAST(row_number(){SUFFIX} AS BIGINT)", "bigint"),
    "RANK": Function(0, 0, f"CAST(rank(){SUFFIX} AS BIGINT)", "bigint"),
    "DENSE_RANK": Function(0, 0, f"CAST(dense_rank(){SUFFIX} AS BIGINT)", "bigint"),
    "NTILE": Function(1, 1, f"ntile({{0}}){SUFFIX}"),
    "LAG": Function(1, 3, f"lag({{all}}){SUFFIX}", "{0}"),
    "LEAD": Function(1, 3, f"lead({{all}}){SUFFIX}", "{0}"),
}

_JSON = (
    *("JSON_VALUE", "JSON_QUERY", "JSON_EXISTS", "JSON_OBJECT", "JSON_ARRAY", "JSON_OBJECTAGG"),
    *("JSON_ARRAYAGG", "JSON_STRING", "JSON_QUOTE", "JSON_UNQUOTE", "JSON_LENGTH"),
)
_NO_JSON = (
    "Flink's JSON functions are not served yet. Declare the fields as columns of type ROW, or use a Python "
    "function."
)
REFUSED = {
    "COLLECT": "Spark has no MULTISET. Use LISTAGG for texts.",
    "CURRENT_WATERMARK": "Spark has no expression for the watermark.",
    "SOURCE_WATERMARK": "Spark makes watermarks. Write WATERMARK FOR ts AS ts - INTERVAL '5' SECOND.",
    "MATCH_RECOGNIZE": "Spark has no pattern recognition.",
    "TYPEOF": "the names of types differ from Spark's.",
    "UUID": "a value that is not the same when a batch is computed again would write rows twice.",
    "RAND_INTEGER": "use CAST(FLOOR(RAND() * n) AS INT).",
    "CURRENT_TIME": "TIME is not served. Use CURRENT_TIMESTAMP.",
    "LOCALTIME": "TIME is not served. Use LOCALTIMESTAMP.",
    **dict.fromkeys(_JSON, _NO_JSON),
    **dict.fromkeys(("ML_PREDICT", "VECTOR_SEARCH"), "models are not served. Use a Python function."),
}
"""Functions that are known and not served, and what to use instead."""
