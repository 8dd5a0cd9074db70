"""Which columns of windows get the watermark of Spark's window. A list of columns stands for a frame of Spark."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from penstock.spark.native import WATERMARK
from penstock.sql.run._windows import with_window_ends

PART = "penstock.window"


@dataclass(frozen=True)
class Column:
    name: str
    metadata: dict[str, Any] = field(default_factory=dict)
    dataType: Frame | None = None

    def cast(self, kind: str) -> Column:
        return self


@dataclass(frozen=True)
class Frame:
    fields: tuple[Column, ...]

    @property
    def schema(self) -> Frame:
        return self

    def __getitem__(self, quoted: str) -> Column:
        return next(each for each in self.fields if f"`{each.name}`" == quoted)

    def withColumn(self, name: str, column: Column) -> Frame:
        return self

    def withMetadata(self, name: str, metadata: dict[str, Any]) -> Frame:
        return Frame(
            tuple(replace(each, metadata=metadata) if each.name == name else each for each in self.fields)
        )

    def drop(self, name: str) -> Frame:
        return Frame(tuple(each for each in self.fields if each.name != name))


def marked(
    window: str | None, ends: str, times: str, struct: str | None = None, **delays: int | None
) -> tuple[list[str], dict[str, str]]:
    """Return the columns that have the watermark, and the parts of windows."""
    fields = [
        Column(name, {} if delay is None else {WATERMARK: delay, "x": 1}) for name, delay in delays.items()
    ]
    frame = with_window_ends(Frame(tuple(fields)), window, ends.split(), times.split(), struct)
    assert window not in [each.name for each in frame.fields]
    parts = {each.name: each.metadata[PART] for each in frame.fields if PART in each.metadata}
    return [each.name for each in frame.fields if WATERMARK in each.metadata], parts


def test_the_end_of_a_window_gets_the_watermark_and_the_time_of_a_row_loses_it() -> None:
    found = marked("w", "e", "t", ts=5, e=None, t=None, w=5)
    assert found == (["e"], {"e": "end", "t": "time"})
    assert marked(None, "", "t", e=5, t=None) == (["t"], {"t": "time"})
    assert marked(None, "", "", "w", ts=5, w=None) == (["w"], {})
    assert marked(None, "", "", e=5, t=None) == ([], {})


def test_the_end_of_a_session_that_an_operator_made_has_the_watermark() -> None:
    parts = Frame((Column("start"), Column("end", {WATERMARK: 5})))
    rows = Frame((Column("ts"), Column("e"), Column("w", {}, parts)))
    found = with_window_ends(rows, "w", ["e"], ["t"])
    assert [each.name for each in found.fields if WATERMARK in each.metadata] == ["e"]


def test_windows_without_a_watermark_have_no_end() -> None:
    assert marked("w", "e", "t", ts=None, e=None, t=None, w=None) == ([], {})
