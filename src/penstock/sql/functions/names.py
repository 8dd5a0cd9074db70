"""The names of Flink's functions.

Runs on the driver. Invariant: a function of the user never hides one of Flink.
"""

from __future__ import annotations

from penstock.sql.functions.not_served import FREE, REFUSED
from penstock.sql.functions.served import AGGREGATES, FUNCTIONS, OVER_ONLY

_WITH_WORDS = (
    *("EXTRACT", "TIMESTAMPADD", "TIMESTAMPDIFF", "ROW", "ROUND", "POSITION", "CAST", "TRY_CAST"),
    *("UNIX_TIMESTAMP", "JSON_OBJECT", "JSON_ARRAY"),
)


def is_flinks(name: str) -> bool:
    """Return whether Flink has a function of this name, in any case. A user's function cannot have it."""
    upper = name.upper()
    names = {*_WITH_WORDS, *FUNCTIONS, *AGGREGATES, *OVER_ONLY, *REFUSED}
    return upper in names - FREE
