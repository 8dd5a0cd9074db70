"""Code that runs on the newest Python must also run on the oldest supported one (3.10).

Type checker and linter check syntax and names of 3.10. This test checks what they do not see.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import penstock
from tests.unit.syntax_trees import nodes_of

PACKAGE = Path(penstock.__file__).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))
C_HEADERS = sorted(PACKAGE.rglob("*.h"))
CPYTHONS = re.compile(
    r"(?:parse|scan|write)_(?:signed_)?varint|write_location_entry_start|(?:read|write)_(?:obj|u16|u32|u64)"
)
"""Functions in CPython's internal headers, which Cython's generated C includes from Python 3.13 on."""


def bases(node: ast.ClassDef) -> list[str]:
    return [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases]


def classes(source: Path) -> list[ast.ClassDef]:
    return [node for node in nodes_of(source) if isinstance(node, ast.ClassDef)]


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


def test_c_functions_have_names_of_their_own() -> None:
    functions = re.compile(r"^static inline .*?(\w+)\(", re.MULTILINE)
    defined = {name: str(header) for header in C_HEADERS for name in functions.findall(header.read_text())}
    assert "store_varint" in defined
    assert not {name: where for name, where in defined.items() if CPYTHONS.fullmatch(name)}
