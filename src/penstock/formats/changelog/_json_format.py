"""What the JSON changelog formats share: options, and the decoder and encoder of a tool's messages.

Options are read on the driver; decoders and encoders run on executors. Invariant: frozen and picklable.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import pyarrow as pa

from penstock.formats.base import Decoder, Encoder
from penstock.formats.changelog._json import JsonChangelogDecoder, JsonChangelogEncoder, JsonMessages
from penstock.formats.changelog._json_options import json_of
from penstock.formats.format_options import FormatOptions, options_of
from penstock.formats.json.format import JsonFormat
from penstock.formats.native_rows import check_schema
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
        """Read the format's options.

        Raises:
            OptionError: an option is unknown or has a value that is not allowed.
        """
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
        return JsonChangelogEncoder(self.messages(), schema)
