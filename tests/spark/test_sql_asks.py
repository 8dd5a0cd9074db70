"""How often a statement has Spark analyse something: each is a part of the time to the first row."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest

from penstock.sql.language.parse import parse_script
from penstock.sql.language.source import Source
from penstock.sql.language.statements import Insert
from penstock.sql.plan.texts import quoted
from tests.fix_broker import MakeTopic
from tests.spark.sql_changes import upsert
from tests.spark.test_sql import Script
from tests.spark.test_sql import script as script  # noqa: PLC0414 - a fixture

SHOPS = "(shop STRING PRIMARY KEY NOT ENFORCED, n BIGINT)"
QUERY = "SELECT a.n, SUM(b.n) FROM `one` AS a JOIN `other` AS b ON a.shop = b.shop GROUP BY a.n"
TEXTS, FRAMES = 1, 33
"""The text is that of the result. Spark analyses the two tables; the inputs of the operators (two of
ChangelogNormalize, two of the join, one of the groups); what each of the four operators makes of its input (a
partition, a counter, a shuffle, a function; of the join also the sides and their union); the rows of the join in
packages, and those of them that have bytes; the result and the view that it names; and the rows of the table that
is written."""


def test_a_join_of_changing_tables_with_groups_has_spark_read_one_text(
    script: Script, bootstrap: str, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["one", "other"]
    script(
        "; ".join(f"CREATE TABLE {quoted(name)} {SHOPS} {upsert(bootstrap, make_topic())}" for name in names)
    )
    script(
        "CREATE TABLE counts (n BIGINT, total BIGINT, PRIMARY KEY (n) NOT ENFORCED) WITH ('connector' = 'blackhole')"
    )
    session, text = script.session, f"INSERT INTO counts {QUERY}"
    (insert,) = [each.statement for each in parse_script(text)]
    assert isinstance(insert, Insert)
    texts = MagicMock(side_effect=session.spark.sql)
    monkeypatch.setattr(session.spark, "sql", texts)
    before = last_frame(session.spark)
    session._inserts.prepare(insert, Source(text), is_explained=True)
    assert (texts.call_count, last_frame(session.spark) - before - 1) == (TEXTS, FRAMES)


def last_frame(spark: Any) -> int:
    """Return the number of a new DataFrame. Spark numbers all that it has analysed."""
    return int(spark.range(1)._jdf.queryExecution().id())
