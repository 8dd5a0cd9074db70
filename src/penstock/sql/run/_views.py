"""Spark as a session of SQL uses it: analysed queries, views with names of their own, and the zone.

Runs on the driver. Invariant: a view of Spark is made when a statement needs it, and reads nothing.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import uuid
from collections.abc import Iterator
from typing import Any

from penstock.spark.connect import is_connect
from penstock.sql.bind.context import UnknownTypeError
from penstock.sql.connectors.sessions import is_stopped
from penstock.sql.emit.select import Query
from penstock.sql.plan.texts import quoted

_ZONE = "spark.sql.session.timeZone"
_UTC = ("UTC", "Etc/UTC", "GMT", "Z", "+00:00")
_CLASS = re.compile(r"^\[[A-Z_.0-9]+\]\s*")


class SparkViews:
    """The views of one session in Spark.

    Attributes:
        spark: the session of Spark.
        foreign_zone: the zone of the session if queries run in UTC instead.
    """

    def __init__(self, spark: Any) -> None:
        self.spark = spark
        self.foreign_zone: str | None = None
        self._frames: dict[str, Any] = {}
        self._created: set[str] = set()
        self._numbers = itertools.count(1)
        self._prefix = f"penstock_sql_{uuid.uuid4().hex[:8]}"
        self._named = re.compile(rf"\b{self._prefix}_\d+\b")

    @property
    def zone_is_utc(self) -> bool:
        return self.spark.conf.get(_ZONE) in _UTC

    @contextlib.contextmanager
    def in_utc(self) -> Iterator[None]:
        """Return a context in which Spark is in UTC, although the session is not."""
        before = self.spark.conf.get(_ZONE)
        self.spark.conf.set(_ZONE, "UTC")
        self.foreign_zone = before
        try:
            yield
        finally:
            self.foreign_zone = None
            self.spark.conf.set(_ZONE, before)

    def analysed(self, select: str) -> Any:
        """Return the DataFrame of a query.

        Raises:
            UnknownTypeError: Spark refuses it.
        """
        for name in self._frames.keys() & set(self._named.findall(select)) - self._created:
            self._create(name, self._frames[name])
        with _refusals():
            frame = self.spark.sql(select)
            frame.schema  # noqa: B018 - a session of Connect analyses here
        return frame

    def rows(self, query: Query) -> Any:
        """Return the DataFrame of a query. Columns of one view are chosen without a text that Spark parses.

        Raises:
            UnknownTypeError: Spark refuses it.
        """
        if not query.view:
            return self.analysed(query.text)
        with _refusals():
            frame = self._frames[query.view].selectExpr(*query.columns)
            if is_connect(self.spark):
                frame.schema  # noqa: B018 - it analyses here
        return frame

    def named(self, frame: Any) -> str:
        """Return the name of a new view of rows, which no other rows ever have.

        Spark has the view when a text names it. Spark Connect has it at once, because its DataFrames look up
        what they name each time: only a view keeps what it was, and a stream that is read twice one source.
        """
        name = f"{self._prefix}_{next(self._numbers)}"
        if is_connect(self.spark):
            self._create(name, frame)
            frame = self.spark.table(name)
        self._frames[name] = frame
        return name

    def _create(self, name: str, frame: Any) -> None:
        frame.createOrReplaceTempView(name)
        self._created.add(name)

    def table(self, parts: tuple[str, ...]) -> Any:
        """Return a table or view of Spark; None if there is none."""
        name = ".".join(map(quoted, parts))
        return self.spark.table(name) if self.spark.catalog.tableExists(name) else None

    def function_name(self, name: str) -> str:
        """Return the name under which Spark knows a function of the user, which no other function has."""
        return f"{self._prefix}_{name.lower()}"

    def close(self) -> None:
        """Remove the views. DataFrames of Spark Connect look them up again, so they stay until then."""
        for name in self._created if not is_stopped(self.spark) else ():
            self.spark.catalog.dropTempView(name)
        self._created.clear()
        self._frames.clear()


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    from pyspark.errors import PySparkException  # noqa: PLC0415 - lazy

    try:
        yield
    except PySparkException as error:
        raise UnknownTypeError(spark_message(error)) from None


def spark_message(error: Any) -> str:
    """Return the first line of an error of Spark, without the name of its class."""
    text = _CLASS.sub("", str(error).strip()).split("\n")[0]
    return text.split(" SQLSTATE")[0].split("; line ")[0].strip()
