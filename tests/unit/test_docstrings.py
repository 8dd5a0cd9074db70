"""Each public function of the inner rooms has a docstring, unless it is short or implements one that has.

ruff asks the rooms of public names for every docstring (D102, D103). In the inner rooms a docstring such as
"Return the topics." on `def topics()` told a reader what the line above it told.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "penstock"
SHORT = 3
_Function = ast.FunctionDef | ast.AsyncFunctionDef


class Classes:
    """The classes of some files: which methods each has, and which classes it is made of."""

    def __init__(self, trees: list[ast.Module]) -> None:
        self._bases: dict[str, set[str]] = defaultdict(set)
        self._methods: dict[str, set[str]] = defaultdict(set)
        for node in (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
            self._bases[node.name] |= {_last_name(base) for base in node.bases}
            self._methods[node.name] |= {each.name for each in node.body if isinstance(each, _Function)}

    def implements(self, owner: str, method: str) -> bool:
        """Return whether a base class, or a protocol of which the owner has all methods, has that method."""
        inherited = self._inherited(owner)
        return method in inherited or any(
            method in self._methods[each] <= self._methods[owner] | inherited
            for each, bases in self._bases.items()
            if "Protocol" in bases and each != owner
        )

    def _inherited(self, owner: str) -> set[str]:
        found, waiting, seen = set[str](), set(self._bases[owner]), {owner}
        while waiting:
            base = waiting.pop()
            found |= self._methods[base]
            seen.add(base)
            waiting |= self._bases[base] - seen
        return found


def _last_name(base: ast.expr) -> str:
    named = base.value if isinstance(base, ast.Subscript) else base
    return named.attr if isinstance(named, ast.Attribute) else getattr(named, "id", "")


def public_functions(tree: ast.Module) -> Iterator[tuple[str, _Function]]:
    """Return the public functions, and methods of public classes, each with the name of its class or ''."""
    for node in tree.body:
        if isinstance(node, _Function) and not node.name.startswith("_"):
            yield "", node
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from (
                (node.name, each)
                for each in node.body
                if isinstance(each, _Function) and not each.name.startswith("_")
            )


def undocumented(tree: ast.Module, classes: Classes) -> list[str]:
    """Return 'line: name' of each public function that owes its reader a docstring."""
    return [
        f"{node.lineno}: {node.name}"
        for owner, node in public_functions(tree)
        if ast.get_docstring(node) is None
        and (node.body[-1].end_lineno or 0) - node.body[0].lineno >= SHORT
        and not classes.implements(owner, node.name)
    ]


def _found(text: str) -> list[str]:
    tree = ast.parse(text)
    return undocumented(tree, Classes([tree]))


LONG = "\n".join(f"        a{each} = {each}" for each in range(SHORT + 1))


def test_a_long_function_owes_a_docstring() -> None:
    assert _found(f"class A:\n    def f(self):\n{LONG}") == ["2: f"]
    assert _found(f'class A:\n    def f(self):\n        """Say it."""\n{LONG}') == []
    assert _found("class A:\n    def f(self):\n        return 1") == []


def test_an_implementation_may_leave_it_to_its_base_class() -> None:
    base = "class A:\n    def f(self): ...\nclass B(A): ...\n"
    assert _found(f"{base}class C(B):\n    def f(self):\n{LONG}") == []
    assert _found(f"{base}class C(B):\n    def g(self):\n{LONG}") == ["5: g"]


def test_an_implementation_may_leave_it_to_a_protocol() -> None:
    base = "class P(Protocol):\n    def f(self): ...\n    def g(self): ...\n"
    assert _found(f"{base}class C:\n    def g(self): ...\n    def f(self):\n{LONG}") == []
    assert _found(f"{base}class C:\n    def f(self):\n{LONG}") == ["5: f"]


def test_functions_of_penstock_have_the_docstrings_that_they_owe() -> None:
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))}
    classes = Classes(list(trees.values()))
    found = [
        f"{path.relative_to(SOURCE)}:{each}"
        for path, tree in trees.items()
        if not path.name.startswith("_")
        for each in undocumented(tree, classes)
    ]
    assert not found, "\n".join(found)
