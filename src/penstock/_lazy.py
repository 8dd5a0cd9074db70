"""Load the public names of a package when they are first used. Its `__init__.pyi` is the only list of them.

Runs wherever penstock is imported. Invariants: importing a package loads none of its names. Each import of a
stub has one name, as `from home import Name as Name`; type checkers and editors read the same list.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_IMPORT = re.compile(r"^from ([\w.]+) import \(?\s*(\w+) as \2\b", re.MULTILINE)


Loader = Callable[[str], Any]


def names_of_stub(
    package: str, file: str, *, needs_sources: bool = False
) -> tuple[list[str], Loader, Callable[[], list[str]]]:
    """Return `__all__`, `__getattr__` and `__dir__` of a package. The last two know its public modules too.

    Modules are not in `__all__`, because `from penstock import *` would need all extras.

    Args:
        package: the name of the package.
        file: its `__file__`. The stub is beside it.
        needs_sources: whether what comes from `penstock.spark` does not work on Spark 3.5.
    """
    text = Path(file).with_suffix(".pyi").read_text(encoding="utf-8")
    homes = {name: home for home, name in _IMPORT.findall(text)}

    def load(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if needs_sources and home.startswith("penstock.spark."):
            from penstock._pyspark import check_pyspark  # noqa: PLC0415 - only then

            check_pyspark()
        try:
            if home == package:
                return importlib.import_module(f"{package}.{name}")
            return getattr(importlib.import_module(home), name)
        except ImportError as error:
            from penstock._pyspark import explain_import_error  # noqa: PLC0415 - only then

            explain_import_error(error)
            raise

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return [name for name, home in homes.items() if home != package], load, list_names
