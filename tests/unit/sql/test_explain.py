"""What EXPLAIN says about state, input and output."""

from __future__ import annotations

import pytest

from penstock.sql.run._explain import Explanation, option_text, read_warnings, states, write_warnings

AGGREGATE = "StateStoreSave [window#1]\n+- EventTimeWatermark ts#2"
JOIN = "StreamingSymmetricHashJoin [a#1], [b#2], Inner, condition = [], state cleanup [ left = null, right = null ]"


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        ("*(1) Project [a#1]", ["none"]),
        (AGGREGATE, ["an aggregation keeps one entry for each group: until the watermark has passed"]),
        ("StateStoreSave [a#1]", ["an aggregation keeps one entry for each group: it grows without an end"]),
        (JOIN, ["a join keeps the rows of both sides: it grows without an end"]),
        (f"{JOIN}\nEventTimeWatermark", ["a join keeps the rows of both sides: it grows without an end"]),
        ("StreamingGlobalLimit 3", ["LIMIT keeps the number of rows that were given: one number"]),
    ],
)
def test_the_state_of_a_plan(plan: str, expected: list[str]) -> None:
    assert states(plan) == expected


def test_warnings_about_input() -> None:
    kafka = {"connector": "kafka", "scan.bounded.mode": "latest-offset"}
    found = read_warnings(AGGREGATE, [kafka])
    assert len(found) == 2
    assert "follows the fastest topic partition" in found[0]
    assert "windows that no later record closes" in found[1]
    aligned = {"connector": "kafka", "scan.watermark.alignment.max-drift": "1 min"}
    assert read_warnings(AGGREGATE, [aligned]) == []
    assert read_warnings("Project", [kafka]) == []
    assert "grows without an end" in read_warnings(JOIN, [kafka])[0]


def test_warnings_about_output() -> None:
    [twice, folder] = write_warnings("kafka", {}, (), folder=None)
    assert "'sink.delivery-guarantee' = 'exactly-once'" in twice
    assert "SET 'execution.checkpointing.dir'" in folder
    assert write_warnings("kafka", {"sink.delivery-guarantee": "EXACTLY_ONCE"}, (), folder="/c") == []
    assert "PRIMARY KEY" in write_warnings("jdbc", {}, (), folder="/c")[0]
    assert write_warnings("jdbc", {}, ("id",), folder="/c") == []
    assert write_warnings("print", {}, (), folder=None) == []


def test_an_explanation_shows_no_secret() -> None:
    found = Explanation("SELECT")
    found.add(
        "Reads", [option_text("ssl.password", "hunter2"), option_text("url", "jdbc:x?password=hunter2&a=b")]
    )
    found.add("State", [])
    found.add("Reads", ["a\nb"])
    assert list(found.lines()) == [
        "SELECT",
        "  Reads:",
        "    'ssl.password' = '*******'",
        "    'url' = 'jdbc:x?password=*******&a=b'",
        "    a",
        "    b",
    ]
