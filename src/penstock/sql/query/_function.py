"""What a function of Flink becomes in Spark's SQL.

Runs on the driver. Invariant: a translation says how many arguments it takes and which type it gives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.sql.query.piece import Piece
from penstock.sql.query.rows import Varies

MANY = 1_000


@dataclass(frozen=True)
class Function:
    """A function.

    Attributes:
        least: the smallest number of arguments.
        most: the largest one.
        text: with `{0}`, `{1}` ... for arguments and `{all}` for all of them; or a function of the pieces.
        type: of the result, as Spark's simple string; "" for asking Spark; "{0}" for that of an argument.
        varies: how often it may have another value for the same arguments.
    """

    least: int
    most: int
    text: str | Callable[[list[Piece]], str]
    type: str = ""
    varies: Varies = Varies.NEVER

    def apply(self, args: list[Piece]) -> str:
        """Return the translation.

        Raises:
            ValueError: an argument is not served. The message says what to do.
        """
        if callable(self.text):
            return self.text(args)
        texts = [each.text for each in args]
        return self.text.format(*texts, all=", ".join(texts))
