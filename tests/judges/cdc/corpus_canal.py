"""Messages of `canal-json`, in the form that Canal writes into Kafka as a flat message."""

from __future__ import annotations

from typing import Any

from tests.judges.cdc.tables import EVERY_TYPE, GOODS, Read, message

ROPE = {"id": "1", "name": "rope", "weight": "2.25"}
NAIL = {"id": "2", "name": "nail", "weight": None}


def event(kind: Any, data: Any, old: Any = None, database: str = "shop", table: str = "goods") -> bytes:
    """Return a message with all that Canal writes."""
    return message(
        data=data, database=database, es=1735732800000, gtid="", id=9, isDdl=False,
        mysqlType={"id": "int(11)", "name": "varchar(255)", "weight": "double"}, old=old, pkNames=["id"],
        sql="", sqlType={"id": 4, "name": 12, "weight": 8}, table=table, ts=1735732800456, type=kind,
    )  # fmt: skip


def ddl(kind: str, sql: str) -> bytes:
    """Return a message about a statement that changes the schema."""
    return message(
        data=None, database="shop", es=1735732800000, id=3, isDdl=True, mysqlType=None, old=None, pkNames=None,
        sql=sql, sqlType=None, table="goods", ts=1735732800456, type=kind,
    )  # fmt: skip


HISTORY: dict[str, bytes | None] = {
    "insert": event("INSERT", [ROPE]),
    "insert of two rows": event("INSERT", [ROPE, NAIL]),
    "update": event("UPDATE", [ROPE], [{"weight": "2.0"}]),
    "update to null": event("UPDATE", [NAIL], [{"weight": "0.5"}]),
    "update from null": event("UPDATE", [ROPE], [{"weight": None}]),
    "update of two columns": event("UPDATE", [ROPE], [{"name": "cord", "weight": None}]),
    "update of nothing": event("UPDATE", [ROPE], [{}]),
    "update of two rows": event("UPDATE", [ROPE, NAIL], [{"weight": "1"}, {"weight": "2"}]),
    "update of two rows in different columns": event("UPDATE", [ROPE, NAIL], [{"weight": None}, {"name": "x"}]),
    "update of two rows, one from null": event("UPDATE", [ROPE, NAIL], [{"name": None}, {"name": "x"}]),
    "change of the key": event("UPDATE", [{**ROPE, "id": "3"}], [{"id": "1"}]),
    "delete": event("DELETE", [ROPE]),
    "delete of two rows": event("DELETE", [ROPE, NAIL]),
    "numbers as numbers": event("INSERT", [{"id": 1, "name": "rope", "weight": 2.25}]),
    "null value": None,
    "CREATE": ddl("CREATE", "CREATE TABLE goods (id INT PRIMARY KEY)"),
    "only what counts": message(type="DELETE", data=[ROPE]),
}  # fmt: skip

ODD: dict[str, bytes | None] = {
    "empty value": b"",
    **{kind: ddl(kind, "...") for kind in ("ALTER", "ERASE", "QUERY", "TRUNCATE", "RENAME", "CINDEX", "DINDEX")},
    "added column": event("UPDATE", [{**ROPE, "color": "red"}], [{"color": "blue"}]),
    "removed column": event("UPDATE", [{"id": "1", "name": "rope"}], [{"name": "cord"}]),
    "column only in old": event("UPDATE", [{"id": "1"}], [{"name": "cord", "weight": "1"}]),
    "insert without rows": event("INSERT", []),
    "update without rows": event("UPDATE", [], []),
    "insert with null data": event("INSERT", None),
    "insert without data": message(type="INSERT"),
    "insert with old": event("INSERT", [ROPE], [{"weight": "1"}]),
    "delete with old": event("DELETE", [ROPE], [{"weight": "1"}]),
    "update with null old": event("UPDATE", [ROPE]),
    "update without old": message(type="UPDATE", data=[ROPE]),
    "old is shorter": event("UPDATE", [ROPE, NAIL], [{"name": "x"}]),
    "old is longer": event("UPDATE", [ROPE], [{"name": "x"}, {"name": "y"}]),
    "null row": event("INSERT", [ROPE, None]),
    "null row in old": event("UPDATE", [ROPE], [None]),
    "data is an object": event("INSERT", ROPE),
    "old is an object": event("UPDATE", [ROPE], {"weight": "1"}),
    "row is text": event("INSERT", ["rope"]),
    "text in a number column": event("INSERT", [{**ROPE, "id": "one"}]),
    "text in a number column of the second row": event("DELETE", [ROPE, {**NAIL, "id": "one"}]),
    "text in a number column of old": event("UPDATE", [ROPE], [{"id": "one"}]),
    "empty text in a number column": event("INSERT", [{**ROPE, "weight": ""}]),
    "empty text in a number column of old": event("UPDATE", [ROPE], [{"weight": ""}]),
    "type in lower case": event("insert", [ROPE]),
    "type is null": event(None, [ROPE]),
    "type is missing": message(data=[ROPE]),
    "CREATE with rows": event("CREATE", [ROPE]),
    "CREATE with odd rows": event("CREATE", [{"id": "one"}]),
    "null": b"null",
    "array of messages": b"[" + event("INSERT", [ROPE]) + b"," + event("INSERT", [NAIL]) + b"]",
    "not JSON": b"rope",
    "cut in the data": event("UPDATE", [ROPE], [{"weight": "1"}])[:40],
    "cut in old": event("UPDATE", [ROPE], [{"weight": "1"}])[:220],
    "cut before the last brace": event("UPDATE", [ROPE], [{"weight": "1"}])[:-1],
    "repeated name in old": b'{"type":"UPDATE","data":[{"id":1,"name":"a"}],"old":[{"name":"b","name":null}]}',
}  # fmt: skip

NESTED: dict[str, bytes | None] = {
    "only the nested name has changed": event("UPDATE", [{"id": 1, "name": "a", "at": {"name": "x"}}], [{"at": {"name": "y"}}]),
    "a row from null": event("UPDATE", [{"id": 1, "name": "a", "at": {"name": "x"}}], [{"at": None}]),
    "a row to null": event("UPDATE", [{"id": 1, "name": "a", "at": None}], [{"at": {"name": "y"}}]),
    "the name of an unknown column inside": event("UPDATE", [{"id": 1, "name": "a"}], [{"extra": {"id": 5}}]),
}  # fmt: skip

FILTERED: dict[str, bytes | None] = {
    "both match": event("INSERT", [ROPE]),
    "both match, other names": event("INSERT", [ROPE], None, "store", "goods2"),
    "only a part of the database matches": event("INSERT", [ROPE], None, "shops"),
    "only a part of the table matches": event("INSERT", [ROPE], None, "shop", "nogoods"),
    "database in upper case": event("INSERT", [ROPE], None, "SHOP"),
    "another table with odd rows": event("INSERT", [{"id": "one"}], None, "shop", "others"),
    "another table with an odd type": event("NONSENSE", [ROPE], None, "shop", "others"),
    "TRUNCATE of another table": message(type="TRUNCATE", database="shop", table="others", data=None),
    "no database": message(type="INSERT", table="goods", data=[ROPE]),
    "no table": message(type="INSERT", database="shop", data=[ROPE]),
    "null database": message(type="INSERT", database=None, table="goods", data=[ROPE]),
    "null table, which the pattern does not match": message(type="INSERT", database="shop", table=None, data=[ROPE]),
    "database is a number": message(type="INSERT", database=5, table="goods", data=[ROPE]),
    "null value": None,
    "not JSON": b"rope",
    "cut before the last brace": event("INSERT", [ROPE])[:-1],
}  # fmt: skip

METADATA: dict[str, bytes | None] = {
    "insert": event("INSERT", [ROPE, NAIL]),
    "update": event("UPDATE", [ROPE], [{"weight": "1"}]),
    "nothing": message(type="INSERT", data=[ROPE]),
    "nulls": message(type="INSERT", data=[ROPE], database=None, table=None, sqlType=None, pkNames=None, ts=None, es=None),
    "no keys": message(type="INSERT", data=[ROPE], pkNames=[], sqlType={}),
    "several keys": message(type="INSERT", data=[ROPE], pkNames=["a", None, 5], sqlType={"b": -7, "a": "4", "n": None}),
    "sqlType is text": message(type="INSERT", data=[ROPE], sqlType="x"),
    "a type that is not a number": message(type="INSERT", data=[ROPE], sqlType={"id": "int"}),
    "time as text": message(type="INSERT", data=[ROPE], ts="1735732800456"),
    "time is not a number": message(type="INSERT", data=[ROPE], es="soon"),
    "database is a number": message(type="INSERT", data=[ROPE], database=5),
}  # fmt: skip

CONVERTED = {
    "bo": "1", "ti": "-128", "sm": "32767", "i": "-1", "l": "9007199254740993", "f": "0.1", "d": "1e-300",
    "de": "12345678.91", "s": "x", "by": "AAECAw==", "da": "2024-02-29", "tm": "23:59:59",
    "ts": "2024-02-29 23:59:59.123456", "tz": "1969-12-31 23:59:59.5Z",
}  # fmt: skip
TYPES: dict[str, bytes | None] = {
    "all": event("INSERT", [{**CONVERTED, "bo": "true"}]),
    "boolean as MySQL has it": event("INSERT", [{"bo": "1"}]),
    "all were null": event("UPDATE", [{**CONVERTED, "bo": "true"}], [dict.fromkeys(EVERY_TYPE)]),
    "all to null": event("UPDATE", [dict.fromkeys(EVERY_TYPE)], [{**CONVERTED, "bo": "false"}]),
    "decimal rounded": event("UPDATE", [{"de": "1.005"}], [{"de": "1.015"}]),
    "time of MySQL without fraction": event("INSERT", [{"ts": "2024-02-29 23:59:59"}]),
    "zero date of MySQL": event("INSERT", [{"da": "0000-00-00"}]),
}

_NAME = "canal-json"
_LENIENT = {f"{_NAME}.ignore-parse-errors": "true"}
_INCLUDE = {f"{_NAME}.database.include": "shop|store|5", f"{_NAME}.table.include": "goods.*"}
_NESTED = {"id": "INT", "name": "STRING", "at": "ROW<name STRING>"}

READS = [
    Read("canal", _NAME, GOODS, HISTORY | ODD),
    Read("canal, lenient", _NAME, GOODS, HISTORY | ODD, _LENIENT),
    Read("canal, nested", _NAME, _NESTED, NESTED),
    Read("canal, filtered", _NAME, GOODS, FILTERED, _INCLUDE),
    Read("canal, filtered, lenient", _NAME, GOODS, FILTERED, _INCLUDE | _LENIENT),
    Read("canal, types", _NAME, EVERY_TYPE, TYPES),
    Read("canal, types, lenient", _NAME, EVERY_TYPE, TYPES, _LENIENT),
    Read("canal, metadata", _NAME, GOODS, METADATA, has_metadata=True),
    Read("canal, metadata, lenient", _NAME, GOODS, METADATA, _LENIENT, has_metadata=True),
]
