"""Parse the options of a table into a `TableSpec` or `DeserializerSpec`.

Runs on the driver. Invariant: the options of the result do not contradict each other.
`penstock.table._fields` checks them against the columns, and each format checks its own options.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping

from penstock.errors import MissingOptionError, OptionError
from penstock.options import python_objects
from penstock.options._recognise import GivenOptions
from penstock.options._upsert import check_upsert, check_upsert_write, is_upsert, upsert_spec
from penstock.options.config import SinkConfig
from penstock.options.flink import CONNECTOR, TOPIC
from penstock.options.formats import FORMATS
from penstock.options.table import (
    DEAD_LETTER_TOPIC,
    DESERIALIZER,
    EVENT_TIME_ASSIGNER,
    EVENT_TIME_COLUMN,
    FORMAT,
    FORMAT_OPTIONS,
    KEY_FIELDS,
    KEY_FIELDS_PREFIX,
    KEY_FORMAT,
    MAX_SHARE,
    METADATA_COLUMNS,
    ON_DECODE_ERROR,
    PRIMARY_KEY,
    ROW_FILTER,
    TABLE_OPTIONS,
    VALUE_FIELDS_INCLUDE,
    VALUE_FORMAT,
)
from penstock.options.table_spec import (
    RECORD_TIMESTAMP,
    BadRecordsSpec,
    Connector,
    DeserializerSpec,
    EventTimeSpec,
    FieldsInclude,
    FormatSpec,
    OnDecodeError,
    TableSpec,
)

DeadLetters = Callable[[str], SinkConfig]
"""Makes the config that writes dead letters to a topic."""

_FORMAT_PREFIXES = tuple(option.key.removesuffix("*") for option in FORMAT_OPTIONS)
_OF_DESERIALIZERS = frozenset(
    option.key
    for option in (
        DESERIALIZER,
        ON_DECODE_ERROR,
        MAX_SHARE,
        DEAD_LETTER_TOPIC,
        EVENT_TIME_COLUMN,
        EVENT_TIME_ASSIGNER,
    )
)
_NAMES = tuple(entry.name for entry in FORMATS)


def has_table(given: GivenOptions) -> bool:
    """Return whether the options describe a table, and not keys and values as bytes.

    Raises:
        OptionError: the options of an upsert table are not complete, or another table has them.
    """
    check_upsert(given)
    is_set = any(given.has(option) for option in TABLE_OPTIONS)
    return is_set or any(_format_prefix(key) for key in given.texts)


def read_table(given: GivenOptions, dead_letters: DeadLetters) -> TableSpec | DeserializerSpec:
    """Parse the table of a read.

    Raises:
        OptionError: a value is not allowed, or options contradict each other.
        MissingOptionError: the format for values or the topic for dead letters is missing.
    """
    if given.has(DESERIALIZER):
        return _deserializer(given, dead_letters)
    return _table(given, _bad_records(given, dead_letters))


def write_table(given: GivenOptions) -> TableSpec:
    if is_upsert(given):
        check_upsert_write(given)
    return _table(given, BadRecordsSpec())


def format_spec(
    texts: Mapping[str, str], name: str, prefix: str = "", topic: str | None = None
) -> FormatSpec:
    """Return a format with its options, picked from all options, whose keys are in lower case.

    Raises:
        OptionError: the format is unknown.
        UnsupportedOptionError: Flink has the format and penstock does not have it yet.
    """
    canonical = _known_format(name, f"{prefix}format")
    start = f"{prefix}{canonical}."
    items = ((key.removeprefix(prefix), text) for key, text in texts.items() if key.startswith(start))
    return FormatSpec(canonical, prefix, tuple(sorted(items)), topic)


def _table(given: GivenOptions, bad_records: BadRecordsSpec) -> TableSpec:
    include = FieldsInclude(given.value_or_default(VALUE_FIELDS_INCLUDE))
    upsert = upsert_spec(given)
    key_fields = given.value(KEY_FIELDS if upsert is None else PRIMARY_KEY) or ()
    _check_key_options(given, key_fields, include)
    topic = _one_topic(given)
    value_format = _value_format(given, topic)
    key_name = given.text(KEY_FORMAT)
    _check_format_options(given)
    return TableSpec(
        value_format=value_format,
        connector=connector_of(given),
        key_format=None if key_name is None else format_spec(given.texts, key_name, "key.", topic),
        key_fields=key_fields,
        key_fields_prefix=given.value(KEY_FIELDS_PREFIX) or "",
        fields_include=include,
        metadata_columns=given.value(METADATA_COLUMNS),
        bad_records=bad_records,
        event_time=_event_time(given),
        upsert=upsert,
        row_filter=given.value(ROW_FILTER) or (),
    )


def _deserializer(given: GivenOptions, dead_letters: DeadLetters) -> DeserializerSpec:
    text = given.text(DESERIALIZER) or ""
    python_objects.DESERIALIZER.split(text, DESERIALIZER.key)
    others = {option.key for option in TABLE_OPTIONS} - _OF_DESERIALIZERS
    for key in given.texts:
        if key in others or _format_prefix(key):
            raise OptionError(
                f"Option '{key}' is for reads with a format, but '{DESERIALIZER.key}' makes the rows of "
                "this read. Leave one of them out.",
                option=key,
            )
    return DeserializerSpec(text, connector_of(given), _bad_records(given, dead_letters), _event_time(given))


def _event_time(given: GivenOptions) -> EventTimeSpec | None:
    column, assigner = given.text(EVENT_TIME_COLUMN), given.text(EVENT_TIME_ASSIGNER)
    if column is None:
        if assigner is not None:
            raise MissingOptionError(
                f"Option '{EVENT_TIME_ASSIGNER.key}' needs '{EVENT_TIME_COLUMN.key}': the column to fill.",
                option=EVENT_TIME_COLUMN.key,
            )
        return None
    if assigner not in (None, RECORD_TIMESTAMP):
        python_objects.ASSIGNER.split(assigner or "", EVENT_TIME_ASSIGNER.key)
    return EventTimeSpec(column, assigner)


def connector_of(given: GivenOptions) -> Connector:
    word: str | None = given.value(CONNECTOR)
    return Connector(word or Connector.PENSTOCK.value)


def _one_topic(given: GivenOptions) -> str | None:
    topic = (given.text(TOPIC) or "").strip().strip(";")
    return topic if topic and ";" not in topic else None


def _format_prefix(key: str) -> str | None:
    """Return the beginning of the name of a format's option, e.g. `key.json.`; None for another option."""
    return next((prefix for prefix in _FORMAT_PREFIXES if key.startswith(prefix)), None)


def _known_format(name: str, key: str) -> str:
    canonical = name.strip().lower()
    if canonical not in _NAMES:
        near = difflib.get_close_matches(canonical, _NAMES, n=1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        raise OptionError(
            f"Option '{key}' cannot be '{name}'.{hint} Formats: {', '.join(_NAMES)}.",
            option=key,
        )
    return canonical


def check_one_value_format(given: GivenOptions) -> None:
    """Check that the format of values is not named twice.

    Raises:
        OptionError: it is.
    """
    if given.has(FORMAT) and given.has(VALUE_FORMAT):
        raise OptionError(
            f"Options '{FORMAT.key}' and '{VALUE_FORMAT.key}' mean the same: set one of them.",
            option=VALUE_FORMAT.key,
        )


def _value_format(given: GivenOptions, topic: str | None) -> FormatSpec:
    check_one_value_format(given)
    name, value_name = given.text(FORMAT), given.text(VALUE_FORMAT)
    if name is not None:
        return format_spec(given.texts, name, "", topic)
    if value_name is not None:
        return format_spec(given.texts, value_name, "value.", topic)
    raise MissingOptionError(
        f"A table needs a format for its values: set '{FORMAT.key}' or '{VALUE_FORMAT.key}'.",
        option=VALUE_FORMAT.key,
    )


def _check_format_options(given: GivenOptions) -> None:
    """Refuse options of a format that is not in use, because they would have no effect."""
    names = {option.key: given.text(option) for option in (FORMAT, KEY_FORMAT, VALUE_FORMAT)}
    used = {
        f"{key.removesuffix('format')}{name.strip().lower()}."
        for key, name in names.items()
        if name is not None
    }
    for key in given.texts:
        prefix = _format_prefix(key)
        if prefix is not None and prefix not in used:
            begins = ", ".join(f"'{one}'" for one in sorted(used))
            raise OptionError(
                f"Option '{key}' is for format '{prefix.removesuffix('.')}', which is not in use. Options of "
                f"the formats in use begin with {begins}.",
                option=key,
            )


def _check_key_options(given: GivenOptions, key_fields: tuple[str, ...], include: FieldsInclude) -> None:
    has_format = given.has(KEY_FORMAT)
    if key_fields and not has_format:
        raise OptionError(
            "Option 'key.fields' names columns of the key, but 'key.format' is not set. Set it, or leave "
            "'key.fields' out.",
            option=KEY_FIELDS.key,
        )
    if has_format and not key_fields:
        raise MissingOptionError(
            "Option 'key.format' needs 'key.fields': the columns that the key holds.", option=KEY_FIELDS.key
        )
    if given.value(KEY_FIELDS_PREFIX) and include is FieldsInclude.ALL:
        raise OptionError(
            "Option 'key.fields-prefix' needs 'value.fields-include' = 'EXCEPT_KEY', because with 'ALL' "
            "the value would have to hold the prefixed columns too.",
            option=KEY_FIELDS_PREFIX.key,
        )


def _bad_records(given: GivenOptions, dead_letters: DeadLetters) -> BadRecordsSpec:
    policy = OnDecodeError(given.value_or_default(ON_DECODE_ERROR))
    topic = given.value(DEAD_LETTER_TOPIC)
    if policy is OnDecodeError.DEAD_LETTER and topic is None:
        raise MissingOptionError(
            f"Option '{ON_DECODE_ERROR.key}' = 'dead-letter' needs '{DEAD_LETTER_TOPIC.key}'.",
            option=DEAD_LETTER_TOPIC.key,
        )
    if policy is not OnDecodeError.DEAD_LETTER and topic is not None:
        raise OptionError(
            f"Option '{DEAD_LETTER_TOPIC.key}' is set, but '{ON_DECODE_ERROR.key}' is not 'dead-letter', so "
            "no bad record would be sent there. Set both, or leave it out.",
            option=DEAD_LETTER_TOPIC.key,
        )
    if policy is OnDecodeError.FAIL and given.has(MAX_SHARE):
        raise OptionError(
            f"Option '{MAX_SHARE.key}' is set, but '{ON_DECODE_ERROR.key}' is 'fail', so the first bad "
            "record stops the query. Leave it out, or set "
            f"'{ON_DECODE_ERROR.key}' to 'skip' or 'dead-letter'.",
            option=MAX_SHARE.key,
        )
    letters = None if topic is None else dead_letters(topic)
    return BadRecordsSpec(policy, given.value_or_default(MAX_SHARE), letters)
