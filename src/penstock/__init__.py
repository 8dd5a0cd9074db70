"""penstock: what Flink users have with Kafka, for PySpark users. This module has public names only.

`__init__.pyi` lists the names and their modules. `penstock.extend` has the classes that users subclass.
Invariant: `import penstock` is fast. A name loads its module, and PySpark if needed, when it is first used.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

__version__ = "0.1.0"

_LIST = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
_HOMES = {name: home for home, name in re.findall(r"^from ([\w.]+) import \(?\s*(\w+) as \2\b", _LIST, re.M)}
__all__ = ["__version__", *_HOMES]  # noqa: PLE0604 - names, all of them


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
