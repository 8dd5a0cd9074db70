"""Table functions for CREATE FUNCTION ... LANGUAGE PYTHON in tests."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql.functions import udtf
from pyspark.sql.udtf import UserDefinedTableFunction


class Words:
    """Gives the words of a text, with their numbers from 1."""

    def eval(self, text: str) -> Iterator[tuple[str, int]]:
        for ordinal, word in enumerate(text.split(), 1):
            yield word, ordinal


words = udtf(Words, returnType="word STRING, place INT")
pure_words = UserDefinedTableFunction(Words, "word STRING, place INT").asDeterministic()
