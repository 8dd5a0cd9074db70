"""Plant a mutant in penstock: change the text of a function, compile it, and give the function the new code.

Runs in tests only. The function object stays the same, so that every module that has imported it is changed,
too. Invariant: the text to replace stands once in the function. Otherwise the mutant is out of date.
"""

from __future__ import annotations
import __future__

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from tests.simulation.plan import Plan, plan_of


class Edit(NamedTuple):
    """A change of one function: `before` stands in it once, and `after` takes its place."""

    function: Any
    before: str
    after: str


@dataclass(frozen=True)
class Mutant:
    """A bug in penstock.

    Attributes:
        name: what the code does then.
        edits: the changes that make it.
        seed: of a history that finds it.
        found_by: a history that finds it, if no seed is known that does.
        harmless: why no promise is broken, for a mutant that no history can find.
    """

    name: str
    edits: tuple[Edit, ...]
    seed: int | None = None
    found_by: Plan | None = None
    harmless: str = ""

    @property
    def history(self) -> Plan | None:
        """Return the history that finds it; None if it is harmless."""
        return self.found_by if self.seed is None else plan_of(self.seed)

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Give penstock the bug."""
        with ExitStack() as stack:
            for edit in self.edits:
                stack.enter_context(_edited(edit))
            yield


@contextmanager
def _edited(edit: Edit) -> Iterator[None]:
    function = plain_function(edit.function)
    before, function.__code__ = function.__code__, edited_code(edit)
    try:
        yield
    finally:
        function.__code__ = before


def edited_code(edit: Edit) -> CodeType:
    """Return the code of the function with the change."""
    function = plain_function(edit.function)
    text = textwrap.dedent(inspect.getsource(function))
    if text.count(edit.before) != 1:
        count = text.count(edit.before)
        msg = f"expected {edit.before!r} once in {function.__qualname__}, got it {count} times"
        raise ValueError(msg)
    tree = ast.parse(text.replace(edit.before, edit.after))
    (node,) = tree.body
    assert isinstance(node, ast.FunctionDef)
    node.decorator_list = []
    flags = __future__.annotations.compiler_flag
    room = dict(function.__globals__)
    exec(compile(tree, f"<mutant of {function.__qualname__}>", "exec", flags), room)  # noqa: S102 - our own text
    code: CodeType = room[node.name].__code__
    return code


def plain_function(found: Any) -> FunctionType:
    """Return the function behind a property, a method or a decorator."""
    if isinstance(found, property):
        found = found.fget
    found = inspect.unwrap(getattr(found, "__func__", found))
    assert isinstance(found, FunctionType)
    return found


def first_kill(mutant: Mutant, plans: Iterable[Plan], fails: Callable[[Plan], bool]) -> Plan | None:
    """Return the first of these histories that finds a mutant; None if none does."""
    with mutant.planted():
        return next((plan for plan in plans if fails(plan)), None)
