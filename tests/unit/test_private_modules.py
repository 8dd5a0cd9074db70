"""A module whose name begins with `_` is imported by its own folder, and those in it, only."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.unit.syntax_trees import nodes_in, nodes_of

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"


def modules() -> set[str]:
    found = (path.relative_to(SOURCE).with_suffix("") for path in SOURCE.glob("penstock/**/*.py*"))
    return {".".join(path.parts) for path in found}


def imports(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Every module that could be meant: of `from a import b` both a and a.b."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)


def intruders(importer: str, nodes: Iterable[ast.AST], known: set[str]) -> list[str]:
    """The private modules of other folders that a module imports."""
    folder = importer.rpartition(".")[0]
    private = (each for each in imports(nodes) if each in known and each.rpartition(".")[2].startswith("_"))
    outside = (each for each in private if not f"{folder}.".startswith(f"{each.rpartition('.')[0]}."))
    return sorted({each for each in outside if "__init__" not in each})


def test_private_modules_are_imported_by_their_own_folder_only() -> None:
    known = modules()
    found = {}
    for path in [*SOURCE.glob("**/*.py"), *(ROOT / "benchmarks").glob("*.py")]:
        base = SOURCE if path.is_relative_to(SOURCE) else ROOT
        importer = ".".join(path.relative_to(base).with_suffix("").parts)
        if entered := intruders(importer, nodes_of(path), known):
            found[importer] = entered
    assert found == {}


def test_an_intruder_is_found() -> None:
    known = {"penstock.sink._partitioner", "penstock.sink.rows"}
    nodes = nodes_in("from penstock.sink import _partitioner, rows")
    assert intruders("penstock.spark.schema", nodes, known) == ["penstock.sink._partitioner"]
    assert intruders("penstock.sink.writer", nodes, known) == []
