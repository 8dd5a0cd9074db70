"""Secrets by reference, looked up in the process that uses them.

Runs on driver and executors, each for itself. Invariants: an error names the reference and never what it
stands for; a reference that cannot be looked up is an error, and is never taken for the secret itself.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from penstock.errors import OptionError
from penstock.options.config import KafkaProperties
from penstock.options.properties.references import (
    DEFAULT_PROVIDERS,
    REFERENCE,
    Provider,
    can_refer,
    has_reference,
    providers_of,
)
from penstock.security.files import read_file
from penstock.security.java_properties import parse_properties


def resolved(properties: KafkaProperties) -> KafkaProperties:
    """Return the properties with the texts that references stand for.

    Raises:
        OptionError: one cannot be looked up here.
    """
    given = dict(properties.items)
    providers = providers_of(given, properties.prefix)
    items = tuple(
        (name, resolved_text(text, properties.spelled(name), providers) if can_refer(name) else text)
        for name, text in properties.items
    )
    return KafkaProperties(items, properties.prefix)


def resolved_text(text: str, key: str, providers: Mapping[str, Provider] = DEFAULT_PROVIDERS) -> str:
    """Return a text with what its references stand for; a reference to an unknown provider stays, as in Java.

    Args:
        text: of an option.
        key: the option, for errors.
        providers: by name.

    Raises:
        OptionError: a reference cannot be looked up here.
    """
    if not has_reference(text, providers):
        return text

    def looked_up(name: str, path: str | None, wanted: str, reference: str) -> str:
        provider = providers.get(name.lower())
        if provider is None:
            return reference
        if provider is Provider.ENV:
            return _variable(wanted if not path else f"{path}:{wanted}", key)
        if not path or not wanted:
            raise OptionError(
                f"Option '{key}' has an incomplete reference. It is written like this: ${{{name}:/path:"
                f"{'key' if provider is Provider.FILE else 'name of a file'}}}.",
                option=key,
            )
        return _from_file(path, wanted, key) if provider is Provider.FILE else _whole_file(path, wanted, key)

    return REFERENCE.sub(lambda match: looked_up(match[1], match[2], match[3], match[0]), text)


def _variable(name: str, key: str) -> str:
    found = os.environ.get(name)
    if found is None:
        raise OptionError(
            f"Option '{key}' refers to the environment variable '{name}', which is not set here. "
            f"Set it where the driver is started, and for executors as spark.executorEnv.{name}.",
            option=key,
        )
    return found


def _from_file(path: str, wanted: str, key: str) -> str:
    try:
        found = parse_properties(_decoded(read_file(path, key), path, key))
    except ValueError as error:
        raise OptionError(f"Option '{key}': the properties file '{path}' {error}.", option=key) from None
    if wanted not in found:
        raise OptionError(
            f"Option '{key}' refers to the key '{wanted}', which the properties file '{path}' does not have.",
            option=key,
        )
    return found[wanted]


def _whole_file(folder: str, name: str, key: str) -> str:
    if "/" in name or "\\" in name or name in (".", ".."):
        raise OptionError(
            f"Option '{key}' refers to '{name}' in '{folder}': expected the name of a file in that folder.",
            option=key,
        )
    path = f"{folder.rstrip('/')}/{name}"
    return _decoded(read_file(path, key), path, key)


def _decoded(data: bytes, path: str, key: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise OptionError(f"Option '{key}': the file '{path}' is not UTF-8.", option=key) from None
