"""The options that the JSON changelog formats share: those of `json`, under their own names.

Runs on the driver.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from penstock.formats.format_options import FormatOptions
from penstock.formats.json.format import (
    DECIMAL_AS_PLAIN_NUMBER,
    IGNORE_NULL_FIELDS,
    IGNORE_PARSE_ERRORS,
    MAP_NULL_KEY_LITERAL,
    MAP_NULL_KEY_MODE,
    TIMESTAMP_STANDARD,
    JsonFormat,
)
from penstock.options.declare import Option

_IGNORE_DOC = (
    "Instead of an error, a field that cannot be converted is null, and a message that is not valid or whose "
    "operation is unknown gives no row. A message that the table was truncated is still an error."
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
    """Read the shared options.

    Raises:
        OptionError: an option has a value that is not allowed.
    """
    texts = {key.replace(name, JsonFormat.name, 1): text for key, text in given.texts.items()}
    return JsonFormat.from_format_options(FormatOptions(given.prefix, texts), name)
