"""The functions of Flink that are served: name, number of arguments, translation, type of the result.

Runs on the driver. Invariant: a function that is not in these tables is refused, also where Spark has one of
the same name. docs/functions.md lists what differs.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from penstock.formats.decimals import SIGN_DIGITS_MAX, negative_sql
from penstock.sql.functions._more import MORE_FUNCTIONS, between_quotes, no_wide
from penstock.sql.functions.distinct import sum_type
from penstock.sql.functions.json_texts import json_string
from penstock.sql.functions.json_values import json_exists, json_query, json_unquote, json_value, sorted_json
from penstock.sql.functions.patterns import known as known_pattern
from penstock.sql.functions.read_times import (
    date_guard,
    pattern_parts,
    read_by_pattern,
    read_date_by_pattern,
    read_timestamp,
    with_zone,
)
from penstock.sql.functions.unix_times import convert_tz
from penstock.sql.functions.variants import parse_json
from penstock.sql.plan.expressions import MANY, Function, TypedSql, Varies
from penstock.sql.plan.texts import INTEGERS, decimal_digits, let, literal

SUFFIX = "\0"
"""Stands behind the call of an aggregate, where FILTER and OVER come."""

_DOUBLE = (
    *("EXP", "SQRT", "SIN", "COS", "TAN", "ASIN", "ACOS", "ATAN", "SINH", "COSH", "TANH"),
    *("DEGREES", "RADIANS"),
)


def _check_text(one: TypedSql) -> None:
    """Refuse a number, which Spark makes a text of. The text would be no time, and the result NULL."""
    if one.type not in ("string", "void"):
        raise ValueError(f"expected a STRING, got {one.type.upper()}. Write a CAST, or TO_TIMESTAMP_LTZ.")


def _date_format(args: list[TypedSql]) -> str:
    if args[0].type in (*INTEGERS, "double", "float", "boolean"):
        raise ValueError(f"expected a time or a STRING, got {args[0].type.upper()}. Use FROM_UNIXTIME.")
    if args[0].type == "string":
        return with_zone(read_timestamp(args[0].text), "timestamp_ntz", args[1].text)
    return with_zone(args[0].text, args[0].type, args[1].text)


def _to_timestamp(args: list[TypedSql]) -> str:
    _check_text(args[0])
    if len(args) == 1:
        return read_timestamp(args[0].text)
    return read_by_pattern(args[0].text, args[1].text)


def _to_timestamp_ltz(args: list[TypedSql]) -> str:
    names = {"0": "timestamp_seconds", "3": "timestamp_millis"}
    name = names.get(args[1].text) if len(args) > 1 else "timestamp_millis"
    if name is None or not args[0].is_integer:
        raise ValueError("expected an integer and the precision 0 or 3.")
    return f"{name}({args[0].text})"


def _from_unixtime(args: list[TypedSql]) -> str:
    if len(args) > 1:
        pattern_parts(args[1].text)
    return f"from_unixtime({', '.join(_texts(args))})"


def _to_date(args: list[TypedSql]) -> str:
    _check_text(args[0])
    if len(args) == 1:
        return f"try_cast({date_guard(args[0].text)} AS DATE)"
    return read_date_by_pattern(args[0].text, args[1].text)


def _texts(args: list[TypedSql]) -> list[str]:
    return [each.text for each in args]


def _null_if_any_is(name: str) -> Callable[[list[TypedSql]], str]:
    def body(texts: list[str]) -> str:
        tests = " OR ".join(f"{each} IS NULL" for each in texts)
        return f"CASE WHEN {tests} THEN NULL ELSE {name}({', '.join(texts)}) END"

    return lambda args: let(_texts(args), body)


def _regexp_extract(args: list[TypedSql]) -> str:
    group = args[2].text if len(args) > 2 else "0"
    known = known_pattern(args[1].text)
    if known is not None and group.isdigit() and int(group) < len(known.groups):
        return let([args[0].text], lambda x: known.first(x[0], int(group)))

    def body(texts: list[str]) -> str:
        text, pattern = texts
        return f"CASE WHEN {text} RLIKE {pattern} THEN regexp_extract({text}, {pattern}, {group}) END"

    return let(_texts(args[:2]), body)


def _regexp(args: list[TypedSql]) -> str:
    text, pattern = _texts(args)
    known = known_pattern(pattern)
    if known is not None and known.text:
        return let([text], lambda x: f"({known.found(x[0])})")
    return f"({pattern} <> '' AND {text} RLIKE {pattern})"


def _replace(args: list[TypedSql]) -> str:
    """Return REPLACE. Like Java's, Flink's finds an empty text at each position."""
    if args[1].text.startswith("'") and args[1].text != "''":
        return f"replace({', '.join(_texts(args))})"

    def body(texts: list[str]) -> str:
        text, search, by = texts
        everywhere = f"regexp_replace({text}, '', {_without_groups(by)})"
        return f"CASE WHEN {search} = '' THEN {everywhere} ELSE replace({text}, {search}, {by}) END"

    return let(_texts(args), body)


def _regexp_replace(args: list[TypedSql]) -> str:
    """Return REGEXP_REPLACE. `$1` in the replacement is plain text for Flink, and a group for Spark."""
    return f"regexp_replace({args[0].text}, {args[1].text}, {_without_groups(args[2].text)})"


def _without_groups(replacement: str) -> str:
    """Return a replacement in which Spark sees no group and no escape."""
    return f"replace(replace({replacement}, '\\\\', '\\\\\\\\'), '$', '\\\\$')"


def _substring(args: list[TypedSql]) -> str:
    """Return SUBSTRING. Flink gives '' for a start before the text, and NULL for a negative length."""

    def body(texts: list[str]) -> str:
        text, start, *length = texts
        found = f"substring({', '.join(texts)})"
        whens = [f"WHEN {each} IS NULL OR {each} < 0 THEN NULL" for each in length if not each.isdigit()]
        if not start.isdigit():
            whens.append(f"WHEN {start} < - char_length({text}) THEN ''")
        return f"CASE {' '.join(whens)} ELSE {found} END" if whens else found

    return let(_texts(args), body)


def _split_index(args: list[TypedSql]) -> str:
    """Return SPLIT_INDEX. Spark splits a text once for all of its pieces that a SELECT takes."""
    quoted = between_quotes(args[1])
    pieces = let([args[0].text], lambda x: f"split(if({x[0]} = '', NULL, {x[0]}), {quoted})")
    return f"get({pieces}, {args[2].text})"


def _whole(name: str) -> Callable[[list[TypedSql]], str]:
    """Return CEIL or FLOOR. Flink's have the type of the argument; doubles past 2^53 are whole already."""

    def text(args: list[TypedSql]) -> str:
        one = args[0]
        if one.type in ("double", "float"):
            kind = one.type.upper()
            return let(
                [one.text],
                lambda x: (
                    f"CASE WHEN abs({x[0]}) < 9007199254740992 THEN CAST({name}({x[0]}) AS {kind}) "
                    f"ELSE {x[0]} END"
                ),
            )
        if one.is_integer:
            return one.text
        digits = decimal_digits(one.type)
        return f"CAST({name}({one.text}) AS DECIMAL({digits[0]},0))" if digits else f"{name}({one.text})"

    return text


def negative(args: list[TypedSql]) -> str:
    """Return `-x`. Spark's own rounds a DECIMAL with many digits, and Flink's does not."""
    digits = _many_digits(args[0].type)
    if digits is None:
        return f"(- {args[0].text})"
    return let([args[0].text], lambda x: negative_sql(x[0], *digits))


def _abs(args: list[TypedSql]) -> str:
    digits = _many_digits(args[0].type)
    if digits is None:
        return f"abs({args[0].text})"
    return let([args[0].text], lambda x: f"IF({x[0]} < 0, {negative_sql(x[0], *digits)}, {x[0]})")


def _many_digits(kind: str) -> tuple[int, int] | None:
    """Return precision and scale of a DECIMAL whose sign Spark does not change exactly."""
    found = decimal_digits(kind)
    return found if found and found[0] > SIGN_DIGITS_MAX else None


def _mod(args: list[TypedSql]) -> str:
    """Return MOD. Of integers it has the type of the second one."""
    text = f"({args[0].text} % {args[1].text})"
    return f"CAST({text} AS {args[1].type.upper()})" if all(each.is_integer for each in args) else text


def _grouping(args: list[TypedSql]) -> str:
    """Return GROUPING: a bit for each column that is not in the set. Spark's own takes one column, or all."""
    bits = (f"CAST(grouping({each.text}) AS BIGINT)" for each in reversed(args))
    return f"({' + '.join(f'{bit} * {2**index}' for index, bit in enumerate(bits))})"


def _padded(name: str) -> Callable[[list[TypedSql]], str]:
    def body(texts: list[str]) -> str:
        test = f"{texts[1]} >= 0 AND {texts[2]} <> ''"
        return f"CASE {no_wide(name, texts[0], texts[2])} WHEN {test} THEN {name}({', '.join(texts)}) END"

    return lambda args: let(_texts(args), body)


_POSITION = "locate({0}, {1})"
FUNCTIONS: dict[str, Function] = {
    **MORE_FUNCTIONS,
    **{name: Function(1, 1, f"{name.lower()}(CAST({{0}} AS DOUBLE))", "double") for name in _DOUBLE},
    "GROUPING": Function(1, MANY, _grouping, "bigint"),
    "GROUPING_ID": Function(1, MANY, _grouping, "bigint"),
    "PI": Function(0, 0, "pi()", "double"),
    "E": Function(0, 0, "e()", "double"),
    "POWER": Function(2, 2, "power({all})", "double"),
    "ATAN2": Function(2, 2, "atan2({all})", "double"),
    "ABS": Function(1, 1, _abs, "{0}"),
    "MOD": Function(2, 2, _mod),
    "CEIL": Function(1, 1, _whole("ceil")),
    "CEILING": Function(1, 1, _whole("ceil")),
    "FLOOR": Function(1, 1, _whole("floor")),
    "RAND": Function(0, 1, "rand({all})", "double", Varies.CALL),
    "UPPER": Function(1, 1, "upper({0})", "string"),
    "LOWER": Function(1, 1, "lower({0})", "string"),
    "CHAR_LENGTH": Function(1, 1, "char_length({0})", "int"),
    "CHARACTER_LENGTH": Function(1, 1, "char_length({0})", "int"),
    "CONCAT": Function(1, MANY, "concat({all})", "string"),
    "CONCAT_WS": Function(2, MANY, "concat_ws({all})", "string"),
    "TRIM": Function(1, 1, "trim({0})", "string"),
    "TRIM_BOTH": Function(1, 2, lambda a: _trim("BOTH", a), "string"),
    "TRIM_LEADING": Function(1, 2, lambda a: _trim("LEADING", a), "string"),
    "TRIM_TRAILING": Function(1, 2, lambda a: _trim("TRAILING", a), "string"),
    "LTRIM": Function(1, 2, lambda a: _trim("LEADING", a), "string"),
    "RTRIM": Function(1, 2, lambda a: _trim("TRAILING", a), "string"),
    "SUBSTRING": Function(2, 3, _substring, "string"),
    "SUBSTR": Function(2, 3, _substring, "string"),
    "SUBSTRING_FROM": Function(2, 2, _substring, "string"),
    "SUBSTRING_FROM_FOR": Function(3, 3, _substring, "string"),
    "REPLACE": Function(3, 3, _replace, "string"),
    "POSITION_IN": Function(2, 2, _POSITION, "int"),
    "LOCATE": Function(2, 3, "locate({all})", "int"),
    "INSTR": Function(2, 2, "instr({all})", "int"),
    "LPAD": Function(3, 3, _padded("lpad"), "string"),
    "RPAD": Function(3, 3, _padded("rpad"), "string"),
    "REPEAT": Function(2, 2, "repeat({all})", "string"),
    "REVERSE": Function(1, 1, "reverse({0})", "string"),
    "SPLIT_INDEX": Function(3, 3, _split_index, "string"),
    "REGEXP": Function(2, 2, _regexp, "boolean"),
    "REGEXP_REPLACE": Function(3, 3, _regexp_replace, "string"),
    "REGEXP_EXTRACT": Function(2, 3, _regexp_extract, "string"),
    "MD5": Function(1, 1, "md5({0})", "string"),
    "SHA1": Function(1, 1, "sha1({0})", "string"),
    "SHA256": Function(1, 1, "sha2({0}, 256)", "string"),
    "SHA384": Function(1, 1, "sha2({0}, 384)", "string"),
    "SHA512": Function(1, 1, "sha2({0}, 512)", "string"),
    "COALESCE": Function(1, MANY, "coalesce({all})"),
    "IFNULL": Function(2, 2, "coalesce({all})"),
    "NULLIF": Function(2, 2, "nullif({all})", "{0}"),
    "IF": Function(3, 3, "if({all})"),
    "GREATEST": Function(2, MANY, _null_if_any_is("greatest")),
    "LEAST": Function(2, MANY, _null_if_any_is("least")),
    "CARDINALITY": Function(1, 1, "size({0})", "int"),
    "MAP_KEYS": Function(1, 1, "map_keys({0})"),
    "MAP_VALUES": Function(1, 1, "map_values({0})"),
    "JSON_VALUE": Function(2, 8, json_value),
    "JSON_EXISTS": Function(2, 8, json_exists, "boolean"),
    "JSON_QUERY": Function(2, 8, json_query),
    "JSON_STRING": Function(1, 1, json_string),
    "PARSE_JSON": Function(1, 2, lambda args: parse_json("PARSE_JSON", args), "variant"),
    "TRY_PARSE_JSON": Function(1, 2, lambda args: parse_json("TRY_PARSE_JSON", args), "variant"),
    "JSON_UNQUOTE": Function(1, 1, json_unquote, "string"),
    "JSON": Function(1, 1, lambda args: sorted_json(args[0].text), "string"),
    "NOW": Function(0, 0, "current_timestamp()", "timestamp", Varies.BATCH),
    "PROCTIME": Function(0, 0, "current_timestamp()", "timestamp", Varies.BATCH),
    "CURRENT_ROW_TIMESTAMP": Function(0, 0, "current_timestamp()", "timestamp", Varies.BATCH),
    "CURRENT_TIMESTAMP": Function(0, 0, "current_timestamp()", "timestamp", Varies.BATCH),
    "LOCALTIMESTAMP": Function(0, 0, "localtimestamp()", "timestamp_ntz", Varies.BATCH),
    "CURRENT_DATE": Function(0, 0, "current_date()", "date", Varies.BATCH),
    "CONVERT_TZ": Function(3, 3, convert_tz, "string"),
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


def _trim(side: str, args: list[TypedSql]) -> str:
    what = args[1].text if len(args) > 1 else "' '"
    return f"trim({side} {what} FROM {args[0].text})"


def _sum(args: list[TypedSql]) -> str:
    kind = args[0].type
    if kind in ("string", "boolean", "timestamp", "date"):
        raise ValueError(f"expected a number, got {kind.upper()}.")
    return f"CAST(sum({args[0].text}){SUFFIX} AS {sum_type(kind)})"


def _avg(args: list[TypedSql]) -> str:
    one = args[0]
    if one.is_integer:
        total, count = f"sum({one.text}){SUFFIX}", f"count({one.text}){SUFFIX}"
        return f"CAST({total} div nullif({count}, 0) AS {one.type.upper()})"
    digits = decimal_digits(one.type)
    if digits is None:
        return f"CAST(avg({one.text}){SUFFIX} AS {one.type.upper()})"
    # The quotient is rounded once. Spark's own avg() has other digits, so a CAST would round a second time.
    scale = digits[1]
    total = f"CAST(sum({one.text}){SUFFIX} AS DECIMAL(38,{scale}))"
    count = f"CAST(count({one.text}){SUFFIX} AS DECIMAL(19,0))"
    return f"CAST({total} / nullif({count}, 0) AS DECIMAL(38,{max(6, scale)}))"


def _deviation(name: str) -> Callable[[list[TypedSql]], str]:
    def text(args: list[TypedSql]) -> str:
        check_deviation(args[0])
        return f"{name}({args[0].text}){SUFFIX}"

    return text


def check_deviation(value: TypedSql) -> None:
    """Refuse a deviation or variance that Flink computes of rounded steps.

    Raises:
        ValueError: the value is not a DOUBLE.
    """
    if value.type != "double":
        raise ValueError(
            f"expected a DOUBLE, got {value.type.upper()}, for which Flink rounds each step. Write "
            "CAST(... AS DOUBLE)."
        )


def _listagg(args: list[TypedSql]) -> str:
    return f"listagg({args[0].text}, {args[1].text if len(args) > 1 else literal(',')}){SUFFIX}"


def _percentile(args: list[TypedSql]) -> str:
    if not re.fullmatch(r"0(\.\d+)?|1(\.0+)?", args[1].text):
        raise ValueError("expected a number from 0 to 1, e.g. 0.5, behind the value.")
    return f"percentile({args[0].text}, {args[1].text}){SUFFIX}"


def _array_agg(args: list[TypedSql]) -> str:
    """Return ARRAY_AGG, which keeps nulls. Without rows it is NULL."""
    values = f"collect_list(named_struct('v', {args[0].text})){SUFFIX}"
    return f"nullif(transform({values}, __e -> __e.v), array())"


AGGREGATES: dict[str, Function] = {
    "COUNT": Function(1, 1, f"count({{0}}){SUFFIX}", "bigint"),
    "SUM": Function(1, 1, _sum),
    "AVG": Function(1, 1, _avg),
    "MIN": Function(1, 1, f"min({{0}}){SUFFIX}", "{0}"),
    "MAX": Function(1, 1, f"max({{0}}){SUFFIX}", "{0}"),
    "STDDEV_POP": Function(1, 1, _deviation("stddev_pop"), "double"),
    "STDDEV_SAMP": Function(1, 1, _deviation("stddev_samp"), "double"),
    "VAR_POP": Function(1, 1, _deviation("var_pop"), "double"),
    "VAR_SAMP": Function(1, 1, _deviation("var_samp"), "double"),
    "VARIANCE": Function(1, 1, _deviation("var_samp"), "double"),
    "STDDEV": Function(1, 1, _deviation("stddev_samp"), "double"),
    "LISTAGG": Function(1, 2, _listagg, "string"),
    "ARRAY_AGG": Function(1, 1, _array_agg),
    "APPROX_COUNT_DISTINCT": Function(1, 1, f"count(DISTINCT {{0}}){SUFFIX}", "bigint"),
    "PERCENTILE": Function(2, 2, _percentile, "double"),
    "FIRST_VALUE": Function(1, 1, f"first({{0}}, true){SUFFIX}", "{0}"),
    "LAST_VALUE": Function(1, 1, f"last({{0}}, true){SUFFIX}", "{0}"),
}

OVER_ONLY: dict[str, Function] = {
    "ROW_NUMBER": Function(0, 0, f"CAST(row_number(){SUFFIX} AS BIGINT)", "bigint"),
    "RANK": Function(0, 0, f"CAST(rank(){SUFFIX} AS BIGINT)", "bigint"),
    "DENSE_RANK": Function(0, 0, f"CAST(dense_rank(){SUFFIX} AS BIGINT)", "bigint"),
    "PERCENT_RANK": Function(0, 0, f"percent_rank(){SUFFIX}", "double"),
    "CUME_DIST": Function(0, 0, f"cume_dist(){SUFFIX}", "double"),
    "NTILE": Function(1, 1, f"CAST(ntile({{0}}){SUFFIX} AS BIGINT)", "bigint"),
    "LAG": Function(1, 3, f"lag({{all}}){SUFFIX}", "{0}"),
    "LEAD": Function(1, 3, f"lead({{all}}){SUFFIX}", "{0}"),
}
