"""`debezium-json` without schemas: the columns are declared, and the rest of a row may be one JSON text.

Runs on executors, and `source` on the driver. Invariant: a field of a row is in its column, or in the rest,
if there is one. Types cannot be found out from such messages, so they are never guessed. What stands for the
schema of a message are the declared columns, the name of the rest and the fields of the record key.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
import pyarrow as pa

from penstock.cdc._decimals import exact, without_base64
from penstock.cdc._exchanged import Origin
from penstock.cdc._messages import Changes, Schemas, SourceTable
from penstock.cdc._reading import KIND_COLUMN, Bad, Plan
from penstock.cdc._rest import rest_of
from penstock.cdc._unavailable import PLACEHOLDER
from penstock.cdc._with_json import key_names, of_keys, pairs
from penstock.errors import SchemaError
from penstock.formats.changelog.debezium_json import DebeziumJsonFormat


@dataclass(frozen=True)
class DeclaredJson:
    """Debezium's JSON messages without schemas.

    Attributes:
        format: of the messages.
        rest: the column of the fields that are not declared; None to leave them out.
        placeholder: what Debezium writes for a value that it does not know.
        declared: the columns of the tables, by topic, without the rest.
        topic: whose messages are read; "" if `changes` alone is asked.
    """

    format: DebeziumJsonFormat
    rest: str | None = None
    placeholder: bytes = PLACEHOLDER
    declared: Mapping[str, pa.Schema] = field(default_factory=dict, hash=False)
    topic: str = ""
    has_schemas: bool = False

    def of_topic(self, topic: str) -> DeclaredJson:
        """Return how the messages of a topic are read."""
        known = self.declared.get(topic)
        return replace(self, declared={} if known is None else {topic: known}, topic=topic)

    def schemas(self, keys: pa.Array, values: pa.Array) -> Schemas:
        """Return what stands for the schema of each message; see the module."""
        ids = np.full(len(values), -1, np.int32)
        ids[values.is_valid().to_numpy(zero_copy_only=False)] = 0
        return pairs(ids, [self._text()], *of_keys(keys), failures=[])

    def _text(self) -> str:
        columns = self.declared.get(self.topic)
        pairs_of = None if columns is None else [[one.name, str(one.type)] for one in columns]
        return json.dumps([pairs_of, self.rest])

    def source(self, text: str) -> SourceTable:
        """Return the declared table; see `MessageFormat`. Its name is the end of the topic's, as Debezium's.

        Raises:
            SchemaError: no columns are declared for the topic.
        """
        columns = self.declared.get(self.topic)
        if columns is None:
            raise SchemaError(
                f"Topic '{self.topic}' has messages without schemas, which do not say the columns of their "
                "table, and none are declared. Nothing of it was written. Declare them as `columns`, or let "
                "Kafka Connect write schemas ('value.converter.schemas.enable' = 'true') and set "
                "'debezium-json.schema-include' = 'true'.",
                topic=self.topic,
            )
        if self.rest is not None:
            columns = columns.append(pa.field(self.rest, pa.string()))
        _, _, key = text.partition("\n")
        return SourceTable(".".join(self.topic.split(".")[-2:]), columns, key_names(key), self.rest)

    def changes(self, keys: pa.Array, values: pa.Array, columns: pa.Schema) -> Changes:
        """Return the rows of messages; see `MessageFormat`. Old rows (-U, -D) have no rest."""
        declared = pa.schema([one for one in columns if one.name != self.rest])
        plan = _plan(replace(self, declared={}, topic=""), declared.serialize().to_pybytes())
        found = without_base64(plan.changes(values), values)
        if self.rest is None or self.rest not in columns.names:
            return found
        return _with_rest(found, values, columns, self)

    def origin(self, value: bytes) -> Origin:
        """Return nothing: without a schema it is unknown which values Debezium has made up."""
        return Origin()


@lru_cache(maxsize=512)
def _plan(messages: DeclaredJson, columns: bytes) -> Plan:
    wanted = pa.ipc.read_schema(pa.py_buffer(columns))
    kinds = {one.name: exact(one.type) for one in wanted}
    physical = pa.schema([pa.field(name, kind.physical) for name, kind in kinds.items()])
    decoder = replace(messages.format, needs_before=False).decoder(physical, [*physical.names, KIND_COLUMN])
    return Plan(decoder, wanted, kinds, messages.placeholder)


def _with_rest(found: Changes, values: pa.Array, columns: pa.Schema, messages: DeclaredJson) -> Changes:
    """Return changes with one more column: the other fields of each new row."""
    declared = frozenset(name for name in columns.names if name != messages.rest)
    rest = rest_of(declared, messages.placeholder)
    texts: list[str | None] = []
    bad = Bad(values, found.index)
    for message, kind in zip(found.index.to_pylist(), found.kinds.to_pylist(), strict=True):
        text = None
        if kind in ("+I", "+U"):
            try:
                text = rest.text(values[message].as_py())
            except ValueError as error:
                bad.reasons.setdefault(message, str(error))
        texts.append(text)
    column = pa.array(texts, pa.string())
    arrays = [column if one.name == messages.rest else found.rows.column(one.name) for one in columns]
    made = pa.RecordBatch.from_arrays(arrays, schema=columns)
    return bad.left_out(Changes(made, found.kinds, found.index, found.failures))
