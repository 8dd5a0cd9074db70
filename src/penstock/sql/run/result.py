"""What a statement gave.

Runs on the driver. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.sql.run.job import Job

Row = tuple[str, ...]


@dataclass(frozen=True)
class Result:
    """What a statement gave.

    Attributes:
        message: a line for the user; "" without one.
        columns: the names of the columns of `rows`.
        rows: of SHOW, DESCRIBE and EXPLAIN, as texts.
        job: of an INSERT or statement set.
        frame: the DataFrame of a SELECT.
        is_changing: whether the last column of `frame` says how each row changes the result.
    """

    message: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    job: Job | None = None
    frame: Any = None
    is_changing: bool = False
