"""The function of a query that the benchmark has in Java, for CREATE FUNCTION ... LANGUAGE PYTHON."""

from __future__ import annotations

from pyspark.sql.functions import udf
from pyspark.sql.types import LongType


def _count_char(text: str | None, character: str) -> int:
    return 0 if text is None else text.encode().count(character.encode()[:1])


count_char = udf(_count_char, LongType(), useArrow=False)
"""Returns how often the first byte of a character stands in a text."""
