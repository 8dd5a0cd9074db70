"""The program of docs/cdc-tutorial.md, and a column that is added later (docs/debezium.md), on real Spark."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkFiles
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from penstock.errors import MaterializeError, StateError
from tests import judge
from tests.fix_broker import MakeTopic
from tests.spark.queries import QUERY_TIMEOUT_S, stopped

PAGE = Path(__file__).parents[2] / "docs" / "cdc-tutorial.md"
TOPIC = "shop.public.customers"


def program() -> str:
    found = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def warnings_said() -> set[str]:
    """The processes of Spark note here what was logged in a run."""
    return {path.name for path in Path(SparkFiles.getRootDirectory()).glob(".penstock-said-*")}


def event(op: str, before: Any, after: Any) -> tuple[bytes, bytes]:
    key = {"id": (after or before)["id"]}
    return json.dumps(key).encode(), json.dumps({"op": op, "before": before, "after": after}).encode()


class Programs:
    """The program of the page, with other columns, states, checkpoints and tables."""

    def __init__(self, spark: SparkSession, bootstrap: str, topic: str, folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        code = program().replace("localhost:9092", bootstrap).replace(TOPIC, topic)
        code = code.replace("/tmp/", f"{folder}/")  # noqa: S108 - the text of the example
        code = code.replace("query.awaitTermination()", "")
        self._code = code.replace(".start()", ".trigger(availableNow=True).start()")

    def run(self, *, city: bool = False, state: str = "s", checkpoint: str = "c", table: str = "t") -> None:
        """Run the program until it has read all that is there."""
        code = self._code.replace("customers-state", state).replace("customers-checkpoint", checkpoint)
        code = code.replace('SqlTable("customers"', f'SqlTable("{table}"')
        if city:
            code = code.replace("name STRING, ", "name STRING, city STRING, ")
        scope: dict[str, Any] = {"spark": self._spark}
        exec(compile(code, "cdc-tutorial.md", "exec"), scope)  # noqa: S102 - running the example is the point
        with stopped(scope["query"]) as query:
            assert query.awaitTermination(QUERY_TIMEOUT_S)

    def rows(self, table: str) -> list[Any]:
        """Return the rows of a table by their keys."""
        with closing(sqlite3.connect(self._folder / "copies.db")) as connection:
            return connection.execute(f"SELECT * FROM {table} ORDER BY id").fetchall()  # noqa: S608 - of the test


def tuples(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in rows]


def test_a_column_is_added_in_the_source(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(partitions=3)
    of_page = Programs(spark, bootstrap, topic, tmp_path)
    old = [{"id": key, "name": f"n{key}"} for key in range(6)]
    judge.produce(bootstrap, topic, *(event("c", None, each) for each in old))
    said = warnings_said()
    of_page.run()
    assert of_page.rows("t") == tuples(old)
    assert warnings_said() == said
    new = [{**each, "city": "Rome"} for each in old]
    judge.produce(bootstrap, topic, *(event("u", a, b) for a, b in zip(old, new, strict=True)))
    of_page.run()
    assert of_page.rows("t") == tuples(old), "the column is left out"
    assert len(warnings_said() - said) == 1, "one warning for all tasks of the run"

    refused_when_called: list[tuple[type[Exception], str, dict[str, str]]] = [
        (StateError, "city string", {}),
        (MaterializeError, "has no column city", {"state": "s2"}),
        (MaterializeError, "has no column city", {"state": "s3", "checkpoint": "c2"}),
    ]
    for kind, message, options in refused_when_called:
        with pytest.raises(kind, match=f"{message}.*'Checkpoint, state and table'"):
            of_page.run(city=True, **options)
    judge.produce(bootstrap, topic, event("d", new[0], None))
    with pytest.raises(StreamingQueryException, match=r"There is no state in .*state and table'"):
        of_page.run(city=True, state="s4", table="t2")
    with pytest.raises(StreamingQueryException, match=r"the query id is .*state and table'"):
        of_page.run(checkpoint="c3")
    with pytest.raises(StreamingQueryException, match=r"is kept by query .*state and table'"):
        of_page.run(state="s5", checkpoint="c5")

    added = {"state": "s6", "checkpoint": "c6", "table": "t2"}
    of_page.run(city=True, **added)
    of_page.run()
    assert of_page.rows("t") == tuples(old[1:]), "the old columns continue"
    assert of_page.rows("t2") == tuples(new[1:])
