"""Find the text that Debezium writes in place of a value that it does not know.

PostgreSQL keeps large values apart (TOAST). If an update does not change such a value and the table's REPLICA
IDENTITY is not FULL, the log does not have it. Runs on executors; pure. Invariant: the placeholder is found
in each type in which Debezium writes it: text, bytes, lists of texts, bytes or integers, and maps.
"""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

PLACEHOLDER = b"__debezium_unavailable_value"


def unavailable(column: pa.Array, placeholder: bytes) -> pa.Array | None:
    """Return which values are the placeholder; None if no value is."""
    kind = column.type
    if kinds.is_string(kind) or kinds.is_binary(kind):
        forms = forms_of(placeholder) if kinds.is_string(kind) else [placeholder]
        found = pc.is_in(column, value_set=pa.array(forms, kind))
        return found if pc.any(found).as_py() else None
    if kinds.is_map(kind):
        pair = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
        lists = column.cast(pa.list_(pair))
        return _of_items(lists, unavailable(lists.flatten().field(0), placeholder))
    if not kinds.is_list(kind):
        return None
    if _is_number(kind.value_type):
        return _of_numbers(column, placeholder)
    return _of_items(column, unavailable(column.flatten(), placeholder))


@cache
def forms_of(placeholder: bytes) -> list[str]:
    """Return the texts that Debezium makes of the placeholder, by the type and the mode of the column."""
    plain = placeholder.decode()
    named = bytearray(hashlib.md5(placeholder, usedforsecurity=False).digest())
    named[6], named[8] = named[6] & 0x0F | 0x30, named[8] & 0x3F | 0x80  # as Java's UUID.nameUUIDFromBytes
    texts = [
        plain,
        json.dumps({plain: plain}, separators=(",", ":"), ensure_ascii=False),  # hstore
        json.dumps({plain: plain}, separators=(",", ":")),
        base64.b64encode(placeholder).decode(),  # bytea, by `binary.handling.mode`
        base64.urlsafe_b64encode(placeholder).decode(),
        placeholder.hex(),
        str(UUID(bytes=bytes(named))),  # an array of uuid
    ]
    # An array whose column is a text: a column that is declared as STRING has the JSON text of its field.
    arrays = [json.dumps([one], ensure_ascii=ascii_only) for one in texts for ascii_only in (True, False)]
    return [*texts, *dict.fromkeys(arrays), f"[{','.join(map(str, _numbers(placeholder)))}]"]


def _numbers(placeholder: bytes) -> list[int]:
    """Return the placeholder as Java's bytes."""
    return [byte - 256 if byte > 127 else byte for byte in placeholder]


def _is_number(kind: pa.DataType) -> bool:
    return any(one(kind) for one in (kinds.is_integer, kinds.is_floating, kinds.is_decimal))


def _of_items(column: pa.Array, found: pa.Array | None) -> pa.Array | None:
    if found is None:
        return None
    parents = pc.list_parent_indices(column).to_numpy(zero_copy_only=False)
    mask: np.ndarray[Any, np.dtype[np.bool_]] = np.zeros(len(column), bool)
    mask[parents[found.to_numpy(zero_copy_only=False)]] = True
    return pa.array(mask)


def _of_numbers(column: pa.Array, placeholder: bytes) -> pa.Array | None:
    """Find lists that hold the placeholder's bytes as numbers."""
    candidates = pc.equal(pc.list_value_length(column), len(placeholder))
    if not pc.any(candidates).as_py():
        return None
    places = pc.indices_nonzero(pc.fill_null(candidates, False)).to_pylist()
    wanted = _numbers(placeholder)
    mask = np.zeros(len(column), bool)
    mask[[place for place in places if column[place].as_py() == wanted]] = True
    return pa.array(mask) if mask.any() else None


def not_in_message(what: str, placeholder: bytes) -> str:
    """Return why a message with the placeholder cannot be read.

    Args:
        what: the column or the field.
        placeholder: that the message has.
    """
    return (
        f"the value of {what} is not in the message ({placeholder.decode()}), because PostgreSQL keeps it "
        "apart (TOAST) and the update did not change it. To write it would replace the value by this text. "
        "Run ALTER TABLE ... REPLICA IDENTITY FULL on the source's table, so that its messages hold all "
        "values, or leave the column out"
    )
