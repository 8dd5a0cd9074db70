"""Changelog messages in JSON (native/json_decode.c), read and written.

Runs on executors. Invariant: a value is one JSON object. Its fields are converted exactly as in `json`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats import _native
from penstock.formats.base import RowFailure, failure, positions
from penstock.formats.changelog._envelopes import ChangelogDecoder, Envelopes, Tool
from penstock.formats.changelog._left_out import json_fields
from penstock.formats.changelog._problems import Problems
from penstock.formats.json.format import JsonFormat
from penstock.formats.native_rows import decoded_rows
from penstock.formats.time_reasons import TimestampStandard
from penstock.options.java_pattern import compile_pattern


@dataclass(frozen=True)
class Filter:
    """Keeps the messages whose text field is matched completely by a regular expression."""

    field: str
    pattern: str
    option: str


@dataclass(frozen=True)
class JsonMessages:
    """How a tool's messages are read: the tool, the options of `json`, the envelope and its filters.

    `wrapper` is the field around the envelope (Debezium's `payload`), None without one.
    """

    name: str
    tool: Tool
    json: JsonFormat
    wrapper: str | None = None
    filters: Sequence[Filter] = ()


class JsonChangelogDecoder(ChangelogDecoder):
    """Decodes JSON messages of one tool."""

    def __init__(self, messages: JsonMessages, schema: pa.Schema, columns: Sequence[str] | None) -> None:
        json = messages.json
        super().__init__(messages.tool, schema, columns, ignores_errors=json.ignore_parse_errors)
        self._messages = messages
        self._standard = TimestampStandard(json.separator, json.standard_option)
        self._schema = self._envelope_schema()

    def _envelope_schema(self) -> pa.Schema:
        inside = {one.name: one for one in self._fields()}
        beside: dict[str, pa.Field] = {}
        for one in self._metadata:
            (inside if one.in_payload else beside).setdefault(one.field.name, one.field)
        if self._messages.wrapper is None:
            return pa.schema([*(inside | beside).values()])
        return pa.schema(
            [pa.field(self._messages.wrapper, pa.struct(list(inside.values()))), *beside.values()]
        )

    def _envelopes(self, values: pa.Array) -> Envelopes:
        problems = Problems()
        wanted, lacking, ignored = self._wanted(values)
        found = decoded_rows(wanted, self._schema, None, self._decoded(wanted, self._schema), self._standard)
        columns = dict(zip(found.rows.schema.names, found.rows.columns, strict=True))
        indices = found.indices()
        if self._messages.wrapper is not None:
            wrapper = columns.pop(self._messages.wrapper)
            inside = {wrapper.type.field(i).name: wrapper.field(i) for i in range(wrapper.type.num_fields)}
            columns |= inside
            problems.add(
                wrapper.is_null(),
                f"the field '{self._messages.wrapper}' is null or missing; messages without a schema need "
                f"'{self._messages.name}.schema-include' = 'false'",
            )
        failures = sorted([*found.failures, *lacking], key=lambda one: one.value_index)
        return Envelopes(wanted, columns, indices, failures, found.ignored_count + ignored, problems)

    def _row_fields(self, values: pa.Array, index: int) -> frozenset[str]:
        rows = self._messages.tool.layout.fields(self._row)
        return json_fields(values[index].as_py(), self._messages.wrapper, [one.name for one in rows])

    def _wanted(self, values: pa.Array) -> tuple[pa.Array, list[RowFailure], int]:
        """Return the values with null for messages of other databases and tables, and what lacks them.

        As in Flink, a message of another table is not converted, because its fields may have other types.
        """
        filters = self._messages.filters
        if not filters:
            return values, [], 0
        schema = pa.schema([pa.field(one.field, pa.string()) for one in filters])
        arrays, count, given_indices, _, _ = self._decoded(values, schema)
        indices = positions(count) if given_indices is None else given_indices
        keeps, lacks = pa.repeat(True, count), pa.repeat(False, count)
        for one, column in zip(filters, arrays, strict=True):
            keeps = pc.and_(keeps, _matches(column, one.pattern))
            lacks = pc.or_(lacks, column.is_null())
        leaves_out = indices.filter(pc.or_(pc.invert(keeps), lacks))
        is_other = pc.is_in(positions(len(values)), value_set=leaves_out)
        lacking = indices.filter(lacks).to_pylist()
        kept = pc.if_else(is_other, pa.scalar(None, values.type), values)
        if self._messages.json.ignore_parse_errors:
            return kept, [], len(lacking)
        names = " or ".join(f"'{one.field}'" for one in filters)
        reason = f"the field {names} is null or missing, and option '{filters[0].option}' needs it"
        return kept, [failure(values, i, reason) for i in lacking], 0

    def _decoded(self, values: pa.Array, schema: pa.Schema) -> _native.Decoded:
        return _native.decode_json(
            values,
            schema,
            fail_on_missing_field=False,
            ignore_parse_errors=self._messages.json.ignore_parse_errors,
            separator=self._messages.json.separator,
            is_one_object=True,
        )


def _matches(column: pa.Array, pattern: str) -> pa.Array:
    """Return whether each text is matched completely; a text that is null or missing is not."""
    distinct = column.dictionary_encode()
    whole = compile_pattern(pattern).fullmatch
    matching = [whole(text) is not None for text in distinct.dictionary.to_pylist()]
    return pc.fill_null(pa.array(matching, pa.bool_()).take(distinct.indices), False)
