"""Ctrl-C while a SELECT starts leaves no query behind."""

from __future__ import annotations

import os
import signal
from typing import Any
from unittest.mock import MagicMock

import pytest

from penstock.cli.sql import _stop
from penstock.sql.shell.select import _started


def test_a_query_that_starts_is_given_back() -> None:
    assert _started(lambda: "query") == "query"


def test_an_error_of_the_start_is_raised() -> None:
    def fail() -> None:
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        _started(fail)


def test_ctrl_c_during_the_start_stops_the_query() -> None:
    query = MagicMock()

    def start() -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return query

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            _started(start)
    finally:
        signal.signal(signal.SIGINT, before)
    query.stop.assert_called_once_with()


def test_the_command_stops_queries_before_spark() -> None:
    spark = MagicMock()
    spark.streams.active = [spark.query]
    _stop(spark)
    assert [name for name, _, _ in spark.mock_calls] == ["query.stop", "stop"]


def test_spark_that_has_ended_is_no_error() -> None:
    spark = MagicMock()
    type(spark.streams).active = property(lambda _: (_ for _ in ()).throw(ConnectionRefusedError()))
    _stop(spark)
    spark.stop.assert_called_once_with()
