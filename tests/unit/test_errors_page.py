"""docs/errors.md is made of docstrings, and each of them says what it means and what to do."""

from __future__ import annotations

import pytest

from penstock.errors import PenstockError
from tests import errors_page
from tests.errors_page import classes, meaning_and_cure


def test_the_page_is_that_of_the_docstrings() -> None:
    assert errors_page.PAGE.read_text(encoding="utf-8") == errors_page.text(), "run `make docs`"


@pytest.mark.parametrize("cls", classes(), ids=lambda each: each.__name__)
def test_each_error_says_what_it_means_and_what_to_do(cls: type[PenstockError]) -> None:
    meaning, cure = meaning_and_cure(cls)
    assert meaning.endswith(".")
    assert cure.endswith(".")


def test_all_classes_are_found() -> None:
    def below(cls: type[PenstockError]) -> set[type[PenstockError]]:
        own = {each for each in cls.__subclasses__() if each.__module__ == PenstockError.__module__}
        return {cls} | {found for each in own for found in below(each)}

    assert set(classes()) == below(PenstockError)


def test_a_docstring_without_a_cure_is_found() -> None:
    class BareError(PenstockError):
        """The broker is tired."""

    assert meaning_and_cure(BareError) == ("The broker is tired.", "")
