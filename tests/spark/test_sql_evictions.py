"""What Spark and the operators forget by the watermark: the tables of SQL beside a plain oracle.

Times are whole seconds, and so is the delay. So some rows lie exactly at a watermark. No row is late.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock import changelog
from penstock.spark.native import WATERMARK
from tests.spark.evictions import Event, Table, at, declare, steps_of, tables_left
from tests.spark.test_sql import Script
from tests.spark.test_sql import script as script  # noqa: PLC0414 - a fixture
from tests.spark.test_sql_windows import reuse as reuse  # noqa: PLC0414 - a fixture

COLUMNS = "id INT, k INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND"
ROWS = [
    *(("a", 0, None, 10), ("b", 1, None, 11), ("a", 2, 1, 12), ("b", 3, 1, 14), ("a", 4, 2, 13)),
    *(("b", 5, 1, 15), ("a", 6, 2, 16), ("b", 7, 3, 18), ("a", 8, 1, 17), ("b", 9, 2, 31), ("a", 10, 2, 32)),
]
"""Table, id, k and the second."""
WITHIN_S, GAP_S, SIZE_S = 5, 3, 10
WITHIN = f"BETWEEN {{0}} - INTERVAL '{WITHIN_S}' SECOND AND {{0}} + INTERVAL '{WITHIN_S}' SECOND"
TUMBLE = f"TABLE(TUMBLE(TABLE {{}}, DESCRIPTOR(ts), INTERVAL '{SIZE_S}' SECOND))"
BY_WINDOW = "GROUP BY window_start, window_end"
VIEWS = f"""
    CREATE VIEW running AS SELECT id, k, ts, COUNT(*) OVER (PARTITION BY k ORDER BY ts) AS n FROM a;
    CREATE VIEW visits AS SELECT id, window_end AS e FROM TABLE(SESSION(
        TABLE a PARTITION BY k, DESCRIPTOR(ts), INTERVAL '{GAP_S}' SECOND));
    CREATE VIEW pairs AS SELECT a.id, b.id AS other, a.k, a.ts, b.ts AS at FROM a LEFT JOIN b
        ON a.k = b.k AND b.ts {WITHIN.format("a.ts")};
    CREATE VIEW of_a AS SELECT k, window_start AS s, window_end AS e FROM {TUMBLE.format("a")} GROUP BY k, window_start, window_end;
    CREATE VIEW counts AS SELECT k, window_start AS s, window_end AS e, COUNT(*) AS n FROM {TUMBLE.format("a")} GROUP BY k, window_start, window_end;
    CREATE VIEW rows_of_a AS SELECT k, window_start AS s, window_end AS e FROM {TUMBLE.format("a")};
    CREATE VIEW rows_of_b AS SELECT k, window_start AS s, window_end AS e FROM {TUMBLE.format("b")};
    CREATE VIEW of_b AS SELECT k, window_start AS s, window_end AS e FROM {TUMBLE.format("b")} GROUP BY k, window_start, window_end;
"""
QUERIES = {
    "full": f"SELECT a.id, b.id FROM a FULL JOIN b ON a.k = b.k AND b.ts {WITHIN.format('a.ts')}",
    "left of left": f"SELECT p.id, p.other, c.id FROM pairs AS p LEFT JOIN b AS c ON p.k = c.k AND c.ts {WITHIN.format('p.at')}",
    "over": f"SELECT r.id, r.n, b.id FROM running AS r JOIN b ON r.k = b.k AND b.ts {WITHIN.format('r.ts')}",
    "all pairs": "SELECT a.id, b.id FROM a JOIN b ON a.k = b.k AND a.id <> b.id + 1",
    "sessions": "SELECT COUNT(*), MIN(id) FROM visits GROUP BY e",
    "joined windows": "SELECT x.k, y.k FROM of_a AS x FULL JOIN of_b AS y ON x.k = y.k AND x.s = y.s AND x.e = y.e",
    "windows of both": "SELECT 'both' FROM of_a AS x JOIN of_b AS y ON x.k = y.k AND x.s = y.s AND x.e = y.e",
    "most of windows": "SELECT x.k, x.n FROM counts AS x JOIN (SELECT MAX(n) AS m, s, e FROM counts GROUP BY s, e) AS y "
    "ON x.s = y.s AND x.e = y.e AND x.n >= y.m",
    "groups of padded windows": "SELECT COUNT(*), COUNT(x.e) FROM rows_of_a AS x RIGHT JOIN rows_of_b AS y ON x.k = y.k "
    "AND x.s = y.s AND x.e = y.e GROUP BY x.s, x.e",
}
JOINS_OF_INSERTS = {
    "all pairs": "RegularJoin(",
    "joined windows": "WindowJoin(",
    "windows of both": "WindowJoin(",
    "most of windows": "WindowTotals(",
}
MORE = {
    "windows of over": f"SELECT COUNT(*), SUM(n) FROM {TUMBLE.format('running')} {BY_WINDOW}",
    "windows of left": f"SELECT COUNT(*), COUNT(other) FROM {TUMBLE.format('pairs')} {BY_WINDOW}",
    "full of a list": f"SELECT a.id, b.id FROM a FULL JOIN b ON b.k IN (a.k) AND a.k = b.k AND b.ts {WITHIN.format('a.ts')}",
    "full by using": "SELECT x.k, y.k FROM of_a AS x FULL JOIN of_b AS y USING (k, s, e)",
}
Row = tuple[int, int | None, int]
"""id, k and second."""


def of(name: str) -> list[Row]:
    return [row for table, *row in ROWS if table == name]  # type: ignore[misc]  # they are tuples of three


def partners(row: Row, rows: list[Row]) -> list[Row | None]:
    """Return the rows with the same k within 5 seconds; [None] if there are none."""
    found = [
        each
        for each in rows
        if row[1] is not None and each[1] == row[1] and abs(each[2] - row[2]) <= WITHIN_S
    ]
    return [*found] or [None]


def id_of(row: Row | None) -> int | None:
    return None if row is None else row[0]


def full() -> Table:
    found: Table = Counter((a[0], id_of(b)) for a in of("a") for b in partners(a, of("b")))
    found.update((None, b[0]) for b in of("b") if partners(b, of("a")) == [None])
    return found


def left_of_left() -> Table:
    found: Table = Counter()
    for a in of("a"):
        for b in partners(a, of("b")):
            others = [None] if b is None else partners(b, of("b"))
            found.update((a[0], id_of(b), id_of(c)) for c in others)
    return found


def running() -> list[tuple[Row, int]]:
    """Return each row of a with the number of rows of its k up to its time."""
    rows = of("a")
    return [(row, sum(each[1] == row[1] and each[2] <= row[2] for each in rows)) for row in rows]


def over() -> Table:
    return Counter((row[0], n, b[0]) for row, n in running() for b in partners(row, of("b")) if b is not None)


def all_pairs() -> Table:
    """Return the pairs of a join that forgets no row."""
    pairs = ((a, b) for a in of("a") for b in of("b") if a[1] is not None and a[1] == b[1])
    return Counter((a[0], b[0]) for a, b in pairs if a[0] != b[0] + 1)


def sessions() -> Table:
    """Return how many rows the sessions have that end at one time, and the first id."""
    ids: dict[int, list[int]] = {}
    for k in {row[1] for row in of("a")}:
        parts: list[list[Row]] = []
        for row in sorted((row for row in of("a") if row[1] == k), key=lambda row: row[2]):
            if not parts or row[2] - parts[-1][-1][2] > GAP_S:
                parts.append([])
            parts[-1].append(row)
        for part in parts:
            ids.setdefault(part[-1][2] + GAP_S, []).extend(row[0] for row in part)
    return Counter((len(each), min(each)) for each in ids.values())


def by_window(values: Iterator[tuple[Row, int]]) -> Table:
    counts: dict[int, list[int]] = {}
    for row, value in values:
        counts.setdefault(row[2] // SIZE_S, []).append(value)
    return Counter((len(each), sum(each)) for each in counts.values())


def windows_of_left() -> Table:
    return by_window((a, int(b is not None)) for a in of("a") for b in partners(a, of("b")))


def joined_windows() -> Table:
    ones, others = ({(row[1], row[2] // SIZE_S) for row in of(name)} for name in "ab")
    both = {each for each in ones & others if each[0] is not None}
    found: Table = Counter((k, k) for k, _ in both)
    found.update((k, None) for k, _ in ones - both)
    found.update((None, k) for k, _ in others - both)
    return found


def groups_of_padded_windows() -> Table:
    """Return for each window of a the rows of its pairs with b. Rows of b without a partner are one group more."""
    groups: dict[int | None, int] = Counter()
    for _, k, second in of("b"):
        window = second // SIZE_S
        pairs = sum(each[1] == k and each[2] // SIZE_S == window for each in of("a") if k is not None)
        groups[window if pairs else None] += pairs or 1
    return Counter((count, 0 if window is None else count) for window, count in groups.items())


def windows_of_both() -> Table:
    return Counter({("both",): sum(n for pair, n in joined_windows().items() if None not in pair)})


def most_of_windows() -> Table:
    counts: dict[int, Counter[int | None]] = {}
    for _, k, second in of("a"):
        counts.setdefault(second // SIZE_S, Counter())[k] += 1
    return Counter((k, n) for each in counts.values() for k, n in each.items() if n == max(each.values()))


ORACLES: dict[str, Callable[[], Table]] = {
    "full": full,
    "left of left": left_of_left,
    "over": over,
    "all pairs": all_pairs,
    "sessions": sessions,
    "windows of over": lambda: by_window(iter(running())),
    "windows of left": windows_of_left,
    "full of a list": full,
    "full by using": joined_windows,
    "joined windows": joined_windows,
    "groups of padded windows": groups_of_padded_windows,
    "windows of both": windows_of_both,
    "most of windows": most_of_windows,
}


def event(name: str, number: int, k: int | None, seconds: int) -> Event:
    return name, {"id": number, "k": k, "ts": at(seconds)}


EVENTS = [event(*row) for row in ROWS]
CLOSING = [event("a", -1, -1, 9_000), event("b", -2, -2, 9_000)]
"""The last rows, which come out of no query."""


@pytest.fixture
def tables(script: Script, tmp_path: Path) -> Script:
    declare(script.session, tmp_path, dict.fromkeys("ab", COLUMNS))
    script(VIEWS)
    return script


@pytest.mark.parametrize(("name", "operator"), JOINS_OF_INSERTS.items())
def test_joins_of_an_insert_run_by_operators_of_penstock(tables: Script, name: str, operator: str) -> None:
    columns = {"windows of both": "x STRING", "most of windows": "k INT, n BIGINT"}.get(
        name, "k INT, other INT"
    )
    tables(f"CREATE TABLE target ({columns}) WITH ('connector' = 'blackhole')")
    shown = "\n".join(row[0] for row in tables(f"EXPLAIN INSERT INTO target {QUERIES[name]}")[0].rows)
    assert operator in shown
    of_user = "\n".join(row[0] for row in tables(f"EXPLAIN {QUERIES[name]}")[0].rows)
    assert operator not in of_user, "the user may start it in update mode, with a checkpoint of his own"
    assert "SymmetricHashJoin" not in shown


@pytest.mark.usefixtures("reuse")
def test_a_table_does_not_depend_on_short_micro_batches(tables: Script, tmp_path: Path) -> None:
    steps = [*steps_of(EVENTS, 1), CLOSING]
    found = tables_left(tables.session, tmp_path, QUERIES, steps, [5], inserts=JOINS_OF_INSERTS)
    assert found == {name: ORACLES[name]() for name in QUERIES}


@pytest.mark.long
@pytest.mark.usefixtures("reuse")
@pytest.mark.parametrize(("size", "restarts"), [(len(EVENTS), ()), (3, range(9))])
def test_a_table_does_not_depend_on_micro_batches_and_restarts(
    tables: Script, tmp_path: Path, size: int, restarts: Any
) -> None:
    queries = {**QUERIES, **MORE}
    steps = [*steps_of(EVENTS, size), CLOSING]
    found = tables_left(tables.session, tmp_path, queries, steps, restarts, inserts=JOINS_OF_INSERTS)
    assert found == {name: ORACLES[name]() for name in queries}


def test_a_window_of_rows_that_wait_for_another_watermark_is_refused(tables: Script) -> None:
    tables("CREATE VIEW late AS SELECT id, ts, COUNT(*) OVER (ORDER BY ts) AS n FROM a WHERE SECOND(ts) < 30")
    found = tables.refusal(f"SELECT SUM(n) FROM {TUMBLE.format('late')} {BY_WINDOW}")
    assert "'ts' has none here" in found
    assert "OVER behind a WHERE on it" in found


def test_a_window_behind_a_union_with_rows_that_wait_is_refused(script: Script, tmp_path: Path) -> None:
    without_delay = "id INT, k INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts"
    declare(script.session, tmp_path, {"a": without_delay, "b": without_delay})
    script(
        "CREATE VIEW both_tables AS SELECT id, ts, COUNT(*) OVER (ORDER BY ts) AS n FROM a "
        "UNION ALL SELECT id, ts, CAST(1 AS BIGINT) FROM b"
    )
    found = script.refusal(f"SELECT SUM(n) FROM {TUMBLE.format('both_tables')} {BY_WINDOW}")
    assert "'ts' has none here" in found


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("spark.sql.streaming.multipleWatermarkPolicy", "max"),
        ("spark.sql.streaming.statefulOperator.allowMultiple", "false"),
    ],
)
def test_options_of_spark_that_drop_rows_are_refused(script: Script, option: str, value: str) -> None:
    assert f"'{option}' has to be" in script.refusal(f"SET '{option}' = '{value}'")


def marked(rows: DataFrame) -> list[str]:
    return [field.name for field in rows.schema.fields if WATERMARK in field.metadata]


def test_rows_that_waited_keep_a_watermark_only_if_they_come_out_before_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = spark.readStream.format("rate").load().withWatermark("timestamp", "5 seconds")
    calls = {"n": "count(*)"}

    def over(df: DataFrame, delay: str) -> list[str]:
        return marked(
            changelog.over(df, ["value"], calls, time="timestamp", delay=delay, state=f"{tmp_path}/over")
        )

    def sessions(delay: str) -> list[str]:
        return marked(
            changelog.sessions(
                rows, ["value"], time="timestamp", gap="1 s", delay=delay, state=f"{tmp_path}/sessions"
            )
        )

    assert over(rows, "5 s") == over(rows.where("value > 3"), "5 s") == ["timestamp"]
    assert over(rows, "6 s") == over(rows.where("second(timestamp) < 30"), "5 s") == []
    assert (sessions("5 s"), sessions("4 s")) == ([], ["session_end"])
