"""Tasks write the files of a Delta table, and the table is the one that the driver would have written."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import MaterializeError
from penstock.targets import DeltaTable, _delta_staged, staged
from penstock.targets import delta as ours
from penstock.targets._delta_files import statistics_of
from penstock.targets._delta_staged import DataFile, items_of
from penstock.targets._keys import Keys
from penstock.targets.batch import Batch, LastRows
from penstock.targets.staged import Staged
from tests.examples import examples
from tests.unit.targets.changes import HISTORIES, QUERY, Change, after, batch
from tests.unit.targets.in_files import dying, in_files, parts_of, run_here, stage_in
from tests.unit.targets.test_delta import VALUES, alter, batches_in_log, stored

deltalake: Any = pytest.importorskip("deltalake")


@pytest.fixture(autouse=True)
def tasks_write_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged, "FEW_BYTES", -1)
    monkeypatch.setattr(_delta_staged, "DRIVER_BYTES", 0)


def apply(folder: Path, found: Batch | Staged, run: Any = run_here) -> bool:
    target = DeltaTable(str(folder / "table"))
    return target.apply(found) if isinstance(found, Batch) else target.apply_staged(found, run)


def opened(folder: Path) -> Any:
    return deltalake.DeltaTable(str(folder / "table"))


def rows_of(folder: Path) -> dict[int, str | None]:
    return stored(folder / "table")


@pytest.mark.parametrize("small_bytes", [0, 8 << 20])
@settings(max_examples=examples(5), deadline=None)
@given(HISTORIES, st.lists(st.sampled_from(["files", "driver"]), min_size=10, max_size=10))
def test_either_way_may_follow_and_repeat_the_other(
    tmp_path_factory: pytest.TempPathFactory, small_bytes: int, history: list[list[Change]], ways: list[str]
) -> None:
    folder, true = tmp_path_factory.mktemp("delta"), dict[int, str | None]()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(_delta_staged, "_SMALL_BYTES", small_bytes)
        for number, changes in enumerate(history):
            true = after(true, changes)
            first, second = (
                in_files(folder, number, changes) if way == "files" else batch(number, changes)
                for way in ways[2 * number : 2 * number + 2]
            )
            assert apply(folder, first)
            assert not apply(folder, second)
            assert rows_of(folder) == true
            check_statistics(folder)
    assert batches_in_log(folder / "table") == list(range(len(history)))


def check_statistics(folder: Path) -> None:
    """Compare the statistics in the log with the rows of each file."""
    for action in pa.table(opened(folder).get_add_actions()).to_pylist():
        rows = pq.read_table(folder / "table" / action["path"])
        assert action["num_records"] == rows.num_rows
        for name in rows.column_names:
            values = rows.column(name).cast(pa.string()).to_pylist()
            assert (action["null_count"] or {}).get(name) == values.count(None)
            known = [one for one in rows.column(name).to_pylist() if one is not None]
            for end, find in (("min", min), ("max", max)):
                assert (action[end] or {}).get(name) == find(known, default=None)


def test_large_files_stay_alone_and_files_without_a_key_stay_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_delta_staged, "_SMALL_BYTES", 0)
    for number in range(3):
        first = number * 10
        assert apply(tmp_path, in_files(tmp_path, number, [(first + at, "a", "+I") for at in range(10)], 1))
    before = set(opened(tmp_path).file_uris())
    seen: list[DataFile] = []

    def run(function: Any, items: Sequence[Any]) -> list[Any]:
        seen.extend(file for item in items for file in item.files)
        return run_here(function, items)

    # A key in the gap of no file, one of the second file, and one after all.
    assert apply(
        tmp_path, in_files(tmp_path, 3, [(15, "b", "+U"), (40, "c", "+I"), (50, None, "-D")], 1), run
    )
    assert len(seen) == 1, "the statistics exclude the other files"
    assert len(before & set(opened(tmp_path).file_uris())) == 2
    assert rows_of(tmp_path) == dict.fromkeys(range(30), "a") | {15: "b", 40: "c"}


def test_a_batch_of_few_bytes_is_applied_by_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_delta_staged, "DRIVER_BYTES", 1 << 20)

    def fail(function: Any, items: Sequence[Any]) -> list[Any]:
        raise AssertionError("tasks ran")

    assert apply(tmp_path, in_files(tmp_path, 0, [(1, "a", "+I")]), fail)
    assert opened(tmp_path).history(1)[0]["operation"] == "MERGE"
    monkeypatch.setattr(_delta_staged, "DRIVER_BYTES", 1000)
    many: list[Change] = [(number, "b", "+U") for number in range(100)]
    assert apply(tmp_path, in_files(tmp_path, 1, many))
    assert opened(tmp_path).history(1)[0]["operation"] == "WRITE"
    assert rows_of(tmp_path) == dict.fromkeys(range(100), "b")


def test_work_is_divided_by_the_size_of_files() -> None:
    mib = 1 << 20
    files = [DataFile(str(number), size * mib) for number, size in enumerate([100, 7, 7, 9, *[7] * 9])]
    found = items_of(files, ["x", "y"])
    assert [each.paths for each in found[:2]] == [("x",), ("y",)]
    together = [tuple(int(one.path) for one in each.files) for each in found[2:]]
    assert together == [(0,), (3,), (1, 2, 4, 5, 6, 7, 8, 9, 10, 11), (12,)]
    assert items_of([], []) == []


def test_all_types_are_written_and_written_again(tmp_path: Path) -> None:
    columns = pa.schema([(name, kind) for name, (kind, _) in VALUES.items()])
    kinds = pa.schema([*columns, ("row_kind", pa.string())])
    row = {name: value for name, (_, value) in VALUES.items()}
    nulls = {name: None for name in VALUES if name != "small"}
    keys = ("small",)
    last = LastRows(keys, columns)
    histories = [
        [row | {"small": 1, "row_kind": "+I"}, nulls | {"small": 2, "row_kind": "+I"}],
        [row | {"small": 3, "row_kind": "+I"}, nulls | {"small": 2, "row_kind": "-D"}],
    ]
    for way in ("files", "driver"):
        for number, rows in enumerate(histories):
            table = pa.Table.from_pylist(rows, kinds)
            # The first batch is the driver's, so the second one writes a file of deltalake again.
            stage = stage_in(tmp_path / way, number, last)
            found = (
                stage.batch(QUERY, parts_of(table, stage, lambda index: index))
                if number and way == "files"
                else Batch(QUERY, number, keys, last.last_rows(table))
            )
            assert apply(tmp_path / way, found)
    by_files, by_driver = (
        pa.table(opened(tmp_path / way).to_pyarrow_table()).cast(columns).sort_by("small")
        for way in ("files", "driver")
    )
    assert by_files.to_pylist() == by_driver.to_pylist() == [row | {"small": 1}, row | {"small": 3}]
    # Readers that skip files by the log still find the rows.
    dataset = opened(tmp_path / "files").to_pyarrow_dataset()
    for name in ("at", "at`ntz", "day", "part.key", "Key Name", "ratio", "small"):
        found = dataset.to_table(
            filter=pc.field(name) == pa.scalar(row[name] if name != "small" else 3, columns.field(name).type)
        )
        assert found.num_rows == (1 if name == "small" else 2), name


TEXTS = st.text(st.characters(codec="utf-8"), max_size=40)


@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(
        st.one_of(
            st.none(),
            TEXTS,
            TEXTS.map(lambda one: "x" * 32 + one),
            st.just("\U0010ffff" * 40),
        ),
        min_size=1,
        max_size=5,
    ),
    st.lists(
        st.one_of(st.none(), st.datetimes()),
        min_size=1,
        max_size=5,
    ),
    st.lists(st.one_of(st.none(), st.floats()), min_size=1, max_size=5),
)
def test_statistics_exclude_no_value(
    texts: list[str | None], times: list[datetime | None], numbers: list[float | None]
) -> None:
    checks: list[tuple[Sequence[Any], pa.DataType, Callable[[Any], Any]]] = [
        (texts, pa.string(), str),
        (times, pa.timestamp("us"), datetime.fromisoformat),
        (numbers, pa.float64(), float),
    ]
    for values, kind, read in checks:
        found = json.loads(statistics_of(pa.table({"a": pa.array(values, kind)})))
        known = [one for one in values if one is not None]
        assert found["numRecords"] == len(values)
        assert found["nullCount"] == {"a": len(values) - len(known)}
        if "a" in found["minValues"]:
            assert all(read(found["minValues"]["a"]) <= one for one in known)
        if "a" in found["maxValues"]:
            assert all(read(found["maxValues"]["a"]) >= one for one in known)


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
@pytest.mark.parametrize(
    "values", [[-0.0, 0.0], [0.0, -0.0], [-0.0], [0.0], [-1.0, -0.0, 0.0], [0.0, -0.0, 1.0]]
)
def test_statistics_of_zeros_exclude_neither_zero(values: list[float], kind: pa.DataType) -> None:
    """DataFusion orders -0.0 before 0.0, and would skip a file with the upper bound -0.0 for `f = 0.0`."""

    def place(value: float) -> tuple[float, float]:
        return value, math.copysign(1, value)

    found = json.loads(statistics_of(pa.table({"f": pa.array(values, kind)})))
    for zero in (-0.0, 0.0):
        assert place(found["minValues"]["f"]) <= place(zero) <= place(found["maxValues"]["f"])


def test_statistics_are_as_exact_as_readers_know_them() -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, 6, UTC)
    rows = pa.table(
        {
            "at": pa.array([at], pa.timestamp("us", "Europe/Berlin")),
            "day": [date(2026, 1, 2)],
            "amount": pa.array([Decimal("12345678901234567890.12")], pa.decimal128(38, 2)),
            "text": ["y" * 33],
            "none": pa.array([None], pa.int64()),
            "bytes": [b"x"],
            "nested": [{"a": 1}],
            "infinite": [float("inf")],
        }
    )
    found = json.loads(statistics_of(rows), parse_float=Decimal)
    assert found["minValues"] == {
        "at": "2026-01-02T03:04:05.000Z",
        "day": "2026-01-02",
        "amount": Decimal("12345678901234567890.12"),
        "text": "y" * 32,
    }
    assert found["maxValues"] == found["minValues"] | {
        "at": "2026-01-02T03:04:05.001Z",
        "text": "y" * 32 + "\U0010ffff",
    }
    assert found["nullCount"] == dict.fromkeys(set(rows.column_names) - {"nested"}, 0) | {"none": 1}


def first_batch(folder: Path) -> None:
    assert apply(folder, in_files(folder, 0, [(number, "a", "+I") for number in range(9)]))


CHANGES: list[Change] = [(1, "b", "+U"), (5, None, "-D"), (20, "c", "+I")]
TRUE = after(dict.fromkeys(range(9), "a"), CHANGES)


@pytest.mark.parametrize("step", ["in a task", "before the commit", "after the commit"])
def test_a_driver_that_dies_applies_the_batch_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    first_batch(tmp_path)
    with dying(monkeypatch, ours, "_commit_actions", step) as run:
        apply(tmp_path, in_files(tmp_path, 1, CHANGES), run)
    assert apply(tmp_path, in_files(tmp_path, 1, CHANGES)) == (step != "after the commit")
    assert rows_of(tmp_path) == TRUE
    assert batches_in_log(tmp_path / "table") == [0, 1]


def once_while_tasks_run(action: Callable[[], Any]) -> Callable[[Any, Sequence[Any]], list[Any]]:
    waiting = [1]

    def run(function: Any, items: Sequence[Any]) -> list[Any]:
        found = run_here(function, items)
        if waiting:
            waiting.pop()
            action()
        return found

    return run


OF_OTHERS: dict[str, Callable[[Any], Any]] = {
    "OPTIMIZE": lambda table: table.optimize.compact(),
    # It deletes the files too that the tasks have just written.
    "VACUUM END": lambda table: table.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True),
    "SET TBLPROPERTIES": lambda table: table.alter.set_table_properties(
        {"delta.logRetentionDuration": "interval 9 days"}
    ),
    "ADD COLUMN": lambda table: table.alter.add_columns(
        [deltalake.Field("note", deltalake.schema.PrimitiveType("string"))]
    ),
}
"""Operations of another writer that leave the rows."""


@pytest.mark.parametrize("operation", OF_OTHERS)
def test_a_commit_that_leaves_the_rows_makes_the_tasks_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    first_batch(tmp_path)
    monkeypatch.setattr(_delta_staged, "_SMALL_BYTES", 0)
    assert apply(tmp_path, in_files(tmp_path, 1, [(30, "d", "+I"), (8, "a", "+U")]))
    run = once_while_tasks_run(lambda: OF_OTHERS[operation](opened(tmp_path)))
    assert apply(tmp_path, in_files(tmp_path, 2, CHANGES), run)
    done = [one["operation"] for one in opened(tmp_path).history()]
    assert done[1] == operation, "it came before our commit"
    rows = opened(tmp_path).to_pyarrow_table().to_pylist()
    assert {one["id"]: one["na%me"] for one in rows} == TRUE | {30: "d"}
    assert len(rows) == len(TRUE) + 1
    assert batches_in_log(tmp_path / "table") == [0, 1, 2]


def test_of_two_drivers_one_applies_the_batch(tmp_path: Path) -> None:
    first_batch(tmp_path)
    other = in_files(tmp_path, 1, CHANGES)
    run = once_while_tasks_run(lambda: apply(tmp_path, other))
    assert not apply(tmp_path, in_files(tmp_path, 1, CHANGES), run)
    assert rows_of(tmp_path) == TRUE
    assert batches_in_log(tmp_path / "table") == [0, 1]


def test_two_drivers_with_other_rows_are_an_error(tmp_path: Path) -> None:
    first_batch(tmp_path)
    other = in_files(tmp_path, 1, CHANGES)
    run = once_while_tasks_run(lambda: apply(tmp_path, other))
    with pytest.raises(MaterializeError, match=r"was applied to .* before with other rows"):
        apply(tmp_path, in_files(tmp_path, 1, [(1, "z", "+U")]), run)
    assert rows_of(tmp_path) == TRUE


@pytest.mark.parametrize("is_meanwhile", [True, False])
def test_a_restore_is_refused(tmp_path: Path, *, is_meanwhile: bool) -> None:
    first_batch(tmp_path)
    assert apply(tmp_path, in_files(tmp_path, 1, [(1, "x", "+U")]))

    def restore() -> None:
        opened(tmp_path).restore(1)

    if not is_meanwhile:
        restore()
    with pytest.raises(MaterializeError, match=r"operation RESTORE .* after batch 1"):
        apply(
            tmp_path, in_files(tmp_path, 2, CHANGES), once_while_tasks_run(restore if is_meanwhile else str)
        )
    assert rows_of(tmp_path) == dict.fromkeys(range(9), "a")


def test_writers_that_never_stop_are_an_error(tmp_path: Path) -> None:
    first_batch(tmp_path)

    def run(function: Any, items: Sequence[Any]) -> list[Any]:
        alter(tmp_path / "table", 6)
        return run_here(function, items)

    with pytest.raises(MaterializeError, match="changed by other writers in each of 10 attempts"):
        apply(tmp_path, in_files(tmp_path, 1, CHANGES), run)
    assert rows_of(tmp_path) == dict.fromkeys(range(9), "a")


def change_log(folder: Path, *actions: dict[str, Any], **protocol: Any) -> None:
    """Commit as another writer does: a version that changes the protocol or the metadata of the table."""
    table = opened(folder)
    version = table.version() + 1
    lines = [
        {"commitInfo": {"timestamp": 0, "operation": "UPGRADE PROTOCOL", "operationParameters": {}}},
        *actions,
    ]
    if protocol:
        lines.append({"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **protocol}})
    file = folder / "table" / "_delta_log" / f"{version:020}.json"
    file.write_text("\n".join(map(json.dumps, lines)))


FEATURES = [
    "deletionVectors",
    "columnMapping",
    "typeWidening",
    "rowTracking",
    "clustering",
    "allowColumnDefaults",
]


@pytest.mark.parametrize("is_meanwhile", [True, False])
@pytest.mark.parametrize("feature", FEATURES)
def test_a_table_with_a_feature_that_files_of_tasks_do_not_serve_is_refused(
    tmp_path: Path, feature: str, *, is_meanwhile: bool
) -> None:
    first_batch(tmp_path)
    is_of_readers = feature in ("deletionVectors", "columnMapping", "typeWidening")

    def upgrade() -> None:
        readers = [feature] if is_of_readers else []
        change_log(tmp_path, readerFeatures=readers, writerFeatures=[feature])

    if not is_meanwhile:
        upgrade()
    run = once_while_tasks_run(upgrade if is_meanwhile else str)
    before = len(batches_in_log(tmp_path / "table"))
    with pytest.raises(MaterializeError, match=f"the table feature {feature}, which files"):
        apply(tmp_path, in_files(tmp_path, 1, CHANGES), run)
    assert len(batches_in_log(tmp_path / "table")) == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda table: table.alter.add_constraint({"positive": "id >= 0"}),
            r"delta\.constraints\.positive = id >= 0",
        ),
        (
            lambda table: table.alter.set_table_properties({"delta.enableChangeDataFeed": "true"}),
            r"the property delta\.enableChangeDataFeed = true",
        ),
        (
            lambda table: table.alter.set_table_properties({"delta.appendOnly": "true"}),
            r"the property delta\.appendOnly = true",
        ),
    ],
)
def test_a_rule_that_a_writer_has_to_check_is_refused(tmp_path: Path, change: Any, message: str) -> None:
    first_batch(tmp_path)
    change(opened(tmp_path))
    with pytest.raises(MaterializeError, match=message):
        apply(tmp_path, in_files(tmp_path, 1, CHANGES))
    assert rows_of(tmp_path) == dict.fromkeys(range(9), "a")


@pytest.mark.parametrize(
    ("field", "partitions", "message"),
    [
        ({"metadata": {"delta.invariants": "x"}}, [], r"the rule delta\.invariants of column 'na%me'"),
        ({}, ["na%me"], "the partition columns na%me"),
    ],
)
def test_columns_with_rules_are_refused(
    tmp_path: Path, field: dict[str, Any], partitions: list[str], message: str
) -> None:
    first_batch(tmp_path)
    log = tmp_path / "table" / "_delta_log" / f"{0:020}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    metadata = next(one["metaData"] for one in actions if "metaData" in one)
    schema = json.loads(metadata["schemaString"])
    schema["fields"][1] |= field
    metadata |= {"schemaString": json.dumps(schema), "partitionColumns": partitions}
    change_log(tmp_path, {"metaData": metadata})
    with pytest.raises(MaterializeError, match=message):
        apply(tmp_path, in_files(tmp_path, 1, CHANGES))


def test_a_table_with_more_columns_is_the_drivers_who_keeps_their_values(tmp_path: Path) -> None:
    first_batch(tmp_path)
    alter(tmp_path / "table", 3)

    def fail(function: Any, items: Sequence[Any]) -> list[Any]:
        raise AssertionError("tasks ran")

    assert apply(tmp_path, in_files(tmp_path, 1, CHANGES), fail)
    found = opened(tmp_path).to_pyarrow_table()
    assert found.column_names == ["id", "na%me", "note"]
    assert found.num_rows == len(TRUE)


def test_a_compacted_file_with_times_in_96_bits_is_written_again(tmp_path: Path) -> None:
    """Spark writes them so, without a zone, if it is configured for old readers."""
    at = datetime(2026, 1, 2, 3, 4, 5, 6, UTC)
    columns = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    last = LastRows(("id",), columns)
    rows = pa.table([[1, 2], [at, at]], schema=columns)
    assert apply(tmp_path, Batch(QUERY, 0, ("id",), last.last_rows(rows)))
    path = Path(opened(tmp_path).file_uris()[0])
    pq.write_table(rows, path, use_deprecated_int96_timestamps=True)
    stage = stage_in(tmp_path, 1, last)
    found = stage.batch(QUERY, parts_of(rows.slice(1), stage, lambda index: index))
    assert apply(tmp_path, found)
    assert opened(tmp_path).to_pyarrow_table().sort_by("id").cast(columns).equals(rows)
    new = next(Path(one) for one in opened(tmp_path).file_uris() if pq.read_metadata(one).num_rows)
    assert pq.read_schema(new).field("at").type == pa.timestamp("us", "UTC")


def test_a_path_outside_of_the_table_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first_batch(tmp_path)
    table = opened(tmp_path)

    class Cloned:
        def get_add_actions(self, *, flatten: bool) -> pa.Table:
            found = pa.table(table.get_add_actions(flatten=flatten))
            return found.set_column(0, "path", pa.array(["s3://other/x.parquet"] * found.num_rows))

    keys = Keys(pa.table({"id": [1]}))
    with pytest.raises(
        MaterializeError, match=r"has the data file 's3://other/x.parquet', whose path executors"
    ):
        list(_delta_staged.touched_files(Cloned(), keys, "the table"))
