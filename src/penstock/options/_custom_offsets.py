"""Where a read begins and ends as a Python object of the user, which travels in the text of an option.

Runs on the driver. Invariant: nothing is unpickled here; parsing options never runs code of the user.
"""

from __future__ import annotations

from penstock.errors import OptionError
from penstock.options import flink
from penstock.options._recognise import GivenOptions
from penstock.options.config import OffsetsSpec
from penstock.options.declare import Option
from penstock.options.python_objects import INITIALIZER


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
    INITIALIZER.split(text, option.key)
    return OffsetsSpec(initializer=text)
