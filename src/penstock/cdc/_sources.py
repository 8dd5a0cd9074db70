"""What messages say of where their changes come from: the transaction, and the position in the log.

Runs on executors; pure. Invariant: both are known or none is. Only PostgreSQL's connector writes both, and a
row of a snapshot is of no transaction.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.cdc._envelope import row_fields
from penstock.errors import SchemaError
from penstock.formats.base import Decoder, metadata_column
from penstock.formats.changelog.debezium_json import DebeziumJsonFormat

TRANSACTION, POSITION, SNAPSHOT = "txId", "lsn", "snapshot"
"""The fields of `source` in messages of PostgreSQL."""
_PROPERTIES = metadata_column("source.properties")
_NUMBER = "^[0-9]{1,18}$"
_FEW = 8
"""Messages that Python reads more quickly than a decoder."""
_FIRST_LOOK = 8
"""Messages at each end of those of a task whose sources are read first."""


class ReadsSources(Protocol):
    """A format of messages; see `penstock.cdc.messages.MessageFormat`."""

    def sources(self, values: pa.Array) -> Sources:
        """Return where the changes of messages come from."""


@dataclass(frozen=True)
class Sources:
    """Where the changes of messages come from.

    Attributes:
        transactions: of the messages; 0 if it is unknown.
        positions: in the log of the database. They rise within a transaction.
    """

    transactions: npt.NDArray[np.int64]
    positions: npt.NDArray[np.int64]

    @property
    def is_known(self) -> npt.NDArray[np.bool_]:
        """Which messages have both."""
        return self.transactions > 0


class Asked:
    """The sources of some messages, each of which is read once.

    Args:
        messages: the format, or what else reads sources.
        values: of all messages.
    """

    def __init__(self, messages: ReadsSources, values: pa.Array) -> None:
        self._messages = messages
        self._values = values
        self._found = Sources(np.zeros(len(values), np.int64), np.zeros(len(values), np.int64))
        self._is_asked = np.zeros(len(values), np.bool_)

    def of(self, chosen: npt.NDArray[Any]) -> Sources:
        """Return the sources of messages, by their indices."""
        new = np.unique(chosen[~self._is_asked[chosen]])
        if len(new):
            sources = self._messages.sources(self._values.take(pa.array(new)))
            self._found.transactions[new], self._found.positions[new] = (
                sources.transactions,
                sources.positions,
            )
            self._is_asked[new] = True
        return Sources(self._found.transactions[chosen], self._found.positions[chosen])

    def length(self, chosen: npt.NDArray[Any]) -> int:
        """Return how many messages begin with the transaction of the first one; 0 if it is unknown."""
        found, look, transaction = 0, _FIRST_LOOK, 0
        while found < len(chosen):
            sources = self.of(chosen[found : found + look])
            transaction = transaction or int(sources.transactions[0])
            is_other = sources.transactions != transaction
            if not transaction or is_other.any():
                return found + int(np.argmax(is_other)) if transaction else 0
            found, look = found + look, look * 8
        return len(chosen)


def sources_of(fields: Mapping[str, pa.Array], indices: pa.Array, count: int) -> Sources:
    """Return the sources of messages.

    Args:
        fields: TRANSACTION, POSITION and SNAPSHOT of rows, as numbers or texts.
        indices: the message of each row.
        count: of messages.
    """
    transactions, positions = (_numbers(fields[name]) for name in (TRANSACTION, POSITION))
    is_change = pc.fill_null(pc.equal(fields[SNAPSHOT].cast(pa.string()), "false"), True)
    is_known = (transactions > 0) & (positions > 0) & is_change.to_numpy(zero_copy_only=False)
    found = Sources(np.zeros(count, np.int64), np.zeros(count, np.int64))
    places = indices.to_numpy(zero_copy_only=False)[is_known]
    found.transactions[places], found.positions[places] = transactions[is_known], positions[is_known]
    return found


def _of_few(values: list[bytes | None]) -> Sources:
    found = Sources(np.zeros(len(values), np.int64), np.zeros(len(values), np.int64))
    for at, value in enumerate(values):
        message = json.loads(value or b"{}")
        source = message.get("payload", message).get("source") or {}
        transaction, position = source.get(TRANSACTION), source.get(POSITION)
        is_change = source.get(SNAPSHOT, "false") in ("false", None)
        if is_change and isinstance(transaction, int) and isinstance(position, int):
            found.transactions[at], found.positions[at] = transaction, position
    return found


def _numbers(column: pa.Array) -> npt.NDArray[np.int64]:
    texts = column.cast(pa.string())
    is_number = pc.fill_null(pc.match_substring_regex(texts, _NUMBER), False)
    found = pc.if_else(is_number, texts, "0").cast(pa.int64())
    return found.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def source_decoder(messages: DebeziumJsonFormat) -> Decoder:
    """Return what reads the sources of JSON messages, for `sources_in`."""
    return replace(messages, needs_before=False).decoder(pa.schema([]), [_PROPERTIES])


def sources_in(decoder: Decoder, values: pa.Array) -> Sources:
    """Return the sources of JSON messages."""
    if len(values) <= _FEW:
        return _of_few(values.to_pylist())
    found = decoder.decode(values)
    column = found.rows.column(_PROPERTIES)
    fields = {name: pc.map_lookup(column, name, "first") for name in (TRANSACTION, POSITION, SNAPSHOT)}
    return sources_of(fields, found.indices(), len(values))


def with_defaults(schema: Mapping[str, Any]) -> frozenset[str]:
    """Return the columns that have a default, for the schema of a message in the JSON of Kafka Connect."""
    try:
        fields = row_fields(schema)
    except SchemaError:
        return frozenset()
    return frozenset(str(one["field"]) for one in fields if one.get("default") is not None)
