"""Which plans of Spark forget rows of a join by a key without a watermark."""

from __future__ import annotations

import pytest

from penstock.sql.run._join_keys import forgets_by_one_side

CLEANUP = "Inner, condition = [ both = (x#1 > y#2) ], state cleanup [ left {0}, right {0} ], 2, Append"
BY_KEY = CLEANUP.format("key predicate: (input[1, timestamp, true] <= 17672)")
BY_VALUE = CLEANUP.format("value predicate: (ts#1-T1000ms <= 17672)")


@pytest.mark.parametrize(
    ("join", "is_wrong"),
    [
        (f"[id#1L, ts#2-T1000ms], [id#3L, ts#4-T1000ms], {BY_KEY}", False),
        (f"[f(a#1, b#2)[0], e#3-T0ms], [x[(1, 2)]#3L, e#4-T1000ms], {BY_KEY}", False),
        (f"[id#1L, ts#2-T1000ms], [id#3L, cast(until#4 as timestamp)], {BY_KEY}", True),
        (f"[id#1L, ts#2-T1000ms], [id#3L, ts#4-T1000ms + INTERVAL '-20' SECOND], {BY_KEY}", True),
        (f"[id#1L, event-time#2-T1000ms], [id#3L, a.b (UTC)#4-T1000ms], {BY_KEY}", False),
        (f"[id#1L, ts#2-T1000ms], [id#3L, days#4 + ts#5-T1000ms], {BY_KEY}", True),
        (f"[id#1L, ts#2], [id#3L, ts#4-T1000ms], {BY_KEY}", True),
        (f"[id#1L, ... 30 more fields], [id#3L, ... 30 more fields], {BY_KEY}", True),
        (f"[id#1L], [id#3L], {BY_VALUE}", False),
    ],
)
def test_the_key_that_ends_the_state_has_the_watermark_of_both_sides(join: str, is_wrong: bool) -> None:
    plan = f"*(3) Project [id#1L]\n+- StreamingSymmetricHashJoin {join}\n   :- Exchange"
    assert forgets_by_one_side(plan) is is_wrong
