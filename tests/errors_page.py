"""Make the page docs/errors.md from the docstrings of penstock.errors.

Run `make docs` after you change one. Invariant: each class says what it means, and what to do.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

from penstock import errors
from penstock.errors import PenstockError
from tests.api_pages import linked

_CURE = "What to do: "
_HEAD = """\
# Errors

<!-- Made by `python -m tests.errors_page` (`make docs`): change the docstrings, not this. -->

All errors of penstock are classes of `penstock.errors`. The message of an error says more than this page: it
names the topic, the offset and the option. [How to read it](source.md#when-a-query-or-a-job-fails) says where
Spark's output has it. `except DataLossError` also catches its kinds, such as `OffsetOutOfRangeError`.
"""


def classes() -> list[type[PenstockError]]:
    """Return all classes of errors, in the order of the file."""
    tree = ast.parse(inspect.getsource(errors))
    found = (getattr(errors, node.name) for node in tree.body if isinstance(node, ast.ClassDef))
    return [each for each in found if issubclass(each, PenstockError)]


def meaning_and_cure(cls: type[PenstockError]) -> tuple[str, str]:
    """Return what a class means, and what to do; an empty text for what its docstring does not say."""
    paragraphs = [" ".join(each.split()) for each in (cls.__doc__ or "").split("\n\n")]
    cures = [each.removeprefix(_CURE) for each in paragraphs if each.startswith(_CURE)]
    meant = [each for each in paragraphs if not each.startswith(_CURE)]
    return "\n\n".join(meant), " ".join(cures)


def text() -> str:
    """Return the page."""
    return linked("\n".join([_HEAD, *(line for cls in classes() for line in _entry(cls))]), "")


def _entry(cls: type[PenstockError]) -> Iterator[str]:
    meaning, cure = meaning_and_cure(cls)
    parents = [each.__name__ for each in cls.__mro__[1:] if issubclass(each, PenstockError)]
    yield f"## {cls.__name__}\n"
    if parents:
        yield "A kind of " + ", ".join(f"[{each}](#{each.lower()})" for each in parents) + ".\n"
    yield f"**What it means.** {meaning}\n"
    yield f"**What to do.** {cure[:1].upper()}{cure[1:]}\n"


PAGE = Path(__file__).parents[1] / "docs" / "errors.md"

if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
    sys.stdout.write(f"{PAGE}\n")
