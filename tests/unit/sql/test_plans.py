"""What queries become: plans, Spark's SQL, and refusals, as tests/data/sql/plans has them."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from tests.unit.sql.recorded_plans import PLANS, Case, cases

PARTS: dict[str, list[Case]] = defaultdict(list)
for path in sorted(PLANS.glob("*.txt")):
    for each in cases(path):
        PARTS[each.part].append(each)


@pytest.mark.parametrize("part", PARTS)
def test_queries_have_their_plans(part: str) -> None:
    """If the new ones are right: python -m tests.unit.sql.recorded_plans."""
    found = [f"{each.line}: {each.query}\n{each.found}" for each in PARTS[part]]
    assert found == [f"{each.line}: {each.query}\n{each.expected}" for each in PARTS[part]]


def test_each_query_stands_once() -> None:
    known = Counter((each.query, each.mode) for part in PARTS.values() for each in part)
    assert [each for each, count in known.items() if count > 1] == []
