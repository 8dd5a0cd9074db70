"""The options of a jdbc table.

Runs on the driver. Invariant: options that only tune Flink's caches and retries have no effect, because Spark
reads the table again for each batch and repeats failed tasks. All others are used or refused.
"""

from __future__ import annotations

import importlib.util
import re
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from penstock.extras import missing_extra
from penstock.options.values import BOOLEAN, DURATION, LONG_MAX, ValueType, integer
from penstock.sql.connectors.options import WrongOptionError, check_known, needed, read_value

NAME = "jdbc"
_URL, _TABLE, _DRIVER, _USER, _PASSWORD = "url", "table-name", "driver", "username", "password"
_PARTITIONED = (
    "scan.partition.column",
    "scan.partition.num",
    "scan.partition.lower-bound",
    "scan.partition.upper-bound",
)
_FETCH, _BATCH, _PARALLELISM = "scan.fetch-size", "sink.buffer-flush.max-rows", "sink.parallelism"
_COUNT = integer(0)
_BOUND = integer(-LONG_MAX - 1, LONG_MAX)
_NO_EFFECT: dict[str, ValueType[Any] | None] = {
    "connection.max-retry-timeout": DURATION,
    "scan.auto-commit": BOOLEAN,
    "lookup.cache": None,
    "lookup.cache.max-rows": None,
    "lookup.cache.ttl": DURATION,
    "lookup.cache.caching-missing-key": BOOLEAN,
    "lookup.max-retries": _COUNT,
    "lookup.partial-cache.max-rows": None,
    "lookup.partial-cache.expire-after-write": DURATION,
    "lookup.partial-cache.expire-after-access": DURATION,
    "lookup.partial-cache.caching-missing-key": BOOLEAN,
    "lookup.full-cache.reload-strategy": None,
    "lookup.full-cache.periodic-reload.interval": DURATION,
    "sink.buffer-flush.interval": DURATION,
    "sink.max-retries": _COUNT,
}
_USED: dict[str, ValueType[Any]] = {
    **dict.fromkeys((_FETCH, _BATCH, _PARALLELISM), _COUNT),
    **dict.fromkeys(_PARTITIONED[2:], _BOUND),
    _PARTITIONED[1]: integer(1),
}
_TUNING = (_FETCH, _BATCH, _PARALLELISM, *_NO_EFFECT)
OPTIONS = ("connector", _URL, _TABLE, _DRIVER, _USER, _PASSWORD, *_PARTITIONED, *_TUNING)


@dataclass(frozen=True)
class JdbcSettings:
    """A table of a database.

    Attributes:
        url: of JDBC, `jdbc:...`.
        table: its name, or `schema.table`.
        options: for Spark's JDBC, without the password.
        user: None without one.
        password: None without one.
    """

    url: str = field(repr=False)
    table: str
    options: Mapping[str, str]
    user: str | None
    password: str | None = field(repr=False)

    def for_spark(self) -> dict[str, str]:
        return {"url": self.url, "dbtable": self.table, **self.options, **_login(self.user, self.password)}


def _login(user: str | None, password: str | None) -> dict[str, str]:
    given = {"user": user, "password": password}
    return {key: value for key, value in given.items() if value is not None}


def check_each(options: Mapping[str, str]) -> None:
    """Check the name and the value of each option by itself.

    Raises:
        WrongOptionError: an option is unknown or wrong.
    """
    check_known(NAME, options, OPTIONS)
    for key, kind in {**_NO_EFFECT, **_USED}.items():
        if kind is not None:
            read_value(options, key, kind)
    if _URL in options and not options[_URL].strip().startswith("jdbc:"):
        message = "the option 'url' has to begin with 'jdbc:', e.g. 'jdbc:postgresql://host:5432/shop'."
        raise WrongOptionError(message, _URL)


def jdbc_settings(options: Mapping[str, str]) -> JdbcSettings:
    """Return the settings of a table.

    Raises:
        ValueError: an option is missing, unknown or wrong.
    """
    check_each(options)
    return JdbcSettings(
        needed(NAME, options, _URL),
        needed(NAME, options, _TABLE),
        _spark_options(options),
        options.get(_USER),
        options.get(_PASSWORD),
    )


def _spark_options(options: Mapping[str, str]) -> dict[str, str]:
    # Without it a TIMESTAMP of the database would depend on the time zone of the session.
    found = {"preferTimestampNTZ": "true"}
    if _DRIVER in options:
        found["driver"] = options[_DRIVER]
    counts = ((_FETCH, "fetchsize"), (_BATCH, "batchsize"), (_PARALLELISM, "numPartitions"))
    for key, name in counts:
        count = read_value(options, key, _COUNT)
        if count:
            found[name] = str(count)
    return {**found, **_partitioned(options)}


def _partitioned(options: Mapping[str, str]) -> dict[str, str]:
    given = [key for key in _PARTITIONED if key in options]
    if not given:
        return {}
    if len(given) < len(_PARTITIONED):
        missing = next(key for key in _PARTITIONED if key not in options)
        message = f"'{given[0]}' is given without '{missing}'. Give all of {', '.join(_PARTITIONED)}."
        raise WrongOptionError(message, given[0])
    column, count, low, high = _PARTITIONED
    return {
        "partitionColumn": options[column],
        "numPartitions": str(read_value(options, count, integer(1))),
        "lowerBound": str(read_value(options, low, _BOUND)),
        "upperBound": str(read_value(options, high, _BOUND)),
    }


@dataclass(frozen=True)
class Connect:
    """Connects to a database by its Python driver. Pickles, so that `foreachBatch` can take it along.

    Attributes:
        dialect: `postgresql` or `sqlite`.
        address: a URI of libpq, or the path of a file.
        user: None without one.
        password: None without one.
    """

    dialect: str
    address: str = field(repr=False)
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    def check(self) -> None:
        """Raise MissingExtraError if the Python driver of the database is missing."""
        if self.dialect == "postgresql":
            _psycopg()

    def __call__(self) -> Any:
        if self.dialect == "sqlite":
            return sqlite3.connect(self.address)
        return _psycopg().connect(self.address, **_login(self.user, self.password))


def _psycopg() -> Any:
    name = next((each for each in ("psycopg", "psycopg2") if importlib.util.find_spec(each)), None)
    if name is None:
        raise missing_extra(
            "postgresql",
            "a jdbc table with a PRIMARY KEY",
            "psycopg2 will do as well. Without the PRIMARY KEY rows are only added, and it needs neither.",
        )
    return importlib.import_module(name)


def connect_for(settings: JdbcSettings) -> Connect:
    """Return how a table with a PRIMARY KEY is connected to.

    Raises:
        ValueError: only PostgreSQL and SQLite have upserts here, or the URL cannot be used.
    """
    rest = settings.url.removeprefix("jdbc:")
    if rest.startswith("sqlite:"):
        return Connect("sqlite", rest.removeprefix("sqlite:"))
    if not rest.startswith("postgresql:"):
        kind = re.split(r"[:/]", rest)[0]
        raise ValueError(
            f"a jdbc table with a PRIMARY KEY is served for PostgreSQL and SQLite, and the url is of "
            f"'{kind}'. Leave the PRIMARY KEY out to add rows, or use foreachBatch and your driver in Python."
        )
    parts = urlsplit(rest)
    if not parts.netloc:  # jdbc:postgresql:shop is the database `shop` of this machine
        return Connect("postgresql", f"postgresql:///{parts.path}", settings.user, settings.password)
    query = dict(parse_qsl(parts.query))
    unknown = next((key for key in query if key not in ("user", "password", "sslmode")), None)
    if unknown is not None:
        raise ValueError(
            f"the url of a jdbc table with a PRIMARY KEY has the parameter '{unknown}'. Served are user, "
            "password and sslmode."
        )
    user, password = settings.user or query.get("user"), settings.password or query.get("password")
    mode = f"?sslmode={query['sslmode']}" if "sslmode" in query else ""
    return Connect("postgresql", f"postgresql://{parts.netloc}{parts.path}{mode}", user, password)
