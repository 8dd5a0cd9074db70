"""Say what to use instead of a member of Flink's classes that does not exist here.

Runs in the user's program. Invariant: only names that a class does not have come here.
"""

from __future__ import annotations

from typing import NoReturn


class NamesWhatToUse:
    """Raises AttributeError with the advice of the conformance table."""

    def __getattr__(self, name: str) -> NoReturn:
        from penstock.flink.legacy.conformance import note_of  # noqa: PLC0415 - only for mistakes

        notes = (note_of(kind.__name__, name) for kind in type(self).__mro__)
        note = next(filter(None, notes), None)
        advice = "" if note is None else f". It is a member of Flink's class only. {note}"
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{advice}")
