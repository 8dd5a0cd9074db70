"""The names of Flink's functions.

Runs on the driver. Invariant: a function of the user never stands for one of these.
"""

from __future__ import annotations

from penstock.sql.query._functions import AGGREGATES, FUNCTIONS, OVER_ONLY
from penstock.sql.query._not_served import FREE, REFUSED

_WITH_WORDS = (
    *("EXTRACT", "TIMESTAMPADD", "TIMESTAMPDIFF", "ROW", "ROUND", "POSITION", "CAST", "TRY_CAST"),
    *("UNIX_TIMESTAMP", "JSON_OBJECT", "JSON_ARRAY"),
)


def is_flinks(name: str) -> bool:
    """Return whether Flink has a function of this name, in any case."""
    upper = name.upper()
    names = {*_WITH_WORDS, *FUNCTIONS, *AGGREGATES, *OVER_ONLY, *REFUSED}
    return upper in names - FREE
