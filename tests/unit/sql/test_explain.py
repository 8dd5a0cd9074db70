"""What EXPLAIN says about state, input and output."""

from __future__ import annotations

import dataclasses

import pytest

from penstock.sql.language.source import Source as ScriptSource
from penstock.sql.plan.nodes import Changelog, Source
from penstock.sql.plan.operators import (
    Aggregation,
    Deduplication,
    MultiJoin,
    Operator,
    OverRows,
    RegularJoin,
    TimeSort,
    Top,
    VersionJoin,
)
from penstock.sql.run._cuts import Notes, Reads, cut_of, mode_of, normalize_of, note_plan
from penstock.sql.run._described import promise
from penstock.sql.run._explain import (
    Explanation,
    add_changes,
    guarantee,
    option_text,
    read_warnings,
    states,
    warnings_of,
    write_warnings,
)
from penstock.sql.run._operators import times_to_live
from penstock.sql.run._rows import RowTraits
from tests.unit.sql.declared import FILES, JDBC, KAFKA, UPSERT, with_options
from tests.unit.sql.planning import declared, planned

AGGREGATE = "StateStoreSave [window#1-T1000ms, k#2], state info [ ]\n+- EventTimeWatermark ts#2"
INTERVAL = (
    "StreamingSymmetricHashJoin [k#1], [k#2], Inner, state cleanup [ left value predicate: (at#3-T5000ms <= -4), "
    "right value predicate: (ts#4-T0ms <= 0) ]"
)
BY_TIME = "StreamingSymmetricHashJoin [e#1-T0ms], [e#2-T0ms], Inner, state cleanup [ left key predicate: (input[0, timestamp, true] <= 0), right key predicate: (input[0, timestamp, true] <= 0) ]"
GOES = "an aggregation keeps one entry for each group: an entry goes when the watermark has passed"
KEYED = "id INT PRIMARY KEY NOT ENFORCED"
EXACTLY_ONCE = f"{KAFKA}, 'sink.delivery-guarantee' = 'EXACTLY_ONCE', 'sink.transactional-id-prefix' = 'p'"
JOIN = "StreamingSymmetricHashJoin [a#1], [b#2], Inner, condition = [], state cleanup [ left = null, right = null ]"


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        ("*(1) Project [a#1]", []),
        (AGGREGATE, [f"{GOES} the end of its window. Later rows are dropped"]),
        (
            f"{AGGREGATE}\n{AGGREGATE.replace('window', 'e')}",
            [
                f"{GOES} the end of its window. Later rows are dropped",
                f"{GOES} its e. Later rows are dropped",
            ],
        ),
        (
            INTERVAL,
            [
                "a join keeps the rows of both sides: a left row goes when the watermark has passed its at and what ON adds, a right row goes when the watermark has passed its ts and what ON adds. Later rows are dropped"
            ],
        ),
        (
            BY_TIME,
            [
                "a join keeps the rows of both sides: a row goes when the watermark has passed the time that ON compares by =. Later rows are dropped"
            ],
        ),
        ("StateStoreSave [a#1]", ["an aggregation keeps one entry for each group: it grows without an end"]),
        (JOIN, ["a join keeps the rows of both sides: it grows without an end"]),
        (f"{JOIN}\nEventTimeWatermark", ["a join keeps the rows of both sides: it grows without an end"]),
        ("StreamingGlobalLimit 3", ["LIMIT keeps the number of rows that were given: one number"]),
    ],
)
def test_the_state_of_a_plan(plan: str, expected: list[str]) -> None:
    assert states(plan) == expected


def test_columns_of_the_plan_of_spark_have_the_names_of_the_user() -> None:
    query = (
        "SELECT window_start, s, COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ltz), INTERVAL '1' MINUTE)) "
        "GROUP BY window_start, window_end, s"
    )
    notes, found = Notes(), planned(query)
    note_plan(notes, found.plan, {}, found.traits, ScriptSource(query), None)
    of_window = next(each for each, name in notes.columns.items() if name == "window")
    of_time = next(each for each, name in notes.columns.items() if name == "ltz")
    marked = AGGREGATE.replace("window", of_window)
    assert states(marked, notes.columns) == [f"{GOES} the end of its window. Later rows are dropped"]
    [kept] = states(INTERVAL.replace("(at#", f"({of_time}#"), notes.columns)
    assert "a left row goes when the watermark has passed its ltz and what ON adds" in kept


def test_warnings_about_input() -> None:
    bounded = with_options(f"{KAFKA}, 'scan.bounded.mode' = 'latest-offset'").connector
    endless, files = (with_options(each).connector for each in (KAFKA, FILES))
    made = with_options("'connector' = 'datagen', 'number-of-rows' = '5'").connector
    found = read_warnings(AGGREGATE, [bounded, files, made])
    assert len(found) == 1
    assert "windows that no later record closes" in found[0]
    watched = with_options(f"{FILES}, 'source.monitor-interval' = '1 s'").connector
    for each in (endless, watched, with_options("'connector' = 'datagen'").connector):
        assert read_warnings(AGGREGATE, [bounded, each]) == []
    assert read_warnings(AGGREGATE, []) == []
    assert read_warnings("Project", [bounded]) == []
    of_rows_that_change = "Project [window(ts#1, 60000000)]\n+- MapInArrow\n   +- EventTimeWatermark ts#2"
    assert read_warnings(of_rows_that_change, [bounded]) == []
    assert "grows without an end" in read_warnings(JOIN, [bounded])[0]


def test_warnings_about_output() -> None:
    [twice, folder] = write_warnings(with_options(KAFKA), folder=None)
    assert "'sink.delivery-guarantee' = 'exactly-once'" in twice
    assert "SET 'execution.checkpointing.dir'" in folder
    assert write_warnings(with_options(EXACTLY_ONCE), folder="/c") == []
    assert "PRIMARY KEY" in write_warnings(with_options(JDBC), folder="/c")[0]
    assert write_warnings(with_options(JDBC, KEYED), folder="/c") == []
    assert write_warnings(with_options("'connector' = 'print'"), folder=None) == []


def test_an_explanation_shows_no_secret() -> None:
    found = Explanation("SELECT")
    found.add(
        "Reads", [option_text("ssl.password", "hunter2"), option_text("url", "jdbc:x?password=hunter2&a=b")]
    )
    found.add("State", [])
    found.add("Reads", ["a\nb"])
    assert list(found.lines()) == [
        "SELECT",
        "  Reads:",
        "    'ssl.password' = '*******'",
        "    'url' = 'jdbc:x?password=*******&a=b'",
        "    a",
        "    b",
    ]


GROUPS = Aggregation(("g0",), (("r0", "count(*)"),))
LAST = Deduplication(("p0",), ("o0",), keep_last=True)
TOP = Top(3, ("p0",), (("o0", True),))
JOIN_OF_ALL = RegularJoin((("lk0", "rk0"),), "left")
JOIN_OF_MANY = MultiJoin((("i0k0", "i1k0", "i2k0"),))
OVER = OverRows(("k0",), "t", 1_000, (), (("r0", "sum(a0)"),), "rows", 2)
VERSIONS = VersionJoin((("lk0", "rk0"),), "t", "v", 1_000, "inner")


@pytest.mark.parametrize(
    ("step", "inputs", "changes", "expected"),
    [
        (GROUPS, [False], True, "[I] becomes [I,UB,UA]."),
        (GROUPS, [True], True, "[I,UB,UA,D] becomes [I,UB,UA,D]."),
        (LAST, [False], True, "[I] becomes [I,UB,UA]."),
        (TOP, [True], True, "[I,UB,UA,D] becomes [I,D]."),
        (JOIN_OF_ALL, [False, True], True, "[I] and [I,UB,UA,D] becomes [I,D]."),
        (OVER, [False], False, "[I] becomes [I]."),
        (JOIN_OF_MANY, [False, False, False], False, "[I] and [I] and [I] becomes [I]."),
        (TimeSort("o0", 1_000, ()), [False], False, "[I] becomes [I]."),
        (VERSIONS, [False, True], False, "[I] and [I,UB,UA,D] becomes [I]."),
    ],
)
def test_the_changelog_mode_of_a_cut(
    step: Operator, inputs: list[bool], changes: bool, expected: str
) -> None:
    cut = cut_of("x", step, "line 1, column 2", inputs, [None for _ in inputs], changes=changes)
    assert cut.line.startswith("line 1, column 2: x, because ")
    assert cut.line.endswith(expected)
    assert "row" in cut.keeps or "entry" in cut.keeps


@pytest.mark.parametrize(
    ("step", "ttl", "expected"),
    [
        (GROUPS, "1 d", "until it was not written for 1 d"),
        (dataclasses.replace(GROUPS, ttl="2 h"), "1 d", "until it was not written for 2 h"),
        (dataclasses.replace(GROUPS, ttl="0"), "1 d", "that have rows"),
        (dataclasses.replace(JOIN_OF_ALL, ttls=("2 h", None)), "1 d", "(left for 2 h, right for 1 d)"),
        (dataclasses.replace(JOIN_OF_ALL, ttls=("2 h", "0 s")), None, "(left for 2 h, right ever)"),
        (TOP, "1 d", "until it was not written for 1 d"),
        (OVER, "1 d", "wait for the watermark"),
    ],
)
def test_a_state_says_when_it_forgets(step: Operator, ttl: str | None, expected: str) -> None:
    cut = cut_of("x", step, "", [False], times_to_live(step, ttl), changes=True)
    assert cut.keeps.endswith(expected)


def test_a_join_of_inserts_by_an_operator_gives_inserts() -> None:
    step = dataclasses.replace(JOIN_OF_ALL, how="inner")
    assert cut_of("x", step, "", [False, False], [None], changes=True).line.endswith(
        "[I] and [I] becomes [I]."
    )


def test_the_operators_of_a_plan_are_cuts_at_the_lines_of_their_clauses() -> None:
    query = """SELECT a.s, COUNT(*)
      FROM k AS a LEFT JOIN u ON a.l = u.l
      GROUP BY a.s"""
    found = planned(query)
    note_plan(notes := Notes(), found.plan, {}, found.traits, ScriptSource(query), "1 d")
    assert [each.line.partition(", because")[0] for each in notes.cuts] == [
        "table k: normalize",
        "line 2, column 29: join",
        "line 3, column 16: aggregate",
    ]
    assert [each.gives for each in notes.cuts] == ["[I,UB,UA,D]", "[I,D]", "[I,UB,UA,D]"]
    assert notes.cuts[1].keeps.endswith("until it was not written for 1 d")


def test_groups_of_windows_of_rows_that_change_are_a_cut_that_keeps_all_groups() -> None:
    query = "SELECT COUNT(*) FROM c GROUP BY HOP(ltz, INTERVAL '1' SECOND, INTERVAL '1' HOUR)"
    found = planned(query)
    note_plan(notes := Notes(), found.plan, {}, found.traits, ScriptSource(query), None)
    [cut] = notes.cuts
    assert cut.line == (
        "line 1, column 33: aggregate, because a row of a window may change when the window is over, and then "
        "its group changes. [I,UB,UA,D] becomes [I,UB,UA,D]."
    )
    assert cut.keeps.startswith("one entry for each group;")
    assert cut.keeps.endswith("It grows with the groups that have rows")
    assert not notes.drops_late_rows
    assert notes.hops[0].startswith("line 1, column 33: HOP puts each row into 3600 windows")


def test_the_changes_of_a_query_from_its_tables_to_its_rows() -> None:
    orders = Source("orders", "orders", is_stream=True)
    changes = dataclasses.replace(orders, changelog=Changelog.RETRACT)
    view = dataclasses.replace(orders, key=None)
    reads: Reads = {(("orders",), ()): orders, (("t",), ()): changes, (("v",), ()): view}
    notes = Notes(reads, [normalize_of("table t")])
    found = Explanation("SELECT")
    add_changes(found, notes, RowTraits("GroupAggregate", frozenset({"shop", "day"})))
    assert found.sections["Cuts"][0].startswith("table t: normalize, because the records are upserts")
    assert found.sections["Changes"] == [
        "orders gives [I] append: rows are append-only",
        "t gives [I,UB,UA,D] retract: rows change, and no columns are known by which they differ",
        "the query gives [I,UB,UA,D] upsert by (day, shop): rows change",
    ]
    add_changes(nothing := Explanation("SELECT"), Notes(), RowTraits())
    assert nothing.sections["Cuts"] == ["none"]
    assert mode_of(changes=False, keys=None).startswith("[I] append")


@pytest.mark.parametrize(
    ("options", "columns", "promised", "expected"),
    [
        (EXACTLY_ONCE, "id INT", "kafka, exactly-once", "Each row is written once"),
        (f"{KAFKA}, 'sink.delivery-guarantee' = 'none'", "id INT", "kafka, none", "Rows may be lost"),
        (KAFKA, "id INT", "kafka, at-least-once", "No row is lost. After a failure the rows of a micro-batch may be written twice."),
        (UPSERT, KEYED, "upsert-kafka, at-least-once", "The last record of each key is right."),
        (JDBC, KEYED, "jdbc, at-least-once; exactly-once if", "one transaction has its rows and its marker"),
        (JDBC, "id INT", "jdbc, at-least-once; exactly-once if", "may come twice"),
        (FILES, "id INT", "filesystem, exactly once", "_spark_metadata"),
        ("'connector' = 'print'", "id INT", "print, at least once", "may come twice"),
    ],
)  # fmt: skip
def test_the_guarantee_from_end_to_end(options: str, columns: str, promised: str, expected: str) -> None:
    table = with_options(options, columns)
    first, last = guarantee(table)
    assert "read again with the same records" in first
    assert expected in last
    assert promise(table.connector).startswith(f"connector {promised}")


@pytest.mark.parametrize(
    ("rows", "changes"),
    [
        ("(SELECT s, COUNT(*) AS n FROM t GROUP BY s)", "GroupAggregate"),
        ("(SELECT s, COUNT(*) AS n FROM c GROUP BY s HAVING COUNT(*) > 1)", "GroupAggregate"),
        ("(SELECT i FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY i ORDER BY ltz DESC) AS n FROM t) WHERE n = 1)", "Deduplicate"),
        ("TABLE c", None),
        ("TABLE k", None),
        ("TABLE t", None),
    ],
)  # fmt: skip
def test_changes_that_depend_on_the_micro_batches_are_told(rows: str, changes: str | None) -> None:
    query = f"SELECT * FROM TO_CHANGELOG(input => {rows})"
    found = planned(query)
    note_plan(notes := Notes(), found.plan, {}, found.traits, ScriptSource(query), None)
    expected = (
        [] if changes is None else [f"line 1, column 15: TO_CHANGELOG gives the changes of {changes}, "]
    )
    assert len(notes.told) == len(expected)
    assert all(told.startswith(each) for told, each in zip(notes.told, expected, strict=True))
    assert [*warnings_of(notes, declared())][: len(notes.told)] == notes.told
