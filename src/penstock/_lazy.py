"""Load the public names of a package when they are first used. Its `__init__.pyi` is the only list of them.

Runs wherever penstock is imported. Invariants: importing a package loads none of its names. Each import of a
stub has one name, as `from home import Name as Name`; type checkers and editors read the same list.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

_IMPORT = re.compile(r"^from ([\w.]+) import \(?\s*(\w+) as \2\b", re.MULTILINE)


def names_of_stub(package: str, file: str) -> tuple[list[str], Callable[[str], Any]]:
    """Return the names of a package, and its `__getattr__`.

    Args:
        package: the name of the package.
        file: its `__file__`. The stub is beside it.
    """
    text = Path(file).with_suffix(".pyi").read_text(encoding="utf-8")
    homes = {name: home for home, name in _IMPORT.findall(text)}

    def load(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(home), name)

    return list(homes), load
