"""`normalize` in plain Python, one row after another.

Runs in tests only. Invariant: slow and obvious.
"""

from __future__ import annotations

from typing import Any

from tests.unit.changelog.running import Row


def _content(row: Row) -> str:
    return str((row["v"], row.get("s")))


class Reference:
    """The same, one row after another. Floats are compared as text, so that NaN equals NaN."""

    def __init__(self) -> None:
        self.seen: dict[Any, int] = {}
        self.rows: dict[Any, Row] = {}

    def step(self, batch: list[Row], *, collapse: bool = False) -> list[Row]:
        out: list[Row] = []
        before, last = dict(self.rows), {}
        new_rows = {(row["k"], row.get("j"), row["at"]) for row in batch if row["row_kind"] != "-U"}
        for new in sorted(batch, key=lambda each: each["at"]):
            key = (new["k"], new.get("j"))
            is_before = new["row_kind"] == "-U"
            if new["at"] <= self.seen.get(key, -1) or (is_before and (*key, new["at"]) in new_rows):
                continue
            self.seen[key] = new["at"]
            last[key] = None if new["row_kind"] in ("-D", "-U") else new
            out += self._change(key, last[key], self.rows)
        if collapse:
            self.rows, out = before, []
            for key, newest in last.items():
                out += self._change(key, newest, self.rows)
        return out

    @staticmethod
    def _change(key: Any, new: Row | None, rows: dict[Any, Row]) -> list[Row]:
        old = rows.get(key)
        if old is not None and new is not None and _content(old) == _content(new):
            return []
        if new is None:
            rows.pop(key, None)
        else:
            rows[key] = new
        kinds = ("-U", "+U") if old and new else ("-D", "+I")
        return [{**each, "row_kind": kind} for each, kind in zip((old, new), kinds, strict=True) if each]
