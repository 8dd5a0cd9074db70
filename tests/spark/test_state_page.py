"""The program and the commands of docs/state.md run as they are printed, on real Spark and a real broker."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from typer.testing import CliRunner

from penstock.cli.app import app
from penstock.testing import upsert_table
from tests import judge
from tests.fix_broker import MakeTopic
from tests.printed import section
from tests.spark.queries import stopped

PAGE = (Path(__file__).parents[2] / "docs" / "state.md").read_text(encoding="utf-8")
[PROGRAM] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = section("state.md", "Tools")
WIDER = re.findall(r"`normalize\(\.\.\., (state=.*?)\)`", PAGE)


def order(number: int, shop: str | None) -> tuple[bytes, bytes | None]:
    """Return the record of an order; of one that is deleted without a shop."""
    return b'{"id":%d}' % number, None if shop is None else b'{"id":%d,"shop":"%s"}' % (number, shop.encode())


def test_the_program_counts_and_goes_on_with_a_wider_copy_of_its_state(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    source, target = make_topic(), make_topic(2)

    def placed(text: str) -> str:
        """Return a text of the page with the folders, the topics and the address of this test."""
        text = text.replace("/tmp/", f"{tmp_path}/").replace("localhost:9092", bootstrap)  # noqa: S108
        return text.replace('"topic", "orders"', f'"topic", "{source}"').replace(
            '"topic", "shops"', f'"topic", "{target}"'
        )

    def run(code: str, expected: dict[str, int], *records: tuple[bytes, bytes | None]) -> None:
        judge.produce(bootstrap, source, *records)
        scope: dict[str, Any] = {"spark": spark}
        exec(compile(placed(code), "state.md", "exec"), scope)  # noqa: S102 - the page's own program
        with stopped(scope["query"]) as query:
            query.processAllAvailable()
        rows = upsert_table(bootstrap, target)
        assert {row["shop"]: row["orders"] for row in rows} == expected

    run(PROGRAM, {"a": 2, "b": 1}, order(1, "a"), order(2, "a"), order(3, "b"), order(3, "b"))
    run(PROGRAM, {"a": 1, "b": 2}, order(1, "b"))
    shown = [CliRunner().invoke(app, shlex.split(placed(command))[1:]) for command in COMMANDS]
    assert [each.exit_code for each in shown] == [0, 0, 0], [each.output for each in shown]
    assert "operator    normalize" in shown[0].output
    assert "No problem was found." in shown[1].output
    assert "into 3 partitions" in shown[2].output
    [wider] = WIDER
    assert PROGRAM.count('state=state, name="orders"') == 1
    run(PROGRAM.replace('state=state, name="orders"', wider), {"b": 1}, order(2, None), order(3, None))
