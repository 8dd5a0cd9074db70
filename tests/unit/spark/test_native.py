"""Streaming aggregations of Spark are found in the text of a plan, as Spark 4.3 prints it."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql.types import StructField, StructType, TimestampType

from penstock.spark import native
from penstock.spark.native import WATERMARK, explained, has_streaming_aggregation, watermark_behind

SOURCE = "StreamingRelation FileSource[/in], [k#0, v#1L, at#2L, row_kind#3], name=<Unassigned>"
GROUPED = f"""~Project [k#0, at#6L]
+- ~Aggregate [k#0], [k#0, max(at#2L) AS at#6L]
   +- ~Filter (v#1L > cast(0 as bigint))
      +- {SOURCE}
"""
AFTER_A_FUNCTION = f"""~Project [k#0, at#6L]
+- ~MapInArrow run(k#0, at#6L)#9, [k#9, at#10L], false
   +- ~RepartitionByExpression [direct_shuffle_partition_id(#partition#12)], 2
      +- ~Aggregate [k#0], [k#0, max(at#2L) AS at#6L]
         +- {SOURCE}
"""
OF_A_TABLE = f"""~Deduplicate [v#21L, k#20, at#22L]
+- ~Join Inner, (v#21L = v#30L)
   :- ~Deduplicate [k#20]
   :  +- ~EventTimeWatermark 8d1f5b16-0927-4c46-8e7f-2834eae74218, ts#25: timestamp, 5 seconds
   :     +- {SOURCE}
   +- Project [id#26L AS v#30L, count#27L AS c#31L]
      +- Aggregate [id#26L], [id#26L, count(1) AS count#27L]
         +- Range (0, 3, step=1, splits=Some(2))
"""
BESIDE_A_FUNCTION = f"""~Union false, false
:- ~MapInPandas f(k#0)#9, [k#9], false
:  +- ~Aggregate [k#0], [k#0]
:     +- {SOURCE}
+- ~Project [k#0]
   +- ~Distinct
      +- {SOURCE}
"""


@pytest.mark.parametrize(
    ("plan", "found"),
    [
        (GROUPED, True),
        (AFTER_A_FUNCTION, False),
        (OF_A_TABLE, False),
        (BESIDE_A_FUNCTION, True),
        (SOURCE, False),
        ("", False),
    ],
)
def test_an_aggregation_of_a_stream_is_found(plan: str, found: bool) -> None:
    assert has_streaming_aggregation(plan) is found


MARKED = StructType(
    [StructField("at", TimestampType(), metadata={WATERMARK: 5_000}), StructField("by", TimestampType())]
)


@pytest.mark.parametrize(
    ("above", "time", "delay_ms", "found"),
    [
        ([], "at", 5_000, 0),
        (["~Project [at#1-T5000ms]", "SubqueryAlias a", "View (`a`, [at#1])"], "at", 4_999, 1),
        ([], "at", 5_001, None),
        ([], "by", 0, None),
        (["~Project [at#1]", "~Filter (minute(at#1) < 3)"], "at", 5_000, None),
        (["~Join Inner"], "at", 5_000, None),
    ],
)
def test_rows_that_wait_are_before_sparks_watermark_if_it_follows_no_other_rows(
    monkeypatch: pytest.MonkeyPatch, above: list[str], time: str, delay_ms: int, found: int | None
) -> None:
    lines = [*above, "~EventTimeWatermark at#1, 5 seconds", "~Filter (id#3 > 1)", "~Relation"]
    plan = "\n".join(f"{'   ' * (depth - 1)}{'+- ' * (depth > 0)}{line}" for depth, line in enumerate(lines))
    monkeypatch.setattr(native, "_optimized_plan", lambda _: plan)
    assert watermark_behind(cast("Any", SimpleNamespace(schema=MARKED)), time, delay_ms) == found


class Printing:
    """A DataFrame whose plan prints many equal lines one by one."""

    def __init__(self, line: str) -> None:
        self.line = line

    def select(self, _: str) -> Printing:
        return self

    def explain(self, **_: bool) -> None:
        for _line in range(3_000):
            print(self.line)  # noqa: T201 - as Spark does


def test_plans_that_two_threads_ask_for_are_not_mixed_up() -> None:
    lines = [f"plan {number}" for number in range(8)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(len(lines)) as pool:
            found = list(pool.map(lambda line: explained(Printing(line)), lines))
    finally:
        sys.setswitchinterval(before)
    assert found == [f"{line}\n" * 3_000 for line in lines]
