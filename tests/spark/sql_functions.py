"""Functions for CREATE FUNCTION ... LANGUAGE PYTHON in tests."""

from __future__ import annotations

from pyspark.sql.functions import udf


def shout(text: str) -> str:
    return f"{text.upper()}!"


guess = udf(shout, useArrow=False).asNondeterministic()
