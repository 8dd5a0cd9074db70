"""References to secrets in the values of properties, as Kafka's config providers write them.

`${env:NAME}`, `${file:/path:key}` and `${dir:/path:name}` stand for a text. The process that connects reads
it, the driver and each executor for itself. So a plan, a checkpoint and Spark's event log hold the reference
only. Pure: `penstock.security.references` looks them up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import Enum

from penstock.errors import UnsupportedOptionError
from penstock.options.values import parse_words

LIST = "config.providers"
DETAILS = "config.providers."
REFERENCE = re.compile(r"\$\{([^{}:]+):(?:([^{}:]*):)?([^{}]*)\}")
"""Provider, path (None without one), key: Kafka's own pattern."""


class Provider(Enum):
    """Where a reference is looked up; the value is the class of Kafka's provider."""

    ENV = "EnvVarConfigProvider"
    FILE = "FileConfigProvider"
    DIRECTORY = "DirectoryConfigProvider"


DEFAULT_PROVIDERS: Mapping[str, Provider] = {
    "env": Provider.ENV,
    "file": Provider.FILE,
    "dir": Provider.DIRECTORY,
    "directory": Provider.DIRECTORY,
}


def providers_of(given: Mapping[str, str], prefix: str = "") -> Mapping[str, Provider]:
    """Return the providers under their names (lower case); without `config.providers` the usual ones.

    Args:
        given: properties by name.
        prefix: what the user writes before a name, for errors.

    Raises:
        UnsupportedOptionError: a provider of another class, or a parameter of a provider.
    """
    names = [name.lower() for name in parse_words(given.get(LIST, ""))]
    if not names:
        return DEFAULT_PROVIDERS
    found = {}
    for name in names:
        key = f"{DETAILS}{name}.class"
        simple_name = given.get(key, "").strip().rpartition(".")[2]
        by_class = {each.value: each for each in Provider}
        provider = by_class.get(simple_name) if simple_name else DEFAULT_PROVIDERS.get(name)
        if provider is None:
            raise UnsupportedOptionError(
                f"Option '{prefix}{LIST}' names a provider that does not work here. Set '{prefix}{key}' to "
                "one of "
                f"{', '.join(f'org.apache.kafka.common.config.provider.{each}' for each in by_class)}.",
                option=prefix + LIST,
            )
        found[name] = provider
    for key in given:
        if key.startswith(DETAILS) and not key.endswith(".class"):
            raise UnsupportedOptionError(
                f"Option '{prefix}{key}' is not supported: parameters of config providers are not read. "
                "Leave it out.",
                option=prefix + key,
            )
    return found


def can_refer(name: str) -> bool:
    """Return whether the value of a property may hold references: those that say where and how to connect."""
    return name == "bootstrap.servers" or name.startswith(("sasl.", "ssl.", "security."))


def has_reference(text: str, names: Iterable[str] = DEFAULT_PROVIDERS) -> bool:
    known = set(names)
    return any(match[1].lower() in known for match in REFERENCE.finditer(text))
