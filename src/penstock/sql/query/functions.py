"""The names of Flink's functions.

Runs on the driver. Invariant: a function of the user never stands for one of these.
"""

from __future__ import annotations

from penstock.sql.query._functions import AGGREGATES, FUNCTIONS, OVER_ONLY, REFUSED

_WITH_WORDS = ("EXTRACT", "TIMESTAMPADD", "TIMESTAMPDIFF", "ROW", "ROUND", "POSITION", "CAST", "TRY_CAST")


def is_flinks(name: str) -> bool:
    """Return whether Flink has a function of this name, in any case."""
    upper = name.upper()
    return upper in _WITH_WORDS or any(
        upper in names for names in (FUNCTIONS, AGGREGATES, OVER_ONLY, REFUSED)
    )
