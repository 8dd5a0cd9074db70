"""The syntax trees of Python files: each file is parsed once for all tests that look at it."""

from __future__ import annotations

import ast
import functools
from pathlib import Path


@functools.cache
def nodes_of(path: Path) -> list[ast.AST]:
    """Return what `nodes_in` finds in a file."""
    return nodes_in(path.read_text(encoding="utf-8"))


def nodes_in(text: str) -> list[ast.AST]:
    """Return the nodes that tests look at: imports, calls and classes, anywhere in the text."""
    kinds = (ast.Import, ast.ImportFrom, ast.Call, ast.ClassDef)
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)]
