"""Refuse unknown options, or warn about them, and suggest the known name.

Runs on the driver. In Flink's dialect an unknown option is an error, as in Flink. In Spark's dialect it is a
warning, because Spark's own source ignores unknown options; but a misspelt name is an error there too.
Invariant: a suggested name can be set in the dialect in use.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from penstock.errors import OptionError
from penstock.options._spark import SPARK_ADDED_OPTIONS, SPARK_OPTIONS, SUBSCRIBE
from penstock.options.declare import Dialect, Option, Side, Status
from penstock.options.flink import FLINK_OPTIONS, TOPIC
from penstock.options.option_names import PROPERTY_PREFIX, spelled, worded
from penstock.options.properties import PROPERTIES, Handling, Property
from penstock.options.properties.foreign import advice_for
from penstock.options.spelling import misspelt, nearest
from penstock.options.warn import warn_once

_log = logging.getLogger("penstock.options")

OPTIONS: tuple[Option[Any], ...] = FLINK_OPTIONS + SPARK_OPTIONS + SPARK_ADDED_OPTIONS
_NAMED = {option.key: option for option in OPTIONS if not option.key.endswith("*")}


@dataclass(frozen=True)
class _Finding:
    """The suggestion for an unknown name: a name `meant` that can be set, or a sentence of advice."""

    is_misspelt: bool
    meant: str | None = None
    advice: str | None = None

    def sentence(self, key: str) -> str:
        # Spark gives names in lower case, so the user may not find this name in the program.
        case = bool(self.meant) and self.meant != str(self.meant).lower() and key == key.lower()
        note = " (Spark gives names in lower case)" if case else ""
        hint = f" Did you mean '{self.meant}'?" if self.meant else ""
        if self.advice:
            hint = f" {self.advice[0].upper()}{self.advice[1:]}."
        return f"Option '{key}'{note} is not known.{hint}"


def judge_options(keys: Iterable[str], dialect: Dialect, side: Side) -> None:
    """Refuse unknown options, or warn about them.

    Args:
        keys: of the unknown options, as Spark gives them.
        dialect: of the other options.
        side: SOURCE or SINK; BOTH for a table of which neither is known yet.

    Raises:
        OptionError: in Flink's dialect for any unknown option, in Spark's for a misspelt one.
    """
    findings = {key: _finding(key, dialect, side) for key in sorted(keys)}
    is_flinks = dialect is Dialect.FLINK
    wrong = {key: found for key, found in findings.items() if is_flinks or found.is_misspelt}
    if wrong:
        parts = [found.sentence(key) for key, found in wrong.items()]
        if is_flinks and not all(found.meant or found.advice for found in wrong.values()):
            names = ", ".join(f"'{key}'" for key in supported_keys(dialect, side))
            parts.append(f"Supported options of a {side.value}: {names}, and those of formats.")
        parts.append("Nothing was read or written.")
        meant = {key: found.meant for key, found in wrong.items()}
        raise OptionError(" ".join(parts), options=tuple(wrong), meant=meant)
    for key, found in findings.items():
        warn_once(_log, f"{found.sentence(key)} It is ignored.")


def judge_property(name: str, dialect: Dialect) -> None:
    """Refuse a property that Kafka's Java clients do not have, or warn about it.

    Args:
        name: without the dialect's prefix.
        dialect: of the options.

    Raises:
        OptionError: the name misspells a known property.
    """
    key = PROPERTY_PREFIX[dialect] + name
    meant = misspelt(name, PROPERTIES)
    found = _of_property(name, meant or nearest(name, PROPERTIES), dialect, is_misspelt=meant is not None)
    if found.is_misspelt:
        text = f"{found.sentence(key)} Nothing was read or written."
        raise OptionError(text, option=key, meant=found.meant)
    none = "" if found.meant or found.advice else " Kafka's Java clients have no such property."
    warn_once(_log, f"{found.sentence(key)}{none} It is ignored.")


def supported_keys(dialect: Dialect, side: Side) -> list[str]:
    """Return the options that a source, a sink, or one of them accepts in a dialect."""
    return sorted(
        option.key
        for option in FLINK_OPTIONS + SPARK_OPTIONS
        if option.dialect in (dialect, Dialect.SHARED)
        and (side is Side.BOTH or option.side in (side, Side.BOTH))
        and option.status is Status.SUPPORTED
        and not _is_of_format(option)
    )


def _is_of_format(option: Option[Any]) -> bool:
    return option.dialect is Dialect.SHARED and option.key.endswith("*")


def _finding(key: str, dialect: Dialect, side: Side) -> _Finding:
    lower, prefix = key.lower(), PROPERTY_PREFIX[dialect]
    if lower in PROPERTIES:
        return _of_property(lower, lower, dialect, is_misspelt=False)
    with_prefix = {prefix + name: name for name in PROPERTIES}
    meant = misspelt(lower, [*_NAMED, *with_prefix])
    if meant in with_prefix:
        return _of_property(lower, with_prefix[meant], dialect, is_misspelt=True)
    if meant is not None:
        return _of_option(_NAMED[meant], dialect, side)
    if advice_for(lower):
        return _of_property(lower, None, dialect, is_misspelt=False)
    supported = [key for key in supported_keys(dialect, side) if not key.endswith("*")]
    return _Finding(is_misspelt=False, meant=nearest(lower, [*supported, *with_prefix]))


def _of_property(name: str, meant: str | None, dialect: Dialect, *, is_misspelt: bool) -> _Finding:
    foreign = advice_for(name)
    if foreign is not None:
        return _Finding(is_misspelt, advice=worded(foreign, dialect))
    if meant is None:
        return _Finding(is_misspelt)
    key, refusal = PROPERTY_PREFIX[dialect] + meant, refusal_of(PROPERTIES[meant], dialect)
    if refusal is not None:
        return _Finding(is_misspelt, advice=f"'{key}' cannot be set: {worded(refusal, dialect)}")
    return _Finding(is_misspelt, meant=key)


def _of_option(option: Option[Any], dialect: Dialect, side: Side) -> _Finding:
    """Return the suggestion for a name that misspells this option."""
    if option.status is Status.REFUSED:
        doc = worded(option.doc, dialect).rstrip(".")
        return _Finding(is_misspelt=True, advice=f"'{option.key}' is not supported: {doc}")
    if option is TOPIC and dialect is Dialect.SPARK and side is Side.SOURCE:
        return _Finding(is_misspelt=True, meant=SUBSCRIBE.key)
    if option.dialect in (dialect, Dialect.SHARED):
        return _Finding(is_misspelt=True, meant=option.key)
    counterpart = spelled(option.key, dialect)
    if counterpart != option.key:
        return _Finding(is_misspelt=True, meant=counterpart)
    other = option.dialect.value
    return _Finding(
        is_misspelt=True,
        advice=f"leave it out: it looks like a name of {other}'s dialect, but the other options are in "
        f"{dialect.value}'s, which has no such option",
    )


_IN_SPARKS_DIALECT = {
    "auto.offset.reset": "say where a new query begins with 'startingOffsets', and what happens when records "
    "are gone with 'failOnDataLoss'",
    "enable.auto.commit": "Spark's checkpoint keeps the position; only penstock commits offsets, after it",
    "key.deserializer": "keys are read as bytes; decode them with Spark, e.g. CAST(key AS STRING)",
    "value.deserializer": "values are read as bytes; decode them with Spark, e.g. CAST(value AS STRING)",
    "key.serializer": "keys are written as bytes; encode them with Spark, e.g. CAST(key AS BINARY)",
    "value.serializer": "values are written as bytes; encode them with Spark, e.g. to_json",
}


def refusal_of(declared: Property, dialect: Dialect) -> str | None:
    """Return why the property cannot be set in the dialect and what to do; None where it can.

    Spark's dialect refuses what Spark's own source and sink refuse.
    """
    if dialect is Dialect.SPARK and declared.name in _IN_SPARKS_DIALECT:
        return _IN_SPARKS_DIALECT[declared.name]
    if declared.handling is Handling.UNSUPPORTED:
        return declared.doc.rstrip(".")
    return None
