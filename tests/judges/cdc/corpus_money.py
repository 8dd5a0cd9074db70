"""Messages with amounts of money, and with envelopes that two readers of JSON may understand in two ways."""

from __future__ import annotations

from tests.judges.cdc.tables import Read, Row, message

MONEY = {
    "id": "BIGINT",
    "amount": "DECIMAL(10, 2)",
    "balance": "DECIMAL(38, 18)",
    "paid": "BOOLEAN",
    "note": "STRING",
}
_LISTS = {"id": "INT", "ar": "ARRAY<INT>", "m": "MAP<STRING, STRING>", "r": "ROW<a INT, b STRING>"}


def inserted(row: bytes) -> bytes:
    """Return an insert of Debezium with a row as text."""
    return b'{"op":"c","after":{' + row + b"}}"


VALUES: dict[str, bytes | None] = {
    text.decode(): inserted(text)
    for text in (
        b'"id":9223372036854775807', b'"id":-9223372036854775808', b'"id":-9223372036854775809',
        b'"id":"9223372036854775808"', b'"id":18446744073709551617', b'"id":1e18', b'"id":1e19', b'"id":1E0',
        b'"id":9007199254740993.0', b'"id":"1.0"', b'"id":" 1 "', b'"id":"+1"', b'"id":"-0"', b'"id":""', b'"id":"1,000"',
        b'"id":true', b'"id":[1]', b'"id":01', b'"id":+1', b'"id":0x10', b'"id":1_000', b'"id":-',
        b'"amount":1e2', b'"amount":"1E+2"', b'"amount":12e-1', b'"amount":0.005', b'"amount":0.0049999', b'"amount":-0.005',
        b'"amount":2.675', b'"amount":"2.675"', b'"amount":99999999.994', b'"amount":99999999.995', b'"amount":"99999999.995"',
        b'"amount":-0.00', b'"amount":"-0"', b'"amount":" 1.5"', b'"amount":"1.5 "', b'"amount":"1,5"', b'"amount":""',
        b'"amount":true', b'"amount":.5', b'"amount":1.', b'"amount":1e', b'"amount":"NaN"', b'"amount":NaN', b'"amount":1e400',
        b'"amount":1e-400', b'"amount":"1e400"', b'"amount":0.1e1', b'"amount":1234567.123456789012345678901234567890',
        b'"balance":12345678901234567890.123456789012345678', b'"balance":"12345678901234567890.123456789012345678"',
        b'"balance":99999999999999999999.9999999999999999994', b'"balance":99999999999999999999.9999999999999999995',
        b'"balance":123456789012345678901', b'"balance":0.0000000000000000005', b'"balance":0.1234567890123456785', b'"balance":1e-18',
        b'"balance":0.30000000000000004', b'"balance":9007199254740993',
        b'"paid":0', b'"paid":"0"', b'"paid":"1"', b'"paid":"t"', b'"paid":"yes"', b'"paid":" true"', b'"paid":"True"', b'"paid":""',
        b'"note":1.50', b'"note":1e2', b'"note":12345678901234567890', b'"note":""', b'"note":"null"', b'"note":null', b'"note":[]',
        b'"note":false', b'"note":-0.0', b'"note":"\\u0000"', b'"note":"\\/"', b'"note":"\\x"', b'"note":"a\nb"', b'"note":"a\tb"',
    )
}  # fmt: skip

_ONE = b'"id":1,"note":"a"'
ENVELOPES: dict[str, bytes | None] = {
    "escaped name of after": b'{"op":"c","\\u0061fter":{"id":1,"note":"a"}}',
    "escaped name of op": b'{"\\u006fp":"c","after":{"id":1,"note":"a"}}',
    "escaped name of a column": inserted(b'"\\u0069d":1,"note":"a"'),
    "escaped operation": b'{"op":"\\u0063","after":{"id":1,"note":"a"}}',
    "operation with a space": b'{"op":"c ","after":{"id":1,"note":"a"}}',
    "empty operation": b'{"op":"","after":{"id":1,"note":"a"}}',
    "operation is an array": b'{"op":["c"],"after":{"id":1,"note":"a"}}',
    "operation is true": b'{"op":true,"after":{"id":1,"note":"a"}}',
    "After in upper case": b'{"op":"c","After":{"id":1,"note":"a"}}',
    "after, and After": b'{"op":"c","after":{"id":1,"note":"a"},"After":{"id":2,"note":"b"}}',
    "columns in two cases": inserted(b'"id":1,"ID":2,"note":"a","NOTE":"b"'),
    "a name with a space": inserted(b'"id ":1," note":"a"'),
    "an empty name": inserted(b'"":5,"id":1'),
    "after twice, null last": b'{"op":"c","after":{"id":1},"after":null}',
    "after twice, null first": b'{"op":"c","after":null,"after":{"id":1,"note":"a"}}',
    "before twice": b'{"op":"u","before":{"id":1,"note":"x"},"before":{"id":1},"after":{"id":1,"note":"a"}}',
    "amount twice": inserted(b'"id":1,"amount":1,"amount":2'),
    "amount twice, null last": inserted(b'"id":1,"amount":1,"amount":null'),
    "amount twice, odd first": inserted(b'"id":1,"amount":"x","amount":2'),
    "op twice, odd last": b'{"op":"c","after":{"id":1},"op":"x"}',
    "a comma too many": b'{"op":"c","after":{"id":1,}}',
    "a comma too many at the end": b'{"op":"c","after":{"id":1},}',
    "a comment": b'{"op":"c",/* x */"after":{"id":1}}',
    "a brace too many": inserted(_ONE) + b"}",
    "text behind": inserted(_ONE) + b"x",
    "a comma behind": inserted(_ONE) + b",",
    "a zero byte behind": inserted(_ONE) + b"\0",
    "a zero byte before": b"\0" + inserted(_ONE),
    "byte order mark behind": inserted(_ONE) + b"\xef\xbb\xbf",
    "byte order mark twice": b"\xef\xbb\xbf\xef\xbb\xbf" + inserted(_ONE),
    "only a byte order mark": b"\xef\xbb\xbf",
    "the header of a registry before": b"\0\0\0\0\1" + inserted(_ONE),
    "UTF-16": inserted(_ONE).decode().encode("utf-16-le"),
    "Latin-1": inserted(b'"id":1,"note":"\xe9"'),
    "no quotes around a name": b'{op:"c","after":{"id":1}}',
    "transaction marker": message(status="END", id="571", event_count=2, data_collections=[]),
    "schema change": message(source={"db": "shop"}, databaseName="shop", ddl="ALTER TABLE t ADD c INT", tableChanges=[]),
    "signal": message(op="c", after={"id": "signal-1", "type": "log"}),
    "update with empty before": message(op="u", before={}, after={"id": 1}),
    "delete with empty before": message(op="d", before={}),
    "update with after missing": message(op="u", before={"id": 1}),
    "envelope in an envelope": message(op="c", after={"id": 1, "note": {"op": "d", "before": {"id": 2}}}),
    "payload and envelope": message(op="c", after={"id": 1}, payload={"op": "d", "before": {"id": 2}}),
}  # fmt: skip
WITH_SCHEMA: dict[str, bytes | None] = {
    "payload twice": b'{"schema":{},"payload":{"op":"c","after":{"id":1}},"payload":{"op":"c","after":{"id":2}}}',
    "escaped name of payload": b'{"schema":{},"\\u0070ayload":{"op":"c","after":{"id":1}}}',
    "payload and envelope": message(op="c", after={"id": 1}, payload={"op": "d", "before": {"id": 2}}),
    "payload is an array": message(schema={}, payload=[{"op": "c", "after": {"id": 1}}]),
    "operation beside the payload": message(schema={}, op="c", payload={"after": {"id": 1}}),
    "truncate": message(schema={}, payload={"op": "t"}),
    "logical message": message(schema={}, payload={"op": "m", "message": {}}),
    "tombstone": None,
    "null": b"null",
    "trailing text": message(schema={}, payload={"op": "c", "after": {"id": 1}}) + b"x",
}


def canal(kind: bytes, data: bytes, old: bytes | None = None) -> bytes:
    """Return a message of Canal with rows as text."""
    return b'{"data":' + data + b',"old":' + (old or b"null") + b',"type":"' + kind + b'"}'


_TWO = b'[{"id":1,"note":"a"},{"id":2,"note":"b"}]'
CANAL: dict[str, bytes | None] = {
    "three rows, each with a column of its own": canal(
        b"UPDATE", b'[{"id":1,"amount":"1"},{"id":2,"amount":"2"},{"id":3,"amount":"3"}]',
        b'[{"amount":"10"},{"amount":"20"},{"amount":"30"}]',
    ),
    "the first has an empty old": canal(b"UPDATE", _TWO, b'[{},{"note":"x"}]'),
    "the last has an empty old": canal(b"UPDATE", _TWO, b'[{"note":"x"},{}]'),
    "one was null, the other is missing": canal(b"UPDATE", _TWO, b'[{"note":null},{}]'),
    "one was null, the other has another column": canal(b"UPDATE", _TWO, b'[{"note":null},{"amount":"1.00"}]'),
    "both primary keys change": canal(b"UPDATE", _TWO, b'[{"id":10},{"id":20}]'),
    "two rows exchange their keys": canal(b"UPDATE", _TWO, b'[{"id":2},{"id":1}]'),
    "one primary key changes": canal(b"UPDATE", _TWO, b'[{"id":10},{"note":"x"}]'),
    "old is an empty array": canal(b"UPDATE", _TWO, b"[]"),
    "old has null for the second row": canal(b"UPDATE", _TWO, b'[{"note":"x"},null]'),
    "data has null for the second row": canal(b"UPDATE", b'[{"id":1},null]', b"[{},{}]"),
    "data is empty, old is not": canal(b"UPDATE", b"[]", b'[{"note":"x"}]'),
    "delete with empty data": canal(b"DELETE", b"[]"),
    "delete with null data": canal(b"DELETE", b"null"),
    "update with null data": canal(b"UPDATE", b"null", b"[{}]"),
    "row without columns": canal(b"INSERT", b"[{}]"),
    "data is text": canal(b"INSERT", b'"[]"'),
    "data is an array in an array": canal(b"INSERT", b'[[{"id":1}]]'),
    "second row is a number": canal(b"INSERT", b'[{"id":1},5]'),
    "second amount is odd": canal(b"INSERT", b'[{"id":1,"amount":"1"},{"id":2,"amount":"x"},{"id":3,"amount":"3"}]'),
    "second amount of old is odd": canal(b"UPDATE", _TWO, b'[{"amount":"1"},{"amount":"x"}]'),
    "second amount is too large": canal(b"INSERT", b'[{"id":1,"amount":"1"},{"id":2,"amount":"123456789"}]'),
    "escaped name in old": canal(b"UPDATE", _TWO, b'[{"\\u006eote":"x"},{"not\\u0065":null}]'),
    "name in upper case in old": canal(b"UPDATE", _TWO, b'[{"NOTE":"x"},{"Id":5}]'),
    "note twice in old, null first": canal(b"UPDATE", b'[{"id":1,"note":"a"}]', b'[{"note":null,"note":"x"}]'),
    "note twice in data": canal(b"UPDATE", b'[{"id":1,"note":"z","note":"a"}]', b'[{"note":"x"}]'),
    "data twice": b'{"data":[{"id":1}],"data":[{"id":2}],"type":"INSERT"}',
    "type twice": b'{"data":[{"id":1}],"type":"INSERT","type":"DELETE"}',
    "type before the data": b'{"type":"UPDATE","old":[{"note":"x"}],"data":[{"id":1,"note":"a"}]}',
    "DDL that says INSERT": message(data=None, isDdl=True, type="INSERT", sql="..."),
    "isDdl with rows": message(data=[{"id": 1}], isDdl=True, type="INSERT"),
    "CREATE with empty data": canal(b"CREATE", b"[]"),
    "GTID": canal(b"GTID", b"null"),
    "XA": canal(b"XACOMMIT", b"null"),
    "text behind": canal(b"INSERT", b'[{"id":1}]') + b"x",
    "second document": canal(b"INSERT", b'[{"id":1}]') + b"\n" + canal(b"DELETE", b'[{"id":1}]'),
}  # fmt: skip

_WAS = {"ar": [1, None], "m": {"k": "v", "n": None}, "r": {"a": 1, "b": "x"}}
_NOW = {"id": 1, "ar": [2], "m": {"k": "w"}, "r": {"a": 2, "b": "y"}}
OLDS: dict[str, Row] = {
    "all": _WAS,
    "nothing": {},
    "the array": {"ar": [1, None]},
    "the array, was empty": {"ar": []},
    "the array, was null": {"ar": None},
    "the map": {"m": {"k": "v"}},
    "the map, was empty": {"m": {}},
    "the map, was null": {"m": None},
    "the row": {"r": {"a": 1, "b": "x"}},
    "the row, a field is missing": {"r": {"a": 1}},
    "the row, a field was null": {"r": {"a": 1, "b": None}},
    "the row, was empty": {"r": {}},
    "the row, was null": {"r": None},
    "a column of another table": {"z": {"y": [1]}},
}
CANAL_NESTED: dict[str, bytes | None] = {
    label: message(type="UPDATE", data=[_NOW], old=[old]) for label, old in OLDS.items()
}
CANAL_NESTED |= {
    f"{label}, and the row of the other": message(type="UPDATE", data=[_NOW, {**_NOW, "id": 2}], old=[old, {"r": {"a": 7}}])
    for label, old in OLDS.items()
}  # fmt: skip
MAXWELL_NESTED: dict[str, bytes | None] = {
    label: message(type="update", data=_NOW, old=old) for label, old in OLDS.items()
}
MAXWELL: dict[str, bytes | None] = {
    "escaped name in old": b'{"type":"update","data":{"id":1,"note":"a"},"old":{"\\u006eote":null}}',
    "name in upper case in old": b'{"type":"update","data":{"id":1,"note":"a"},"old":{"NOTE":"x"}}',
    "note twice in old, null first": b'{"type":"update","data":{"id":1,"note":"a"},"old":{"note":null,"note":"x"}}',
    "old twice": b'{"type":"update","data":{"id":1,"note":"a"},"old":{"note":"x"},"old":{"amount":1}}',
    "old twice, null last": b'{"type":"update","data":{"id":1,"note":"a"},"old":{"note":"x"},"old":null}',
    "data twice": b'{"type":"insert","data":{"id":1},"data":{"id":2}}',
    "type twice": b'{"type":"insert","data":{"id":1},"type":"delete"}',
    "empty old": message(type="update", data={"id": 1, "note": "a"}, old={}),
    "old is an array": message(type="update", data={"id": 1}, old=[{}]),
    "old of an insert is odd": message(type="insert", data={"id": 1}, old={"id": "x"}),
    "amount was too large": b'{"type":"update","data":{"id":1,"amount":1},"old":{"amount":123456789}}',
    "amount was text": message(type="update", data={"id": 1, "amount": 1}, old={"amount": "2.50"}),
    "amount had more digits": message(type="update", data={"id": 1, "amount": 1}, old={"amount": 2.505}),
    "primary key and amount": message(
        type="update", data={"id": 2, "amount": 1}, old={"id": 1, "amount": None}
    ),
    "data is empty": message(type="update", data={}, old={"id": 1}),
    "delete without data": message(type="delete", old={"id": 1}),
    "control": message(type="heartbeat", ts=1),
    "text behind": message(type="insert", data={"id": 1}) + b"x",
}
OGG: dict[str, bytes | None] = {
    "escaped names": b'{"op_t\\u0079pe":"U","\\u0062efore":{"id":1},"after":{"id":1,"note":"a"}}',
    "before twice": b'{"op_type":"U","before":{"id":1,"note":"x"},"before":{"id":2},"after":{"id":1}}',
    "before in upper case": b'{"op_type":"U","Before":{"id":1},"after":{"id":1}}',
    "change of the key": message(
        op_type="U", before={"id": 1, "amount": "1.00"}, after={"id": 2, "amount": "1.00"}
    ),
    "before is empty": message(op_type="U", before={}, after={"id": 1}),
    "amount as text": message(op_type="I", after={"id": "1", "amount": "1.005", "balance": "1E-18"}),
    "amount too large": message(
        op_type="U", before={"id": 1, "amount": 1}, after={"id": 1, "amount": 123456789}
    ),
    "operation with a space": message(op_type="I ", after={"id": 1}),
    "empty operation": message(op_type="", after={"id": 1}),
    "text behind": message(op_type="I", after={"id": 1}) + b"x",
    "tombstone": None,
}

_LENIENT = "ignore-parse-errors"
_TABLES: list[tuple[str, str, dict[str, str], dict[str, bytes | None], dict[str, str]]] = [
    ("debezium", "debezium-json", MONEY, VALUES, {}),
    ("envelopes", "debezium-json", MONEY, ENVELOPES, {}),
    ("with schema", "debezium-json", MONEY, WITH_SCHEMA, {"debezium-json.schema-include": "true"}),
    ("canal", "canal-json", MONEY, CANAL, {}),
    ("canal nested", "canal-json", _LISTS, CANAL_NESTED, {}),
    ("maxwell", "maxwell-json", MONEY, MAXWELL, {}),
    ("maxwell nested", "maxwell-json", _LISTS, MAXWELL_NESTED, {}),
    ("ogg", "ogg-json", MONEY, OGG, {}),
]
READS = [
    Read(f"money, {label}{', lenient' if more else ''}", name, columns, messages, options | more)
    for label, name, columns, messages, options in _TABLES
    for more in ({}, {f"{name}.{_LENIENT}": "true"})
]
