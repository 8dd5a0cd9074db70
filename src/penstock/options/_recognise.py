"""From the options that Spark hands over to the ones that a side reads, under their canonical spelling.

Runs on the driver. Invariant: every key is accounted for: read, let pass because it is the other side's,
judged by `unknown`, or refused because ignoring it would change the data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from penstock.errors import MissingOptionError, OptionError, UnsupportedOptionError
from penstock.options._added import SPARK_ADDED_OPTIONS
from penstock.options._spelling import misspelt
from penstock.options.config import KafkaProperties
from penstock.options.declare import Dialect, Option, Reader, Status, or_default, parse_value
from penstock.options.flink import TOPIC
from penstock.options.properties import Role
from penstock.options.properties.check import check_properties
from penstock.options.unknown import OPTIONS, judge_options
from penstock.options.wording import PROPERTY_PREFIX, worded

T = TypeVar("T")

_EXACT = {option.key.lower(): option for option in OPTIONS if not option.key.endswith("*")}
_SERVERS = "bootstrap.servers"
_PROPERTY_OPTIONS = tuple(f"{prefix}*" for prefix in PROPERTY_PREFIX.values())
_PREFIXES = {option.key[:-1].lower(): option for option in OPTIONS if option.key.endswith("*")}


@dataclass(frozen=True)
class GivenOptions:
    """The options that one side reads, by canonical key, and the Kafka properties."""

    dialect: Dialect
    texts: Mapping[str, str]
    properties: KafkaProperties

    def has(self, option: Option[Any]) -> bool:
        """Whether the user set the option."""
        return option.key in self.texts

    def text(self, option: Option[Any]) -> str | None:
        """Return what the user wrote."""
        return self.texts.get(option.key)

    def value_or_default(self, option: Option[T]) -> T:
        """Return the parsed value, the declared default when the option is not set."""
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
    """All options, looked up: canonical key to option and text, and the keys that are not known."""

    known: Mapping[str, tuple[Option[Any], str]]
    unknown: tuple[str, ...]

    def of_side(self, side: Reader) -> GivenOptions:
        """Sort out what a reader (SOURCE) or writer (SINK) reads.

        Raises:
            OptionError: both dialects at once, a property with a value that is not allowed.
            MissingOptionError: no bootstrap servers.
            UnsupportedOptionError: an option that is known and cannot be honoured.
        """
        dialect = _dialect(self.known, side)
        texts, properties = {}, {}
        for key, (option, text) in self.known.items():
            if option.key in _PROPERTY_OPTIONS:
                properties[key[len(option.key) - 1 :]] = text
            elif option.reader in (side, Reader.BOTH):
                texts[key] = text
                if option.status is Status.NO_EFFECT:
                    parse_value(option.type, text, option.key)
        if dialect is None:
            raise _no_servers(self.known, self.unknown, dialect)
        judge_options(self.unknown, dialect, side)
        role = Role.CONSUMER if side is Reader.SOURCE else Role.PRODUCER
        checked = check_properties(properties, dialect=dialect, role=role)
        if checked.get(_SERVERS) is None:
            raise _no_servers(self.known, self.unknown, dialect)
        return GivenOptions(dialect, texts, checked)


def look_up(options: Mapping[str, str]) -> FoundOptions:
    """Look every key up. This is the only place that reads what Spark or a builder hands over.

    Args:
        options: keys in any case (Spark's are lower), values as written.

    Raises:
        OptionError: one key twice.
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


def _dialect(found: Mapping[str, tuple[Option[Any], str]], side: Reader) -> Dialect | None:
    """Whose names are used; None where all that is given is the same in both dialects."""
    keys: dict[Dialect, list[str]] = {Dialect.FLINK: [], Dialect.SPARK: []}
    for key, (option, _) in found.items():
        # `topic` names what to read in Flink's dialect only; both write to it.
        is_flinks = option is TOPIC and side is Reader.SOURCE
        dialect = Dialect.FLINK if is_flinks else option.dialect
        if dialect in keys:
            keys[dialect].append(key)
    has_sparks = bool(keys[Dialect.SPARK])
    for key, (option, _) in found.items():
        # Before the two are held against each other: to change the dialect would not help.
        if option.reader in (side, Reader.BOTH):
            _refuse_unsupported(option, key, Dialect.SPARK if has_sparks else Dialect.FLINK)
    if all(keys.values()):
        hint = (
            " Spark's name for the topics to read is 'subscribe'." if TOPIC.key in keys[Dialect.FLINK] else ""
        )
        raise OptionError(
            f"Options of two dialects are mixed: {_quoted(keys[Dialect.FLINK])} of Flink's, "
            f"{_quoted(keys[Dialect.SPARK])} of Spark's. Use one dialect.{hint}",
            flink=tuple(keys[Dialect.FLINK]),
            spark=tuple(keys[Dialect.SPARK]),
        )
    return next((dialect for dialect, of_it in keys.items() if of_it), None)


def _refuse_unsupported(option: Option[Any], key: str, dialect: Dialect) -> None:
    doc = worded(option.doc, dialect)
    if option.status is Status.NOT_YET:
        raise UnsupportedOptionError(
            f"Option '{key}' is not supported by this version of penstock yet. {doc} "
            "It is refused because to ignore it would change what is read or written.",
            option=key,
        )
    if option.status is Status.REFUSED:
        raise UnsupportedOptionError(f"Option '{key}' is not supported. {doc}", option=key)


def _no_servers(
    found: Mapping[str, tuple[Option[Any], str]], unknown: Iterable[str], dialect: Dialect | None
) -> MissingOptionError:
    keys = [prefix + _SERVERS for of, prefix in PROPERTY_PREFIX.items() if dialect in (of, None)]
    near = [key for key in unknown if _SERVERS in key or misspelt(key, keys)]
    hint = f" Given is {_quoted(near)}, which is not known." if near else ""
    added = {option.key for option in SPARK_ADDED_OPTIONS}
    if found.keys() <= added and not unknown:
        hint = (
            " No option was given. Does the name come from CREATE TABLE ... USING penstock? Spark does not "
            "hand the OPTIONS of CREATE TABLE on to a source in Python: use CREATE TEMPORARY VIEW ... USING "
            "penstock OPTIONS (...)."
        )
    return MissingOptionError(
        f"Option {' or '.join(f'{key!r}' for key in keys)} is required: the Kafka brokers to begin with, as "
        f"'host:port,host:port'.{hint}",
        option=keys[0],
    )


def _quoted(keys: Iterable[str]) -> str:
    return ", ".join(f"'{key}'" for key in keys)
