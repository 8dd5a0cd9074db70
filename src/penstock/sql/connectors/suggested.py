"""The options that a table may have, and their values, while its declaration is still being written.

Runs on the driver. Pure. Invariant: nothing is checked, because the text is not complete.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

from penstock.formats.registry import format_class, format_names
from penstock.options.declare import Option, Status
from penstock.options.flink import CONNECTOR, FLINK_OPTIONS
from penstock.options.table import FORMAT, KEY_FORMAT, VALUE_FORMAT
from penstock.sql.connectors import described
from penstock.sql.connectors.datagen.plan import FIELD_OPTIONS, TABLE_OPTIONS
from penstock.sql.connectors.jdbc.settings import OPTIONS as JDBC_OPTIONS

_OPTIONS: dict[type | None, Sequence[str]] = {
    described.Datagen: TABLE_OPTIONS,
    described.Jdbc: JDBC_OPTIONS,
    described.Files: described.FILE_OPTIONS,
    described.Print: (CONNECTOR.key,),
    described.Blackhole: (CONNECTOR.key,),
}
_SET = (Status.SUPPORTED, Status.NO_EFFECT)
_KAFKA: dict[str, Option[object]] = {
    option.key: option for option in FLINK_OPTIONS if option.status in _SET and not option.key.endswith("*")
}


def options_for(given: Mapping[str, str], columns: Sequence[str]) -> Iterable[str]:
    """Return the options that may stand beside those that are given; without a connector those of all."""
    kind = described.kind_of(given)
    if kind not in (None, described.Kafka):
        of_columns = (f"fields.{name}.{each}" for name in columns for each in FIELD_OPTIONS)
        return (*_OPTIONS[kind], *(of_columns if kind is described.Datagen else ()))
    of_formats = (_format_options(given.get(each.key)) for each in (FORMAT, VALUE_FORMAT))
    others = itertools.chain(*_OPTIONS.values()) if kind is None else ()
    return (CONNECTOR.key, *_KAFKA, *itertools.chain(*of_formats), *others)


def _format_options(name: str | None) -> Iterable[str]:
    if name is None or name not in format_names():
        return ()
    try:
        options = format_class(name).options
    except ImportError:  # protobuf is an extra
        return ()
    return (option.key for option in options if option.status in _SET)


def values_for(key: str, given: Mapping[str, str]) -> Iterable[str]:
    """Return the values that an option may have."""
    if key == CONNECTOR.key:
        return described.CONNECTORS
    if key == FORMAT.key and described.kind_of(given) is described.Files:
        return described.FILE_FORMATS
    if key in (FORMAT.key, KEY_FORMAT.key, VALUE_FORMAT.key):
        return format_names()
    if key.startswith("fields.") and key.endswith(".kind"):
        return ("random", "sequence")
    option = _KAFKA.get(key)
    has_words = option is not None and option.type.name in ("boolean", "word")
    return option.type.allowed.split(", ") if option is not None and has_words else ()
