"""GROUPING SETS, CUBE and ROLLUP of a stream without a window: each row counts once in each set.

Runs on the driver. Invariant: the number of the set is a column of the group, so a NULL of the data and a
column that is not in the set are different groups.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from sqlglot import exp

SET = "gs"
"""The column of the operator with the number of the set."""
KINDS = (exp.GroupingSets, exp.Cube, exp.Rollup)
FUNCTIONS = ("GROUPING", "GROUPING_ID")
_MOST = 64


@dataclass(frozen=True)
class Sets:
    """The columns of GROUP BY, and the places of those in each set. Without sets all are one set."""

    columns: list[exp.Expr]
    sets: list[frozenset[int]]

    @property
    def are_many(self) -> bool:
        """Return whether there are GROUPING SETS, CUBE or ROLLUP."""
        return self.sets != [frozenset(range(len(self.columns)))]

    def exploded(self, query: str, others: list[str]) -> str:
        """Return the rows, each once for each set, with NULL in the columns that are not in the set.

        Args:
            query: the rows, with the columns g0, g1, ...
            others: further columns, as texts.
        """
        texts = [
            f"CASE WHEN `{SET}` IN ({', '.join(self._with(place))}) THEN `g{place}` END AS `g{place}`"
            for place in range(len(self.columns))
        ]
        numbers = ", ".join(map(str, range(len(self.sets))))
        return (
            f"SELECT {', '.join([*texts, f'`{SET}`', *others])} FROM ({query}) "
            f"LATERAL VIEW explode(array({numbers})) `__sets` AS `{SET}`"
        )

    def _with(self, place: int) -> list[str]:
        """Return the numbers of the sets that have a column."""
        return [str(number) for number, each in enumerate(self.sets) if place in each]

    def grouping(self, places: list[int]) -> str:
        """Return GROUPING of columns: a bit for each that is not in the set."""
        whens = []
        for number, each in enumerate(self.sets):
            bits = sum(1 << place for place, column in enumerate(reversed(places)) if column not in each)
            whens.append(f"WHEN {number} THEN {bits}")
        return f"CAST(CASE `{SET}` {' '.join(whens)} END AS BIGINT)"


def sets_of(items: list[exp.Expr]) -> Sets:
    """Return the columns and sets of GROUP BY.

    Raises:
        ValueError: there are too many sets.
    """
    columns: list[exp.Expr] = []

    def place(each: exp.Expr) -> int:
        if each not in columns:
            columns.append(each)
        return columns.index(each)

    choices = [[[place(column) for column in each] for each in _choices(item)] for item in items]
    found = [frozenset(itertools.chain.from_iterable(each)) for each in itertools.product(*choices)]
    if len(found) > _MOST:
        raise ValueError(f"GROUP BY has {len(found)} sets; at most {_MOST} are served in a stream.")
    return Sets(columns, found)


def _choices(item: exp.Expr) -> list[list[exp.Expr]]:
    """Return the lists of columns that an item of GROUP BY stands for."""
    if not isinstance(item, KINDS):
        return [[item]]
    parts = [_columns(each) for each in item.expressions]
    if isinstance(item, exp.GroupingSets):
        return parts
    if isinstance(item, exp.Rollup):
        kept = [parts[:count] for count in range(len(parts), -1, -1)]
    else:
        counts = range(len(parts), -1, -1)
        kept = [list(some) for count in counts for some in itertools.combinations(parts, count)]
    return [list(itertools.chain.from_iterable(each)) for each in kept]


def _columns(item: exp.Expr) -> list[exp.Expr]:
    if isinstance(item, exp.Tuple):
        return list(item.expressions)
    return [item.this if isinstance(item, exp.Paren) else item]
