"""Tell Spark Connect from Spark classic, whose DataFrames have functions of their own.

Runs in the user's program. Invariant: neither module of Spark is imported before a DataFrame of it is there.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any


def is_connect(session: Any) -> bool:
    """Return whether a session or DataFrame is of Spark Connect."""
    return type(session).__module__.startswith("pyspark.sql.connect.")


def functions_for(df: Any) -> ModuleType:
    """Return Spark's functions for a DataFrame. A program may use classic Spark and Connect."""
    return importlib.import_module(f"pyspark.sql{'.connect' if is_connect(df) else ''}.functions")
