"""Where a read begins and ends as a Python object of the user, which travels in the text of an option.

Runs on the driver. The text is `<version>:<Python version>:<base64 of a pickle>`. Invariant: nothing is
unpickled here; parsing options never runs code of the user.
"""

from __future__ import annotations

import base64
import binascii

from penstock.errors import OptionError
from penstock.options import flink
from penstock.options.config import OffsetsSpec, StartupMode
from penstock.options.declare import Option
from penstock.options.recognise import GivenOptions

VERSION = "penstock-initializer-1"
PICKLE_BYTES_MAX = 256 << 10
"""Enough for any rule and a good map; the option is copied into every plan of the query."""


def custom_starting(given: GivenOptions) -> OffsetsSpec | None:
    """The object that says where reading begins; None without one."""
    return _custom(given, flink.STARTUP_INITIALIZER, flink.STARTUP_MODE)


def custom_stopping(given: GivenOptions) -> OffsetsSpec | None:
    """The object that says where reading ends; None without one."""
    return _custom(given, flink.BOUNDED_INITIALIZER, flink.BOUNDED_MODE)


def _custom(given: GivenOptions, option: Option[str], mode: Option[str]) -> OffsetsSpec | None:
    text = given.value(option)
    if text is None:
        return None
    if given.has(mode):
        raise OptionError(
            f"Options '{option.key}' and '{mode.key}' exclude each other: set one of them.", option=option.key
        )
    split_text(text, option.key)
    return OffsetsSpec(StartupMode.INITIALIZER, initializer=text)


def join_text(pickled: bytes, python_version: str) -> str:
    """The text of the option for a pickle.

    Raises:
        OptionError: it is too large.
    """
    if len(pickled) > PICKLE_BYTES_MAX:
        raise OptionError(
            f"The offsets initializer takes {len(pickled)} bytes when it is pickled; at most "
            f"{PICKLE_BYTES_MAX} can travel to Spark. Let it read large data where it runs, on the driver.",
            size_bytes=len(pickled),
        )
    return f"{VERSION}:{python_version}:{base64.b64encode(pickled).decode()}"


def split_text(text: str, key: str) -> tuple[str, bytes]:
    """The Python version and the pickle in the text of an option.

    Raises:
        OptionError: another version of penstock wrote it, or it is damaged.
    """
    version, _, rest = text.partition(":")
    python_version, _, encoded = rest.partition(":")
    if version != VERSION:
        raise OptionError(
            f"Option '{key}' does not begin with '{VERSION}:'. It is made by "
            "penstock.KafkaSource.builder(), of the same version of penstock here and where the query is "
            "planned; it is not written by hand.",
            option=key,
        )
    try:
        pickled = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        raise OptionError(f"Option '{key}' is damaged: it is not base64.", option=key) from None
    if not pickled or len(pickled) > PICKLE_BYTES_MAX:
        raise OptionError(
            f"Option '{key}' is damaged: {len(pickled)} bytes, of 1 to {PICKLE_BYTES_MAX}.", option=key
        )
    return python_version, pickled
