"""What the JSON changelog formats share: options, and the decoder and encoder of a tool's messages.

Options are read on the driver; decoders and encoders run on executors. Invariant: frozen and picklable.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

import pyarrow as pa

from penstock.formats.base import Decoder, Encoder
from penstock.formats.changelog._envelopes import envelopes_to_write
from penstock.formats.changelog._json import JsonChangelogDecoder, JsonMessages
from penstock.formats.format_options import FormatOptions, options_of
from penstock.formats.json.format import (
    DECIMAL_AS_PLAIN_NUMBER,
    IGNORE_NULL_FIELDS,
    IGNORE_PARSE_ERRORS,
    MAP_NULL_KEY_LITERAL,
    MAP_NULL_KEY_MODE,
    TIMESTAMP_STANDARD,
    JsonFormat,
)
from penstock.formats.native_rows import NativeEncoder, check_schema
from penstock.options.declare import Option
from penstock.options.table_spec import FormatSpec

_F = TypeVar("_F", bound="JsonChangelogFormat")


@dataclass(frozen=True)
class JsonChangelogFormat(ABC):
    """A tool's messages in JSON, with the options of `json`."""

    name: ClassVar[str]
    metadata: ClassVar[pa.Schema]
    options: ClassVar[Sequence[Option[Any]]]

    json: JsonFormat

    @classmethod
    def from_spec(cls: type[_F], spec: FormatSpec) -> _F:
        given = options_of(cls.options, spec)
        return cls(json_of(given, cls.name), **cls.own_options(given))

    @classmethod
    def own_options(cls, given: FormatOptions) -> dict[str, Any]:
        """Return the fields of this format's own options; errors as `from_spec`."""
        return {}

    @abstractmethod
    def messages(self) -> JsonMessages:
        """Return how the messages are read."""

    def decoder(self, schema: pa.Schema, columns: Sequence[str] | None = None) -> Decoder:
        check_schema(self.name, schema)
        return JsonChangelogDecoder(self.messages(), schema, columns)

    def encoder(self, schema: pa.Schema) -> Encoder:
        check_schema(self.name, schema)
        tool, write = self.messages().tool, self.json.native_encode()
        return NativeEncoder(
            self.name, lambda rows: write(envelopes_to_write(tool, rows, schema.names, self.name))
        )


_IGNORE_DOC = (
    "Instead of an error, a field that cannot be converted is null, and a message that is not valid or whose "
    "operation is unknown gives no row. A message which says that the table was truncated is still an error."
)


def json_options(name: str) -> tuple[Option[Any], ...]:
    """Return the options of `json` that a changelog format has, named after the format."""
    shared: tuple[Option[Any], ...] = (
        replace(IGNORE_PARSE_ERRORS, doc=_IGNORE_DOC),
        TIMESTAMP_STANDARD,
        MAP_NULL_KEY_MODE,
        MAP_NULL_KEY_LITERAL,
        DECIMAL_AS_PLAIN_NUMBER,
        IGNORE_NULL_FIELDS,
    )
    return tuple(replace(one, key=name + one.key.removeprefix(JsonFormat.name)) for one in shared)


def json_of(given: FormatOptions, name: str) -> JsonFormat:
    """Read the shared options. Raises OptionError if an option has a value that is not allowed."""
    texts = {key.replace(name, JsonFormat.name, 1): text for key, text in given.texts.items()}
    return JsonFormat.from_format_options(FormatOptions(given.prefix, texts), name)
