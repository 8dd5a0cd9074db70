"""Spark classic and Connect: which of them a session is, and their errors in one line.

Runs on the driver. Invariant: a password in an address is not shown.
"""

from __future__ import annotations

from typing import Any

from penstock.sql.language.source import without_secrets


def first_line(error: BaseException) -> str | None:
    """Return the first line of an error of Spark or Java; None for another error.

    PySpark leaves some errors of Java as they are, so they have no class of PySpark.
    """
    java = getattr(error, "java_exception", None)
    if java is None and not type(error).__module__.startswith("pyspark.errors"):
        return None
    text = str(java.toString()) if java is not None else str(error)
    return without_secrets(text.strip().split("\n")[0])


def is_connect(session: Any) -> bool:
    """Return whether a session or DataFrame is of Spark Connect."""
    return type(session).__module__.startswith("pyspark.sql.connect")
