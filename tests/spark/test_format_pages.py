"""The programs of docs/changelog-formats.md and docs/upsert-tables.md read what the pages say."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import Row, SparkSession

from penstock.testing import run_to_end
from tests import judge
from tests.fix_broker import MakeTopic
from tests.spark.queries import stopped

DOCS = Path(__file__).parents[2] / "docs"


def rows_of(spark: SparkSession, page: str, frame: str, replaced: dict[str, str], name: str) -> list[Row]:
    """Run the program of a page with this test's topic and brokers, and return the rows of its stream."""
    (code,) = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)
    for old, new in replaced.items():
        assert old in code
        code = code.replace(old, new)
    scope: dict[str, Any] = {"spark": spark}
    exec(compile(code, page, "exec"), scope)  # noqa: S102 - the page's own program
    with stopped(scope[frame].writeStream.format("memory").queryName(name).start()) as query:
        run_to_end(query)
        return spark.table(name).collect()


def test_the_changes_of_the_page_are_rows_with_kinds(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    source = b'"source":{"db":"shop"},"ts_ms":1767323045000'
    judge.produce(
        bootstrap,
        topic,
        b'{"before":null,"after":{"id":1,"name":"a"},"op":"c",%s}' % source,
        b'{"before":{"id":1,"name":"a"},"after":{"id":1,"name":"b"},"op":"u",%s}' % source,
        b'{"before":{"id":1,"name":"b"},"after":null,"op":"d",%s}' % source,
    )
    replaced = {"localhost:9092": bootstrap, "shop.public.goods": topic}
    rows = rows_of(spark, "changelog-formats.md", "changes", replaced, "page_changes")
    assert [(row.row_kind, row.id, row.name) for row in rows] == [
        ("+I", 1, "a"),
        ("-U", 1, "a"),
        ("+U", 1, "b"),
        ("-D", 1, "b"),
    ]
    assert {row.db for row in rows} == {"shop"}
    assert {row.at.astimezone(UTC) for row in rows} == {datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)}


def test_the_table_of_the_page_is_upserts_and_deletes(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    key = b'{"id":7}'
    judge.produce(bootstrap, topic, (key, b'{"id":7,"name":"a"}'), (key, b'{"id":7,"name":"b"}'), (key, None))
    replaced = {"localhost:9092": bootstrap, '"topic", "customers"': f'"topic", "{topic}"'}
    rows = rows_of(spark, "upsert-tables.md", "table", replaced, "page_table")
    assert [(row.row_kind, row.id, row.name, row.offset) for row in rows] == [
        ("+U", 7, "a", 0),
        ("+U", 7, "b", 1),
        ("-D", 7, None, 2),
    ]
