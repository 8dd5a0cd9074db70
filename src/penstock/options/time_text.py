"""Parse times as people write them: milliseconds, ISO 8601 with a zone, or `-10 min` for ten minutes ago.

Runs on the driver, and in the user's program. Invariant: parsing asks no clock. A time that is relative to
now becomes a number in `OffsetsSpec.at`, from one reading of the clock for a whole read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from math import ceil

from penstock.options.values import LONG_MAX, ValueType, parse_duration_ms
from penstock.types import Time

_ALLOWED = (
    "milliseconds since 1970, ISO 8601 with a zone such as '2026-11-22T18:00:00+01:00' or "
    "'2026-11-22T17:00:00Z', or a time before now such as '-10 min'"
)
_MS = re.compile(r"[0-9]{1,20}")
_BEFORE_NOW = re.compile(r"-\s*([0-9]{1,20}\s*[a-zA-Z\u00b5\u03bc]+)")
_ISO = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]{1,9}))?)?"
    r"\s*(?:([Zz])|([+-][0-9]{2}):?([0-9]{2})?)"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class BeforeNow:
    """The time so many milliseconds before the read is planned."""

    before_ms: int


def parse_moment(text: str) -> Time | BeforeNow:
    """Parse a time.

    A fraction of a millisecond is rounded up, because records have whole milliseconds: the first record that
    is not older is the same.

    Raises:
        ValueError: the text has another form, or a time before 1970. The error says what is allowed.
    """
    text = text.strip()
    if _MS.fullmatch(text):
        return Time(_in_range(int(text)))
    relative = _BEFORE_NOW.fullmatch(text)
    if relative is not None:
        try:
            return BeforeNow(parse_duration_ms(relative[1]))
        except ValueError:
            raise ValueError(_ALLOWED) from None
    iso = _ISO.fullmatch(text)
    if iso is None:
        raise ValueError(_ALLOWED)
    return Time(_in_range(_iso_ms(iso)))


def render_moment(moment: Time | BeforeNow) -> str:
    """Return a text that `parse_moment` parses to the same."""
    return f"-{moment.before_ms} ms" if isinstance(moment, BeforeNow) else str(moment.time_ms)


def _iso_ms(match: re.Match[str]) -> int:
    day, minute, second, fraction, utc, hours, minutes = match.groups()
    zone = "+00:00" if utc else f"{hours}:{minutes or '00'}"
    try:
        moment = datetime.fromisoformat(f"{day}T{minute}:{second or '00'}{zone}")
    except ValueError as error:
        raise ValueError(f"{_ALLOWED} ({error})") from None
    return (moment - _EPOCH) // timedelta(milliseconds=1) + ceil(Fraction(f"0.{fraction or 0}") * 1000)


def _in_range(time_ms: int) -> int:
    if not 0 <= time_ms <= LONG_MAX:
        raise ValueError(f"{_ALLOWED}, not before 1970")
    return time_ms


MOMENT = ValueType(
    "time",
    "ms since 1970, ISO 8601 with a zone (`2026-11-22T18:00:00+01:00`), or `-10 min` for ten minutes ago",
    parse_moment,
    render_moment,
)
