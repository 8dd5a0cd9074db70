"""Read a type.

Runs on the driver. Invariant: a name is read as a type only if it is one of Flink's.
"""

from __future__ import annotations

from penstock.sql.language.cursor import Cursor
from penstock.sql.language.flink_types import Field, FlinkType
from penstock.sql.language.source import nearest
from penstock.sql.language.tokens import MAX_DEPTH, Kind

_SYNONYMS = {"DEC": "DECIMAL", "NUMERIC": "DECIMAL", "INTEGER": "INT"}
_ARGUMENTS = {
    "CHAR": 1,
    "VARCHAR": 1,
    "BINARY": 1,
    "VARBINARY": 1,
    "DECIMAL": 2,
    "TIME": 1,
    "TIMESTAMP": 1,
    "TIMESTAMP_LTZ": 1,
}
_PLAIN = ("STRING", "BOOLEAN", "BYTES", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DATE")
_OTHERS = ("NULL", "VARIANT")
_NESTED = ("ARRAY", "MULTISET", "MAP", "ROW", "INTERVAL", "RAW")
TYPE_NAMES = (*_ARGUMENTS, *_PLAIN, *_OTHERS, *_NESTED, *_SYNONYMS)
_UNITS = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")
_LIMITS = {"DECIMAL": 38, "TIME": 9, "TIMESTAMP": 9, "TIMESTAMP_LTZ": 9}
_FROM_ONE = ("CHAR", "VARCHAR", "BINARY", "VARBINARY", "DECIMAL")


def parse_type(cursor: Cursor, depth: int = 0) -> FlinkType:
    """Read a type with its NULL or NOT NULL.

    Raises:
        SqlError: the name is not a type of Flink's, a part is missing, or types are nested too deeply.
    """
    _check_depth(cursor, depth)
    found = _nullability(cursor, _base(cursor, depth + 1))
    while cursor.token.kind is Kind.WORD and cursor.token.value.upper() in ("ARRAY", "MULTISET"):
        depth += 1
        _check_depth(cursor, depth)
        found = _nullability(cursor, FlinkType(cursor.advance().value.upper(), elements=(found,)))
    return found


def _check_depth(cursor: Cursor, depth: int) -> None:
    if depth > MAX_DEPTH:
        cursor.refuse(f"more than {MAX_DEPTH} types are nested.")


def _nullability(cursor: Cursor, found: FlinkType) -> FlinkType:
    if cursor.take("NOT NULL"):
        return FlinkType(found.name, found.args, found.elements, found.fields, found.unit, nullable=False)
    cursor.take("NULL")
    return found


def _base(cursor: Cursor, depth: int) -> FlinkType:
    token = cursor.token
    name = token.value.upper() if token.kind is Kind.WORD else ""
    name = _SYNONYMS.get(name, name)
    if name not in TYPE_NAMES:
        cursor.fail(["a type"], nearest(token.value, TYPE_NAMES).strip())
    cursor.advance()
    if name in _NESTED:
        return _nested(cursor, name, depth)
    if name == "DOUBLE":
        cursor.take("PRECISION")
    args = _arguments(cursor, name) if name in _ARGUMENTS and cursor.at("(") else ()
    return FlinkType(_with_zone(cursor, name), args)


def _arguments(cursor: Cursor, name: str) -> tuple[int, ...]:
    token = cursor.token
    args = cursor.listed(lambda: cursor.number("a length or precision"))
    if len(args) > _ARGUMENTS[name]:
        cursor.refuse(f"{name} has at most {_ARGUMENTS[name]} numbers in brackets, got {len(args)}.", token)
    if name in _LIMITS and args[0] > _LIMITS[name]:
        cursor.refuse(f"the precision of {name} is at most {_LIMITS[name]}, got {args[0]}.", token)
    if name in _FROM_ONE and args[0] < 1:
        cursor.refuse(f"the length or precision of {name} is at least 1, got {args[0]}.", token)
    if name == "DECIMAL" and args[-1] > args[0]:
        cursor.refuse(f"DECIMAL has at most {args[0]} digits behind the point here, got {args[-1]}.", token)
    return args


def _with_zone(cursor: Cursor, name: str) -> str:
    if name in ("TIME", "TIMESTAMP"):
        cursor.take("WITHOUT TIME ZONE")
    if name == "TIMESTAMP" and cursor.take("WITH LOCAL TIME ZONE"):
        return "TIMESTAMP_LTZ"
    if name == "TIMESTAMP" and cursor.at("WITH TIME ZONE"):
        cursor.refuse("Flink has no TIMESTAMP WITH TIME ZONE. Use TIMESTAMP_LTZ.")
    return name


def _nested(cursor: Cursor, name: str, depth: int) -> FlinkType:
    if name == "INTERVAL":
        return FlinkType(name, unit=_interval(cursor))
    if name == "RAW":
        cursor.refuse("RAW types hold serialized Java objects, which Spark cannot read. Use BYTES.")
    if name == "ROW":
        return FlinkType(name, fields=_fields(cursor, depth))
    cursor.expect("<")
    elements = [parse_type(cursor, depth)]
    if name == "MAP":
        cursor.expect(",")
        elements.append(parse_type(cursor, depth))
    cursor.expect(">")
    return FlinkType(name, elements=tuple(elements))


def _fields(cursor: Cursor, depth: int) -> tuple[Field, ...]:
    if cursor.at("("):
        return cursor.listed(lambda: _field(cursor, depth))
    if cursor.take("<>"):
        return ()
    cursor.expect("<")
    fields = [_field(cursor, depth)]
    while not cursor.take(">"):
        if not cursor.take(","):
            cursor.fail([",", ">"])
        fields.append(_field(cursor, depth))
    return tuple(fields)


def _field(cursor: Cursor, depth: int) -> Field:
    name = cursor.identifier("the name of a field")
    kind = parse_type(cursor, depth)
    comment = cursor.text("a comment in quotes") if cursor.token.kind is Kind.TEXT else None
    return Field(name, kind, comment)


def _interval(cursor: Cursor) -> str:
    unit = _unit(cursor)
    return f"{unit} TO {_unit(cursor)}" if cursor.take("TO") else unit


def _unit(cursor: Cursor) -> str:
    if not any(cursor.at(unit) for unit in _UNITS):
        cursor.fail(_UNITS)
    unit = cursor.advance().value.upper()
    if cursor.at("("):
        cursor.listed(lambda: cursor.number("a precision"))
    return unit
