"""The bugs that `python -m tests.mutants` plants stand in the code as it is now."""

from __future__ import annotations

import pytest

from tests.mutants import MUTANTS, ROOT, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.name)
def test_the_line_of_a_mutant_stands_once_in_its_file(mutant: Mutant) -> None:
    text = (ROOT / "src" / "penstock" / mutant.path).read_text(encoding="utf-8")
    assert text.count(mutant.old) == 1
    assert mutant.new != mutant.old
