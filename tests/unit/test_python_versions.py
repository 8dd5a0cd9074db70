"""What runs on the newest Python must also run on the oldest that is promised (3.10).

Type checker and linter look for 3.10's syntax and names; this looks for what they let pass.
"""

from __future__ import annotations

import ast
from pathlib import Path

import penstock

SOURCES = sorted(Path(penstock.__file__).parent.rglob("*.py"))


def bases(node: ast.ClassDef) -> list[str]:
    return [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases]


def classes(source: Path) -> list[ast.ClassDef]:
    return [node for node in ast.walk(ast.parse(source.read_text())) if isinstance(node, ast.ClassDef)]


def test_named_tuples_have_no_other_base() -> None:
    # A generic NamedTuple is a TypeError at import before Python 3.11.
    assert SOURCES
    wrong = [
        f"{source}: {node.name}"
        for source in SOURCES
        for node in classes(source)
        if "NamedTuple" in bases(node) and len(node.bases) > 1
    ]
    assert not wrong
