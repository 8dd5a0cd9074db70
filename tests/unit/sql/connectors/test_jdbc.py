"""Options of jdbc tables, and where upserts connect to."""

from __future__ import annotations

import importlib.util
import pickle
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from penstock.errors import MissingExtraError
from penstock.sql.connectors.jdbc.settings import Connect, connect_for, jdbc_settings

BASE = {"connector": "jdbc", "url": "jdbc:postgresql://host:5432/shop", "table-name": "orders"}
PARTITIONED = {
    "scan.partition.column": "id",
    "scan.partition.num": "4",
    "scan.partition.lower-bound": "-5",
    "scan.partition.upper-bound": "100",
}


def test_options_become_those_of_spark() -> None:
    options = {
        **BASE,
        **PARTITIONED,
        "username": "u",
        "password": "p",
        "driver": "d",
        "scan.fetch-size": "10",
    }
    assert jdbc_settings(options).for_spark() == {
        "url": BASE["url"],
        "dbtable": "orders",
        "preferTimestampNTZ": "true",
        "driver": "d",
        "user": "u",
        "password": "p",
        "fetchsize": "10",
        "partitionColumn": "id",
        "numPartitions": "4",
        "lowerBound": "-5",
        "upperBound": "100",
    }
    tuned = {**BASE, "lookup.cache": "PARTIAL", "sink.max-retries": "3", "sink.buffer-flush.max-rows": "7"}
    assert jdbc_settings(tuned).for_spark()["batchsize"] == "7"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"table-name": ""}, "needs the option 'table-name'"),
        ({"url": "postgresql://host/shop"}, "has to begin with 'jdbc:'"),
        ({"user-name": "u"}, "Did you mean 'username'?"),
        ({"scan.partition.column": "id"}, "without 'scan.partition.num'"),
        ({"scan.fetch-size": "many"}, "'scan.fetch-size' cannot be 'many'"),
        ({"lookup.cache.ttl": "soon"}, "'lookup.cache.ttl' cannot be 'soon'"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the message is compared below
        jdbc_settings({**BASE, **options})
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("url", "login", "expected"),
    [
        ("jdbc:postgresql://h:1/d", {}, Connect("postgresql", "postgresql://h:1/d")),
        (
            "jdbc:postgresql://h/d?user=a&password=b&sslmode=require",
            {},
            Connect("postgresql", "postgresql://h/d?sslmode=require", "a", "b"),
        ),
        ("jdbc:postgresql:d", {"username": "u"}, Connect("postgresql", "postgresql:///d", "u")),
        ("jdbc:sqlite:/a/shop.db", {}, Connect("sqlite", "/a/shop.db")),
    ],
)
def test_where_upserts_connect_to(url: str, login: dict[str, str], expected: Connect) -> None:
    assert connect_for(jdbc_settings({**BASE, "url": url, **login})) == expected


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("jdbc:mysql://h/d", "served for PostgreSQL and SQLite, and the url is of 'mysql'"),
        ("jdbc:postgresql://h/d?currentSchema=x", "has the parameter 'currentSchema'"),
    ],
)
def test_where_upserts_cannot_connect_to(url: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        connect_for(jdbc_settings({**BASE, "url": url}))


def test_a_password_is_never_shown_and_connections_pickle(tmp_path: Path) -> None:
    url = "jdbc:postgresql://h/d?password=hunter2"
    found = jdbc_settings({**BASE, "url": url, "password": "hunter2"})
    assert "hunter2" not in repr(found)
    assert "hunter2" not in repr(connect_for(found))
    connect = pickle.loads(pickle.dumps(Connect("sqlite", str(tmp_path / "x.db"))))  # noqa: S301 - made here
    with closing(connect()) as connection:
        assert isinstance(connection, sqlite3.Connection)


def test_upserts_without_a_python_driver_name_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *of: None if "psycopg" in name else find(name, *of)
    )
    with pytest.raises(MissingExtraError, match=r"with a PRIMARY KEY needs the extra 'postgresql'") as error:
        connect_for(jdbc_settings(BASE)).check()
    assert error.value.facts == {"extra": "postgresql"}
    connect_for(jdbc_settings({**BASE, "url": "jdbc:sqlite:/a/shop.db"})).check()
