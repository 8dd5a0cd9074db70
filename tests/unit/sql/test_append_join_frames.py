"""What an inner join of an INSERT gives to `append_join`, without Spark."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.changelog.row_kinds import ROW_KIND
from penstock.sql.plan.nodes import Changelog, Stateful
from penstock.sql.plan.operators import RegularJoin
from penstock.sql.run import _operators


class _Frame:
    """A stream with columns."""

    isStreaming = True

    def __init__(self, *columns: str) -> None:
        self.columns = columns

    def selectExpr(self, *texts: str) -> _Frame:
        return _Frame(*self.columns, *(text.partition(" AS ")[2].strip("`") for text in texts if text != "*"))

    def withColumnRenamed(self, _old: str, _new: str) -> _Frame:
        return self


def test_groups_of_windows_are_joined_as_rows_that_come_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A join without = of groups is not Spark's. `append_join` refuses groups without the kinds of rows."""
    given: list[Any] = []
    groups, rows = _Frame("l0", "lk0"), _Frame("r0", "rk0")
    monkeypatch.setattr(_operators, "rows_may_come_again", lambda frame: frame is groups)
    monkeypatch.setattr(_operators, "append_join", lambda *frames, **_: given.extend(frames))
    node = Stateful(RegularJoin((("lk0", "rk0"),), "inner", (None, None)), (), (), Changelog.APPEND)
    _operators.made(node, [groups, rows], "state", None)
    assert [ROW_KIND in each.columns for each in given[:2]] == [True, False]
