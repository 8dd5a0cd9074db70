"""What happens in the sources of random plans, in an order, and how it is cut into micro-batches.

Runs in tests only. Invariant: no row is late, and each changelog is correct, or that of upserts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from penstock.sql.language.flink_types import FlinkType
from penstock.sql.plan.hidden import KIND, OFFSET, PARTITION
from penstock.sql.plan.nodes import Changelog, Source
from penstock.sql.plan.types import INT, STRING
from tests.unit.sql.plans.batch import Row, Stored

TIME = FlinkType("TIMESTAMP_LTZ", (3,))
SECOND_US = 1_000_000
START_US = 1_704_067_200 * SECOND_US
EVENTS = Source(
    "events",
    "events",
    is_stream=True,
    time=("ts", 3_000),
    has_offsets=True,
    is_read=True,
    compared=("k", "v", "s"),
)
CLICKS = Source("clicks", "clicks", is_stream=True, time=("ts", 1_000), is_read=True, compared=("k", "v"))
ACCOUNTS = Source(
    "accounts",
    "accounts",
    is_stream=True,
    changelog=Changelog.RETRACT,
    changed_by="TableSourceScan(table=[accounts])",
    keys=("id",),
    time=("ts", 1_000),  # a row may change long after its time
)
USERS = Source(
    "users",
    "users",
    is_stream=True,
    changelog=Changelog.UPSERT,
    changed_by="ChangelogNormalize(table=[users])",
    keys=("id",),
    has_offsets=True,
    is_normalized=True,
)
RATES = Source("rates", "rates", is_stream=False)
SOURCES = (EVENTS, CLICKS, ACCOUNTS, USERS, RATES)
COLUMNS: dict[str, tuple[tuple[str, FlinkType], ...]] = {
    "events": (("k", INT), ("v", INT), ("s", STRING), ("ts", TIME)),
    "clicks": (("k", INT), ("v", INT), ("ts", TIME)),
    "accounts": (("id", INT), ("k", INT), ("v", INT), ("ts", TIME)),
    "users": (("id", INT), ("k", INT), ("s", STRING)),
    "rates": (("k", INT), ("v", INT)),
}
_DISORDER = {"events": 2, "clicks": 0}
"""How many seconds a row may be behind the newest one. It is less than the delay of the watermark."""
Happening = tuple[str, tuple[Row, ...]]
"""A source, and the records of one change, which are read together."""


@dataclass(frozen=True)
class History:
    """What happens, in its order, and the rows of the static table."""

    happenings: tuple[Happening, ...]
    static: Stored

    def cut(self, count: int) -> list[tuple[int, dict[str, list[Row]]]]:
        """Return micro-batches of about equal sizes, each with its number of changes; of one change at least."""
        size = max(1, -(-len(self.happenings) // count))
        starts = range(0, len(self.happenings), size)
        cut = [self.happenings[start : start + size] for start in starts]
        return [(len(each), delta_of(each)) for each in cut]

    def tables(self, count: int | None = None) -> Stored:
        """Return the rows of all tables after so many changes."""
        found: dict[str, list[Row]] = {each.name: [] for each in SOURCES if each.is_stream}
        for name, rows in self.happenings[:count]:
            for row in rows:
                if name in ("accounts", "users"):
                    found[name] = [each for each in found[name] if each["id"] != row["id"]]
                if row.get(KIND, "+I") in ("+I", "+U"):
                    found[name].append(row)
        return {**found, **self.static}


def delta_of(happenings: Sequence[Happening]) -> dict[str, list[Row]]:
    """Return the new rows of each source."""
    found: dict[str, list[Row]] = {}
    for name, rows in happenings:
        found.setdefault(name, []).extend(rows)
    return found


_KEYS = st.one_of(st.integers(0, 2), st.none())
_NUMBERS = st.one_of(st.integers(0, 3), st.none())
_TEXTS = st.sampled_from(["a", "b", None])


@st.composite
def histories(draw: st.DrawFn, names: frozenset[str]) -> History:
    """Return what happens in these sources."""
    static = [{"k": draw(_KEYS), "v": draw(_NUMBERS)} for _ in range(draw(st.integers(0, 3)))]
    streams = sorted(each.name for each in SOURCES if each.is_stream and each.name in names)
    if not streams:
        return History((), {"rates": static})
    maker = _Maker(draw)
    order = draw(st.lists(st.sampled_from(streams), max_size=12))
    made = [(name, maker.rows(name)) for name in order]
    return History(tuple((name, rows) for name, rows in made if rows), {"rates": static})


class _Maker:
    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw
        self._newest: dict[str, int] = {}
        self._accounts: dict[int, Row] = {}
        self._offset = 0

    def rows(self, name: str) -> tuple[Row, ...]:
        self._offset += 1
        if name == "accounts":
            return self._account()
        offsets = {PARTITION: 0, OFFSET: self._offset}
        if name == "users":
            user = {"id": self._draw(st.integers(0, 2)), **offsets}
            if self._draw(st.integers(0, 3)) == 0:
                return ({**user, "k": None, "s": None, KIND: "-D"},)
            return ({**user, "k": self._draw(_KEYS), "s": self._draw(_TEXTS), KIND: "+U"},)
        newest = self._newest.get(name, 0)
        seconds = max(0, newest + self._draw(st.integers(-_DISORDER[name], 6)))
        self._newest[name] = max(newest, seconds)
        row = {
            "k": self._draw(_KEYS),
            "v": self._draw(_NUMBERS),
            "ts": START_US + SECOND_US * seconds,
            **offsets,
        }
        return ({**row, "s": self._draw(_TEXTS)},) if name == "events" else (row,)

    def _account(self) -> tuple[Row, ...]:
        number = self._draw(st.integers(0, 2))
        old = self._accounts.pop(number, None)
        if old is not None and self._draw(st.integers(0, 2)) == 0:
            return ({**old, KIND: "-D"},)
        seconds = self._draw(st.integers(0, 12))
        new = {
            "id": number,
            "k": self._draw(_KEYS),
            "v": self._draw(_NUMBERS),
            "ts": START_US + SECOND_US * seconds,
        }
        self._accounts[number] = new
        if old is None:
            return ({**new, KIND: "+I"},)
        return ({**old, KIND: "-U"}, {**new, KIND: "+U"})
