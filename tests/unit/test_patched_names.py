"""A name that a test replaces in a module of ours is there: slow suites do not find out an hour later."""

from __future__ import annotations

import ast
import pkgutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.unit.syntax_trees import nodes_in, nodes_of

TESTS = Path(__file__).parents[1]


def imported(nodes: Iterable[ast.AST]) -> dict[str, str]:
    """The local name of what is imported from our package, and its path: `rows` is `penstock.sink.rows`."""
    froms = (node for node in nodes if isinstance(node, ast.ImportFrom))
    ours = [node for node in froms if (node.module or "").startswith("penstock")]
    return {each.asname or each.name: f"{node.module}.{each.name}" for node in ours for each in node.names}


def target_of(node: ast.expr, names: dict[str, str]) -> str | None:
    """Return where the object of an expression such as `session._inserts` is, if it is of ours."""
    if isinstance(node, ast.Attribute):
        owner = target_of(node.value, names)
        return owner and f"{owner}.{node.attr}"
    return names.get(node.id) if isinstance(node, ast.Name) else None


def replaced(nodes: list[ast.AST]) -> Iterator[str]:
    """Every name of ours that `setattr(owner, "name", value)` or `setattr("module.name", value)` replaces."""
    names = imported(nodes)
    calls = (node for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute))
    for call in (each for each in calls if each.func.attr == "setattr"):  # type: ignore[attr-defined]  # filtered above
        match call.args:
            case [ast.Constant(value=str(path)), _] if path.startswith("penstock."):
                yield path
            case [owner, ast.Constant(value=str(name)), _] if (found := target_of(owner, names)) is not None:
                yield f"{found}.{name}"


def is_there(path: str) -> bool:
    try:
        pkgutil.resolve_name(path)
    except (AttributeError, ImportError):
        return False
    return True


def test_each_replaced_name_is_there() -> None:
    missing = {
        (str(path.relative_to(TESTS)), name)
        for path in TESTS.glob("**/*.py")
        for name in replaced(nodes_of(path))
        if not is_there(name)
    }
    assert missing == set()


def test_a_name_that_moved_away_is_found() -> None:
    line = "from penstock.sink import rows as it"
    gone = nodes_in(f'{line}\npatch.setattr(it, "gone", 1)\npatch.setattr("penstock.sink.rows.gone", 1)')
    assert [is_there(each) for each in replaced(gone)] == [False, False]
    there = nodes_in(f'{line}\npatch.setattr(it, "__name__", 1)\npatch.setattr(it.__doc__, "strip", 1)')
    assert [is_there(each) for each in replaced(there)] == [True, True]
