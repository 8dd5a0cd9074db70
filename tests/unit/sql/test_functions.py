"""Every function and operator that Flink 2.3 lists is served, or refused with a message of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import SqlError
from penstock.sql.functions.names import is_flinks
from penstock.sql.functions.not_served import FREE, REFUSED
from tests.unit.sql.listed_functions import IN_OTHER_TESTS, IN_QUERIES, LISTED, SERVED, WRITTEN
from tests.unit.sql.planning import BATCH, planned, refused

PAGE = (Path(__file__).parents[3] / "docs" / "functions.md").read_text()


def test_every_listed_name_is_known() -> None:
    known = {*SERVED, *IN_QUERIES, *IN_OTHER_TESTS, *REFUSED, *WRITTEN}
    assert [each for each in LISTED if each not in known] == []


@pytest.mark.parametrize("name", IN_QUERIES)
def test_an_operator_of_flink_is_served(name: str) -> None:
    assert planned(f"SELECT {IN_QUERIES[name]} FROM t", BATCH).sql


@pytest.mark.parametrize("name", [each for each in LISTED if each in {*REFUSED, *WRITTEN} - SERVED])
def test_a_function_of_flink_that_is_not_served_is_refused_by_name(name: str) -> None:
    with pytest.raises(SqlError) as error:
        planned(f"SELECT {WRITTEN.get(name, f'{name}(s)')} FROM t", BATCH)
    assert f"{name.removeprefix('NOT ')} is not served" in str(error.value)


@pytest.mark.parametrize("name", ["CURRENT_TIME", "LOCALTIME", "CURRENT_USER"])
def test_a_word_without_brackets_is_refused_where_it_stands(name: str) -> None:
    said = refused(f"SELECT i FROM t WHERE {name} > 1", BATCH) or ""
    assert said.startswith(f"Line 1, column 23: {name} is not served")


def test_a_name_is_served_or_refused_and_not_both() -> None:
    assert not SERVED & set(REFUSED)


@pytest.mark.parametrize("name", [each for each in LISTED if each in SERVED])
def test_a_function_of_the_user_cannot_have_the_name_of_one_that_is_served(name: str) -> None:
    assert is_flinks(name)


def test_a_function_of_the_user_may_have_names_that_flink_uses_in_patterns() -> None:
    assert not any(map(is_flinks, FREE))


@pytest.mark.parametrize("name", LISTED)
def test_the_page_of_functions_names_each(name: str) -> None:
    assert f"`{name}`" in PAGE.replace("\\|", "|")
