"""How often a statement asks Spark what a query means: each is a part of the time to the first row."""

from __future__ import annotations

from penstock.sql.plan.texts import quoted
from tests.fix_broker import MakeTopic
from tests.spark.sql_changes import upsert
from tests.spark.test_sql import Script
from tests.spark.test_sql import script as script  # noqa: PLC0414 - a fixture

SHOPS = "(shop STRING PRIMARY KEY NOT ENFORCED, n BIGINT)"
ASKS = 6
"""One for each input of the operators (two of ChangelogNormalize, two of the join, one of the groups), and one for
the result."""


def test_a_join_of_changing_tables_with_groups_asks_spark_six_times(
    script: Script, bootstrap: str, make_topic: MakeTopic
) -> None:
    names = ["one", "other"]
    script(
        "; ".join(f"CREATE TABLE {quoted(name)} {SHOPS} {upsert(bootstrap, make_topic())}" for name in names)
    )
    script(
        "CREATE TABLE counts (n BIGINT, total BIGINT, PRIMARY KEY (n) NOT ENFORCED) WITH ('connector' = 'blackhole')"
    )
    views = script.session._views
    before = views.analyses
    query = "SELECT a.n, SUM(b.n) FROM `one` AS a JOIN `other` AS b ON a.shop = b.shop GROUP BY a.n"
    script(f"EXPLAIN INSERT INTO counts {query}")
    assert views.analyses - before == ASKS
