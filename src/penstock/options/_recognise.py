"""Find the options that a source or a sink reads among those that Spark or a builder gives.

Runs on the driver. Invariant: every key is read, ignored because it belongs to the other side, judged by
`unknown`, or refused because ignoring it would change the data.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from penstock.errors import MissingOptionError, OptionError, UnsupportedOptionError
from penstock.options._spark import SPARK_ADDED_OPTIONS
from penstock.options.config import KafkaProperties
from penstock.options.declare import Dialect, Option, Side, Status, or_default, parse_value
from penstock.options.flink import TOPIC
from penstock.options.option_names import PROPERTY_PREFIX, worded
from penstock.options.properties import PROPERTIES, ClientRole, Handling, Property
from penstock.options.properties.references import DETAILS, can_refer, has_reference, providers_of
from penstock.options.spelling import misspelt
from penstock.options.unknown import OPTIONS, judge_options, judge_property, refusal_of

T = TypeVar("T")

_EXACT = {option.key.lower(): option for option in OPTIONS if not option.key.endswith("*")}
_SERVERS = "bootstrap.servers"
_PROPERTY_OPTIONS = tuple(f"{prefix}*" for prefix in PROPERTY_PREFIX.values())
_PREFIXES = {option.key[:-1].lower(): option for option in OPTIONS if option.key.endswith("*")}


@dataclass(frozen=True)
class GivenOptions:
    """The options that a source or a sink reads, by canonical key, and the Kafka properties."""

    dialect: Dialect
    texts: Mapping[str, str]
    properties: KafkaProperties

    def has(self, option: Option[Any]) -> bool:
        return option.key in self.texts

    def text(self, option: Option[Any]) -> str | None:
        return self.texts.get(option.key)

    def value_or_default(self, option: Option[T]) -> T:
        return or_default(option, self.value(option))

    def value(self, option: Option[T]) -> T | None:
        """Return the parsed value, None when the option is not set.

        Raises:
            OptionError: the value is not allowed.
        """
        text = self.texts.get(option.key)
        if text is None:
            return None
        return parse_value(option.type, text, option.key)


@dataclass(frozen=True)
class FoundOptions:
    """All given options: canonical keys with option and text, and the keys that are not known."""

    known: Mapping[str, tuple[Option[Any], str]]
    unknown: tuple[str, ...]

    def of_side(self, side: Side) -> GivenOptions:
        """Return the options that a source or a sink reads.

        Raises:
            OptionError: two dialects are mixed, or the value of a property is not allowed.
            MissingOptionError: the bootstrap servers are missing.
            UnsupportedOptionError: an option is known and not supported.
        """
        _check_supported(self.known, side)
        dialect = _dialect(self.known, side)
        texts, properties = {}, {}
        for key, (option, text) in self.known.items():
            if option.key in _PROPERTY_OPTIONS:
                properties[key[len(option.key) - 1 :]] = text
            elif option.side in (side, Side.BOTH):
                texts[key] = text
                if option.status is Status.NO_EFFECT:
                    parse_value(option.type, text, option.key)
        if dialect is None:
            raise _no_servers(self.known, self.unknown, dialect)
        judge_options(self.unknown, dialect, side)
        role = ClientRole.CONSUMER if side is Side.SOURCE else ClientRole.PRODUCER
        checked = check_properties(properties, dialect=dialect, role=role)
        if checked.get(_SERVERS) is None:
            raise _no_servers(self.known, self.unknown, dialect)
        return GivenOptions(dialect, texts, checked)

    def judged_alone(self) -> GivenOptions:
        """Check the name and the value of each option, and return the options of both sides.

        A table may be declared before it is known whether it is read or written, so nothing is missing yet.
        What penstock knows and does not support is refused by the side that reads it.

        Raises:
            OptionError: a name is not known, two dialects are mixed, or a value is not allowed.
        """
        dialect = _dialect(self.known, Side.SOURCE) or Dialect.FLINK
        judge_options(self.unknown, dialect, Side.BOTH)
        texts, properties = {}, {}
        for key, (option, text) in self.known.items():
            if option.key in _PROPERTY_OPTIONS:
                properties[key[len(option.key) - 1 :]] = text
                continue
            texts[key] = text
            if option.status in (Status.SUPPORTED, Status.NO_EFFECT):
                parse_value(option.type, text, option.key)
        for role in (ClientRole.CONSUMER, ClientRole.PRODUCER):
            with contextlib.suppress(UnsupportedOptionError):
                check_properties(properties, dialect=dialect, role=role)
        return GivenOptions(dialect, texts, KafkaProperties((), PROPERTY_PREFIX[dialect]))


def look_up(options: Mapping[str, str]) -> FoundOptions:
    """Look up every key. No other function reads the options of Spark or a builder.

    Args:
        options: keys in any case (Spark gives lower case), values as the user wrote them.

    Raises:
        OptionError: a key is given twice.
    """
    known: dict[str, tuple[Option[Any], str]] = {}
    unknown = []
    for key, text in sorted(options.items()):
        option = _option_of(key.lower())
        if option is None:
            unknown.append(key)
            continue
        canonical = key.lower() if option.key.endswith("*") else option.key
        if canonical in known:
            raise OptionError(f"Option '{canonical}' is given twice, in different case.", option=canonical)
        known[canonical] = (option, text)
    return FoundOptions(known, tuple(unknown))


def _option_of(key: str) -> Option[Any] | None:
    if key in _EXACT:
        return _EXACT[key]
    matches = (option for prefix, option in _PREFIXES.items() if key.startswith(prefix) and key != prefix)
    return next(matches, None)


def _check_supported(found: Mapping[str, tuple[Option[Any], str]], side: Side) -> None:
    """Refuse what is known and not supported. First, because the other dialect would refuse it too."""
    is_sparks = any(option.dialect is Dialect.SPARK for option, _ in found.values())
    for key, (option, _) in found.items():
        if option.side in (side, Side.BOTH):
            _refuse_unsupported(option, key, Dialect.SPARK if is_sparks else Dialect.FLINK)


def _dialect(found: Mapping[str, tuple[Option[Any], str]], side: Side) -> Dialect | None:
    """Return the dialect in use; None if all given names are the same in both."""
    keys: dict[Dialect, list[str]] = {Dialect.FLINK: [], Dialect.SPARK: []}
    for key, (option, _) in found.items():
        # `topic` of a source belongs to Flink's dialect; `topic` of a sink belongs to both.
        is_flinks = option is TOPIC and side is Side.SOURCE
        dialect = Dialect.FLINK if is_flinks else option.dialect
        if dialect in keys:
            keys[dialect].append(key)
    if all(keys.values()):
        hint = (
            " Spark's name for the topics to read is 'subscribe'." if TOPIC.key in keys[Dialect.FLINK] else ""
        )
        raise OptionError(
            f"Options of two dialects are mixed. Flink's: {_quoted(keys[Dialect.FLINK])}. "
            f"Spark's: {_quoted(keys[Dialect.SPARK])}. Nothing was read or written. Use one dialect.{hint}",
            flink=tuple(keys[Dialect.FLINK]),
            spark=tuple(keys[Dialect.SPARK]),
        )
    return next((dialect for dialect, of_it in keys.items() if of_it), None)


def _refuse_unsupported(option: Option[Any], key: str, dialect: Dialect) -> None:
    if option.status is Status.REFUSED:
        doc = worded(option.doc, dialect)
        raise UnsupportedOptionError(f"Option '{key}' is not supported. {doc}", option=key)


def _no_servers(
    found: Mapping[str, tuple[Option[Any], str]], unknown: Iterable[str], dialect: Dialect | None
) -> MissingOptionError:
    keys = [prefix + _SERVERS for of, prefix in PROPERTY_PREFIX.items() if dialect in (of, None)]
    near = [key for key in unknown if _SERVERS in key or misspelt(key, keys)]
    hint = f" The given {_quoted(near)} is not known." if near else ""
    added = {option.key for option in SPARK_ADDED_OPTIONS}
    if found.keys() <= added and not unknown:
        hint = (
            " No option was given. If the table comes from CREATE TABLE ... USING penstock: Spark does not "
            "pass the OPTIONS of CREATE TABLE to a source in Python. Use CREATE TEMPORARY VIEW ... USING "
            "penstock OPTIONS (...)."
        )
    return MissingOptionError(
        f"Option {' or '.join(f'{key!r}' for key in keys)} is required: the Kafka brokers to connect "
        f"to first, as 'host:port,host:port'.{hint}",
        option=keys[0],
    )


def _quoted(keys: Iterable[str]) -> str:
    return ", ".join(f"'{key}'" for key in keys)


def check_properties(given: Mapping[str, str], *, dialect: Dialect, role: ClientRole) -> KafkaProperties:
    """Check Kafka properties before anything connects, and return those that a consumer or a producer reads.

    A property that would change what is read or written is never dropped without an error.

    Args:
        given: Java names (any case) to values, without the dialect's prefix.
        dialect: FLINK or SPARK. Spark's dialect refuses a few more.
        role: CONSUMER or PRODUCER. Properties of the other one are ignored, because one table can serve both.

    Raises:
        OptionError: a value is not allowed, or a name misspells a known one.
        UnsupportedOptionError: a property or its value is known and not supported.
    """
    kept = []
    providers = providers_of(given, PROPERTY_PREFIX[dialect])
    for name, text in sorted(given.items()):
        declared = PROPERTIES.get(name)
        if name.startswith(DETAILS):
            kept.append((name, text))
        elif declared is None:
            judge_property(name, dialect)
        elif declared.role in (ClientRole.COMMON, ClientRole.ADMIN, role):
            _check_one(declared, text, dialect, is_reference=has_reference(text, providers))
            kept.append((name, text))
    return KafkaProperties(tuple(kept), PROPERTY_PREFIX[dialect])


def _check_one(declared: Property, text: str, dialect: Dialect, *, is_reference: bool) -> None:
    key = PROPERTY_PREFIX[dialect] + declared.name
    refusal = refusal_of(declared, dialect)
    if refusal is not None:
        is_unsupported = declared.handling is Handling.UNSUPPORTED
        what = "is not supported." if is_unsupported else "cannot be set:"
        raise UnsupportedOptionError(f"Option '{key}' {what} {worded(refusal, dialect)}.", option=key)
    if is_reference:
        _check_can_refer(declared, key)
        return  # its text is known where it is looked up
    parse_value(declared.type, text, key)
    instead = declared.unsupported_values.get(text.strip().lower())
    if instead is not None:
        raise UnsupportedOptionError(
            f"Option '{key}' cannot be '{text.strip()}': {worded(instead, dialect)}.", option=key
        )


def _check_can_refer(declared: Property, key: str) -> None:
    if not can_refer(declared.name):
        raise UnsupportedOptionError(
            f"Option '{key}' holds a reference such as ${{env:NAME}}. Only 'bootstrap.servers', 'ssl.*', "
            "'sasl.*' and 'security.*' can hold references. Nothing was read or written. Write the value "
            "itself.",
            option=key,
        )
