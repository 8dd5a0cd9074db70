"""Make specifications of tables and formats from a few options, with the parser of users' options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

from penstock.formats import Format, format_of
from penstock.options.parse import parse_read, parse_write
from penstock.options.parse_table import format_spec
from penstock.options.table_spec import DeserializerSpec, FormatSpec, TableSpec

_ANY_SOURCE = {"properties.bootstrap.servers": "unused:1"}


def read_spec(options: Mapping[str, str]) -> TableSpec | DeserializerSpec | None:
    """What the options of a read say about its table."""
    return parse_read({"topic": "t", **_ANY_SOURCE, **options}, streaming=True).table


def table_spec(options: Mapping[str, str]) -> TableSpec:
    """Return the same for a table with formats."""
    found = read_spec(options)
    assert isinstance(found, TableSpec)
    return found


def write_spec(options: Mapping[str, str]) -> TableSpec | None:
    """What the options of a write say about its table."""
    return parse_write({**_ANY_SOURCE, **options}).table


def spec_of(name: str, options: Mapping[str, str] | None = None, prefix: str = "") -> FormatSpec:
    """One format's options out of all options of a table."""
    texts = {key.lower(): text for key, text in (options or {}).items()}
    topic = texts.get("topic")
    return format_spec(texts, name, prefix, None if topic is None or ";" in topic else topic)


def format_for(name: str, options: Mapping[str, str] | None = None, prefix: str = "") -> Format:
    """Make the format that a table names."""
    return format_of(spec_of(name, options, prefix))


Made_co = TypeVar("Made_co", covariant=True)


class _Class(Protocol[Made_co]):
    name: Any

    def from_spec(self, spec: FormatSpec) -> Made_co: ...


def from_options(cls: _Class[Made_co], options: Mapping[str, str] | None = None, prefix: str = "") -> Made_co:
    """Make a format of one class."""
    return cls.from_spec(spec_of(cls.name, options, prefix))
