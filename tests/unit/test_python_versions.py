"""Code has to run on every supported Python. These tests check what type checker and linter do not see."""

from __future__ import annotations

import re
from pathlib import Path

import penstock

PACKAGE = Path(penstock.__file__).parent
C_HEADERS = sorted(PACKAGE.rglob("*.h"))
CPYTHONS = re.compile(
    r"(?:parse|scan|write)_(?:signed_)?varint|write_location_entry_start|(?:read|write)_(?:obj|u16|u32|u64)"
)
"""Functions in CPython's internal headers, which Cython's generated C includes from Python 3.13 on."""


def test_c_functions_have_names_of_their_own() -> None:
    functions = re.compile(r"^static inline .*?(\w+)\(", re.MULTILINE)
    defined = {name: str(header) for header in C_HEADERS for name in functions.findall(header.read_text())}
    assert "store_varint" in defined
    assert not {name: where for name, where in defined.items() if CPYTHONS.fullmatch(name)}
