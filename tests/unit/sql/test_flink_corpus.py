"""The scripts that Flink judged: every answer belongs to the script as it is now."""

from __future__ import annotations

import pytest

from tests.judges.sql.corpus import MODES, SCRIPTS, recorded
from tests.spark.sql_answers import answers

AGAIN = "FLINK=1 python -m tests.judges.sql --missing"


@pytest.mark.parametrize("mode", MODES)
def test_flink_has_answered_the_scripts_as_they_are_now(mode: str) -> None:
    found = recorded(mode)
    assert found.keys() <= SCRIPTS.keys()
    assert [name for name, answer in found.items() if answer["asked"] != SCRIPTS[name].asked] == [], AGAIN
    needed = {
        name
        for name, each in SCRIPTS.items()
        if mode in each.modes and (mode != "batch" or each.is_quick(mode))
    }
    assert needed - found.keys() == set(), AGAIN


def test_what_is_listed_as_refused_is_a_script_that_flink_runs() -> None:
    for mode, messages in answers("corpus/refused").items():
        for name, message in messages.items():
            assert mode in SCRIPTS[name].modes
            assert message
