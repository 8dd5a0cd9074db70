"""Parse where a read begins and ends if the user gave a Python object, which is in the text of an option.

Runs on the driver. Invariant: nothing is unpickled here, so parsing options never runs code of the user.
"""

from __future__ import annotations

from penstock.errors import OptionError
from penstock.options import flink
from penstock.options._recognise import GivenOptions
from penstock.options.config import OffsetsSpec
from penstock.options.declare import Option
from penstock.options.python_objects import INITIALIZER


def custom_starting(given: GivenOptions) -> OffsetsSpec | None:
    """Return where reading begins by an object of the user; None without one."""
    return _custom(given, flink.STARTUP_INITIALIZER, flink.STARTUP_MODE)


def custom_stopping(given: GivenOptions) -> OffsetsSpec | None:
    """Return where reading ends by an object of the user; None without one."""
    return _custom(given, flink.BOUNDED_INITIALIZER, flink.BOUNDED_MODE)


def _custom(given: GivenOptions, option: Option[str], mode: Option[str]) -> OffsetsSpec | None:
    text = given.value(option)
    if text is None:
        return None
    if given.has(mode):
        raise OptionError(
            f"Options '{option.key}' and '{mode.key}' exclude each other: set one of them.", option=option.key
        )
    INITIALIZER.split(text, option.key)
    return OffsetsSpec(initializer=text)
