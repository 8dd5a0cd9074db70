"""What a table's options say: formats, key fields, metadata columns, bad records. Spelled as in Flink.

Runs on the driver. Invariant: what is returned is frozen, picklable and free of contradictions that can be
seen without the table's columns; `fields` checks the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from penstock.errors import MissingOptionError, OptionError
from penstock.formats import Format, format_for
from penstock.options import python_objects
from penstock.options.declare import Option
from penstock.options.table import (
    DEAD_LETTER_TOPIC,
    DESERIALIZER,
    FORMAT_OPTIONS,
    KEY_FIELDS,
    KEY_FIELDS_PREFIX,
    MAX_SHARE,
    METADATA_COLUMNS,
    ON_DECODE_ERROR,
    TABLE_OPTIONS,
    VALUE_FIELDS_INCLUDE,
)

T = TypeVar("T")

DEFAULT_MAX_SHARE = MAX_SHARE.type.parse(MAX_SHARE.default)


class FieldsInclude(str, Enum):
    """Whether a value holds the key's fields too (Flink's `value.fields-include`)."""

    ALL = "ALL"
    EXCEPT_KEY = "EXCEPT_KEY"


class OnDecodeError(str, Enum):
    """What becomes of a record that cannot be decoded."""

    FAIL = "fail"
    SKIP = "skip"
    DEAD_LETTER = "dead-letter"


@dataclass(frozen=True)
class TableOptions:
    """What the options of a table say about its records.

    `metadata_columns` None means: the options do not say which columns are metadata.
    """

    value_format: Format
    key_format: Format | None = None
    key_fields: tuple[str, ...] = ()
    key_fields_prefix: str = ""
    fields_include: FieldsInclude = FieldsInclude.ALL
    metadata_columns: tuple[tuple[str, str], ...] | None = None
    on_decode_error: OnDecodeError = OnDecodeError.FAIL
    dead_letter_topic: str | None = None
    max_bad_share: float = DEFAULT_MAX_SHARE


def has_table_options(options: Mapping[str, str]) -> bool:
    """Whether the options ask for a table with formats, rather than for keys and values as bytes."""
    keys = {option.key for option in TABLE_OPTIONS}
    return any(key.lower() in keys or _format_place(key.lower()) for key in options)


@dataclass(frozen=True)
class DeserializerOptions:
    """What the options of a read with a deserializer in Python say."""

    text: str
    on_decode_error: OnDecodeError = OnDecodeError.FAIL
    dead_letter_topic: str | None = None
    max_bad_share: float = DEFAULT_MAX_SHARE


def parse_deserializer_options(options: Mapping[str, str]) -> DeserializerOptions | None:
    """Parse the options of a read with a deserializer in Python; None where there is none.

    Raises:
        OptionError: a value is not allowed, or options contradict each other.
        MissingOptionError: dead letters without a topic.
    """
    texts = {key.lower(): text for key, text in options.items()}
    text = texts.get(DESERIALIZER.key)
    if text is None:
        return None
    python_objects.DESERIALIZER.split(text, DESERIALIZER.key)
    allowed = {DESERIALIZER.key, ON_DECODE_ERROR.key, MAX_SHARE.key, DEAD_LETTER_TOPIC.key}
    others = {option.key for option in TABLE_OPTIONS} - allowed
    for key in texts:
        if key in others or _format_place(key):
            raise OptionError(
                f"Option '{key}' is for reads with a format, and 'scan.deserializer' makes the rows of this "
                "one. Leave one of them out.",
                option=key,
            )
    return DeserializerOptions(text, *_bad_record_options(texts))


def _format_place(key: str) -> str | None:
    """Return where an option of a format stands, e.g. `key.json.`; None for any other option."""
    places = (option.key.removesuffix("*") for option in FORMAT_OPTIONS)
    return next((place for place in places if key.startswith(place)), None)


def parse_table_options(options: Mapping[str, str]) -> TableOptions:
    """Parse the options of a table.

    Args:
        options: All options, keys in any case; those that are not about tables are left alone.

    Raises:
        OptionError: a value is not allowed, or two options contradict each other.
        MissingOptionError: no format for values.
    """
    texts = {key.lower(): text for key, text in options.items()}
    key_fields = _value(KEY_FIELDS, texts) or ()
    prefix = _value(KEY_FIELDS_PREFIX, texts) or ""
    included: str | None = _value(VALUE_FIELDS_INCLUDE, texts)
    include = FieldsInclude(included or FieldsInclude.ALL.value)
    _check_key_options(texts, key_fields, prefix, include)
    on_decode_error, dead_letter_topic, max_bad_share = _bad_record_options(texts)
    value_format = _value_format(options, texts)
    _check_format_options(texts)
    return TableOptions(
        value_format=value_format,
        key_format=format_for(texts["key.format"], options, "key.") if "key.format" in texts else None,
        key_fields=key_fields,
        key_fields_prefix=prefix,
        fields_include=include,
        metadata_columns=_value(METADATA_COLUMNS, texts),
        on_decode_error=on_decode_error,
        dead_letter_topic=dead_letter_topic,
        max_bad_share=max_bad_share,
    )


def _value(option: Option[T], texts: Mapping[str, str]) -> T | None:
    text = texts.get(option.key)
    if text is None:
        return None
    try:
        return option.type.parse(text)
    except ValueError as error:
        raise OptionError(
            f"Option '{option.key}' cannot be '{text}'. Allowed: {error}.", option=option.key, value=text
        ) from None


def _value_format(options: Mapping[str, str], texts: Mapping[str, str]) -> Format:
    if "format" in texts and "value.format" in texts:
        raise OptionError(
            "Options 'format' and 'value.format' say the same thing: set one of them.", option="value.format"
        )
    for key, prefix in (("format", ""), ("value.format", "value.")):
        if key in texts:
            return format_for(texts[key], options, prefix)
    raise MissingOptionError(
        "A table needs a format for its values: set 'format' or 'value.format'.", option="value.format"
    )


def _check_format_options(texts: Mapping[str, str]) -> None:
    """Refuse options of a format that is not in use: each would be passed over in silence."""
    used = {
        f"{key.removesuffix('format')}{texts[key].strip().lower()}."
        for key in ("format", "key.format", "value.format")
        if key in texts
    }
    for key in texts:
        place = _format_place(key)
        if place is not None and place not in used:
            begins = ", ".join(f"'{one}'" for one in sorted(used))
            raise OptionError(
                f"Option '{key}' is for format '{place.removesuffix('.')}', which is not in use. Options of "
                f"the formats in use begin with {begins}.",
                option=key,
            )


def _check_key_options(
    texts: Mapping[str, str], key_fields: tuple[str, ...], prefix: str, include: FieldsInclude
) -> None:
    if key_fields and "key.format" not in texts:
        raise OptionError(
            "Option 'key.fields' names columns of the key, and there is no 'key.format' to read or write "
            "them with. Set it, or leave 'key.fields' out.",
            option="key.fields",
        )
    if "key.format" in texts and not key_fields:
        raise MissingOptionError(
            "Option 'key.format' needs 'key.fields': the columns that the key holds.", option="key.fields"
        )
    if prefix and include is FieldsInclude.ALL:
        raise OptionError(
            "Option 'key.fields-prefix' needs 'value.fields-include' = 'EXCEPT_KEY': with 'ALL' the value "
            "would have to hold the prefixed columns as well.",
            option="key.fields-prefix",
        )


def _bad_record_options(texts: Mapping[str, str]) -> tuple[OnDecodeError, str | None, float]:
    policy: str | None = _value(ON_DECODE_ERROR, texts)
    on_decode_error = OnDecodeError(policy or OnDecodeError.FAIL.value)
    topic = _value(DEAD_LETTER_TOPIC, texts)
    if on_decode_error is OnDecodeError.DEAD_LETTER and topic is None:
        raise MissingOptionError(
            "Option 'scan.on-decode-error' = 'dead-letter' needs 'scan.dead-letter.topic'.",
            option="scan.dead-letter.topic",
        )
    if on_decode_error is not OnDecodeError.DEAD_LETTER and topic is not None:
        raise OptionError(
            "Option 'scan.dead-letter.topic' is set, and 'scan.on-decode-error' does not say 'dead-letter': "
            "bad records would never get there.",
            option="scan.dead-letter.topic",
        )
    max_share = _value(MAX_SHARE, texts)
    if on_decode_error is OnDecodeError.FAIL and max_share is not None:
        raise OptionError(
            f"Option '{MAX_SHARE.key}' is set, and 'scan.on-decode-error' is 'fail': the first bad record "
            "stops the query. Leave it out, or set 'scan.on-decode-error' to 'skip' or 'dead-letter'.",
            option=MAX_SHARE.key,
        )
    return on_decode_error, topic, DEFAULT_MAX_SHARE if max_share is None else max_share
