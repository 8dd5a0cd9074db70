"""Functions for CREATE FUNCTION ... LANGUAGE PYTHON in tests."""

from __future__ import annotations

from datetime import datetime

from pyspark.sql.functions import udf


def shout(text: str) -> str:
    return f"{text.upper()}!"


guess = udf(shout, useArrow=False).asNondeterministic()


def shown(time: datetime) -> str:
    """Return a time as Python sees it."""
    return str(time)
