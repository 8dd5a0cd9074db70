"""The scripts that Flink judged: every answer and every outcome belongs to the script as it is now."""

from __future__ import annotations

import pytest

from tests.judges.sql import figures
from tests.judges.sql.corpus import MODES, SCRIPTS, recorded, wanted
from tests.judges.sql.outcomes import Outcome, each_of, kept

ASK = "FLINK=1 python -m tests.judges.sql --missing"
RUN = "python -m tests.judges.sql --missing"
REFUSED_BY_FLINK = (Outcome.REFUSED_BY_BOTH, Outcome.KINDER)
OF_A_MARK = {Outcome.LISTED: "differs", Outcome.KINDER: "kinder"}


def digests(mode: str) -> dict[str, str]:
    return {name: each.asked for name, each in SCRIPTS.items() if mode in each.modes}


@pytest.mark.parametrize("mode", MODES)
def test_flink_has_answered_the_scripts_as_they_are_now(mode: str) -> None:
    answered = {name: answer["asked"] for name, answer in recorded(mode).items()}
    assert answered.keys() <= SCRIPTS.keys()
    assert {name: answered.get(name) for name in digests(mode)} == digests(mode), ASK


@pytest.mark.parametrize("mode", MODES)
def test_penstock_has_run_the_scripts_as_they_are_now(mode: str) -> None:
    assert {name: each["of"] for name, each in kept()[mode].items()}.items() == digests(mode).items(), RUN


@pytest.mark.parametrize("mode", MODES)
def test_nothing_differs_but_what_a_script_says(mode: str) -> None:
    for script, outcome, message in each_of(mode):
        assert outcome not in (Outcome.DIFFERENT, Outcome.UNASKED), f"{script.name}: {message}"
        flinks = wanted(script, mode)
        assert flinks is not None
        assert ("error" in flinks) is (outcome in REFUSED_BY_FLINK), f"run {mode} {script.name} again"
        assert message or outcome is Outcome.EQUAL
        if outcome in OF_A_MARK:
            assert script.mark(OF_A_MARK[outcome], mode) == message, f"run {mode} {script.name} again"


def test_the_docs_have_the_figures() -> None:
    assert figures.missing_text() == ""
