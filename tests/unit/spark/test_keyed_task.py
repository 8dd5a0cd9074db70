"""The task of an operator with state, without Spark: what it refuses and what it adds."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.changelog.operators.normalize import Normalize
from penstock.errors import RowError, StateError
from penstock.spark import _keyed_task
from penstock.spark._clocks import Clocks
from penstock.spark._keyed_task import NOW_MS, PARTITION, KeyedTask, identity_of
from penstock.spark._planning import PlanWriter
from penstock.spark._task_context import BatchTask
from penstock.state import mounts, store
from penstock.state.files import LocalFiles
from penstock.state.shared_folder import folder_id
from penstock.state.snapshot import Lifetime

COLUMNS = pa.schema([("k", pa.string()), ("v", pa.int64()), ("at", pa.int64())])
OPERATOR = identity_of(Normalize(COLUMNS, ("k",), ("at",)), "", 1)
SENT = pa.schema([*COLUMNS, (PARTITION, pa.int32()), (NOW_MS, pa.int64())])


def sent(*rows: tuple[str, int, int], now_ms: int = 1) -> list[pa.RecordBatch]:
    columns = [[row[index] for row in rows] for index in range(3)]
    arrays = [*columns, [0] * len(rows), [now_ms] * len(rows)]
    return [
        pa.RecordBatch.from_arrays(
            [pa.array(each, field.type) for each, field in zip(arrays, SENT, strict=True)], schema=SENT
        )
    ]


@pytest.fixture
def batch_id(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of the batch that Spark tells the task."""
    number = [0]
    monkeypatch.setattr(_keyed_task, "batch_of_task", lambda: BatchTask("query", "run", number[0]))
    monkeypatch.setattr(store, "_OPEN", {})
    return number


def task(folder: Path, lifetime: Lifetime | None = None, **arguments: Any) -> KeyedTask:
    operator = Normalize(COLUMNS, ("k",), ("at",))
    return KeyedTask(operator, COLUMNS, str(folder), 1, lifetime or Lifetime(), **arguments)


def kinds(given: KeyedTask, batches: list[pa.RecordBatch]) -> list[str]:
    return [kind for batch in given.run(batches) for kind in batch.column("row_kind").to_pylist()]


def test_a_time_to_live_may_be_added_later(tmp_path: Path, batch_id: list[int]) -> None:
    assert kinds(task(tmp_path), sent(("a", 1, 1), now_ms=10**12)) == ["+I"]
    batch_id[0] = 1
    later = task(tmp_path, Lifetime(ttl_ms=100))
    assert kinds(later, sent(("a", 2, 2), now_ms=10**12 + 99)) == ["-U", "+U"]
    batch_id[0] = 2
    assert kinds(later, sent(("a", 3, 3), now_ms=10**12 + 199)) == ["+I"]


def test_no_message_shows_the_credentials_of_a_folder() -> None:
    wrong = KeyedTask(
        Normalize(COLUMNS, ("k",), ("at",)), COLUMNS, "s3://user:hidden@bucket/state?x=hidden", 1, Lifetime()
    )
    with pytest.raises(StateError, match="The state in s3://bucket/state is given to a query") as raised:
        list(wrong.run(sent(("a", 1, 1))))
    assert "hidden" not in f"{raised.value} {raised.value.facts}"


def test_a_folder_that_the_driver_does_not_see_is_refused(tmp_path: Path, batch_id: list[int]) -> None:
    seen = folder_id(LocalFiles(str(tmp_path / "driver")))
    assert kinds(task(tmp_path / "driver", folder_id=seen), sent(("a", 1, 1))) == ["+I"]
    with pytest.raises(StateError, match="is not there on this machine"):
        kinds(task(tmp_path / "worker", folder_id=seen), sent(("a", 1, 1)))


def test_of_two_calls_with_one_folder_the_newer_one_may_start(
    tmp_path: Path, batch_id: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    older, newer = (asdict(PlanWriter(str(tmp_path), plan, OPERATOR).run()) for plan in ("aa", "bb"))
    assert (older["number"], newer["number"]) == (1, 2)
    with pytest.raises(StateError, match="was called again after the DataFrame of this query was made"):
        kinds(task(tmp_path, plan_number=1, plan_id="aa"), sent(("a", 1, 1)))
    assert kinds(task(tmp_path, plan_number=2, plan_id="bb"), sent(("a", 1, 1))) == ["+I"]
    third = PlanWriter(str(tmp_path), "cc", OPERATOR).run()
    batch_id[0] = 1
    assert kinds(task(tmp_path, plan_number=2, plan_id="bb"), sent(("a", 2, 2))) == ["-U", "+U"]
    next_run = BatchTask("query", "next run", 2)
    monkeypatch.setattr(_keyed_task, "batch_of_task", lambda: next_run)
    seen: dict[str, Any] = {"plan_number": third.number, "plan_id": "cc", "folder_id": third.folder_id}
    assert kinds(task(tmp_path, **seen), sent(("a", 3, 3))) == ["-U", "+U"]


def test_a_state_is_compared_with_the_operator_before_the_start(tmp_path: Path, batch_id: list[int]) -> None:
    folder = tmp_path / "state"
    new = PlanWriter(str(tmp_path / "new"), "aa", replace(OPERATOR, partition_count=7)).run()
    assert new.partition_count == 7
    list(task(folder).run(sent(("a", 1, 1))))
    many = replace(OPERATOR, partition_count=200)
    assert PlanWriter(str(folder), "bb", many).run().partition_count == 1, "that of the state"
    with pytest.raises(StateError, match="the number of partitions is 1 in the state and 200"):
        PlanWriter(str(folder), "cc", many, is_count_chosen=True).run()
    more = Normalize(COLUMNS.append(pa.field("city", pa.string())), ("k",), ("at",))
    with pytest.raises(
        StateError, match=r"city string, #seen at int64\] in the query.*'Checkpoint, state and table'"
    ):
        PlanWriter(str(folder), "dd", identity_of(more, "", 1)).run()


def test_a_mount_that_keeps_listings_is_refused_if_there_are_several_machines(
    tmp_path: Path, batch_id: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mounts, "_found", lambda _: ("/data", "nfs4"))
    with pytest.raises(StateError, match="on the mount /data of type nfs4"):
        PlanWriter(str(tmp_path), "aa", OPERATOR).run()
    plan = PlanWriter(str(tmp_path), "aa", OPERATOR, has_one_machine=True).run()
    seen: dict[str, Any] = {"folder_id": plan.folder_id, "plan_number": plan.number}
    with pytest.raises(StateError, match="on the mount /data of type nfs4"):
        kinds(task(tmp_path, **seen), sent(("a", 1, 1)))
    assert kinds(task(tmp_path, **seen, has_one_machine=True), sent(("a", 1, 1))) == ["+I"]


def test_two_operators_of_one_query_in_one_folder_are_refused(tmp_path: Path, batch_id: list[int]) -> None:
    assert kinds(task(tmp_path, plan_id="one"), sent(("a", 1, 1))) == ["+I"]
    with pytest.raises(StateError, match="Two operators of this query use the state"):
        kinds(task(tmp_path, plan_id="other"), sent(("b", 1, 1)))


@pytest.mark.parametrize(
    "error", [pa.ArrowInvalid("offset overflow while concatenating"), pa.ArrowCapacityError("x")]
)
def test_more_than_two_gigabytes_in_a_task_are_an_error_of_the_rows(
    tmp_path: Path, batch_id: list[int], error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def step(*_: object) -> None:
        raise error

    monkeypatch.setattr(Normalize, "step", step)
    with pytest.raises(RowError, match="One task of `normalize` has more than 2 GB in one column"):
        kinds(task(tmp_path), sent(("a", 1, 1)))


def test_a_task_adds_its_clocks_for_each_partition() -> None:
    time = pa.timestamp("us", "UTC")
    schema = pa.schema(
        [
            pa.field("#side", pa.int8(), nullable=False),
            ("#left at", time),
            ("#right at", time),
            ("#clock", pa.int64()),
            ("row_kind", pa.string()),
            (PARTITION, pa.int32()),
            (NOW_MS, pa.int64()),
        ]
    )
    batches = [
        pa.RecordBatch.from_pylist([{"#side": 0, "#left at": at, NOW_MS: 9, PARTITION: 0}], schema)
        for at in (5, 3, None)
    ]
    out = list(Clocks(("#left at", "#right at"), 2).run(batches))
    assert [batch.to_pylist() for batch in out[:3]] == [batch.to_pylist() for batch in batches]
    assert len({str(batch.schema) for batch in out}) == 1, "a stream of Arrow has one schema"
    assert [(row["#side"], row["#clock"], row[PARTITION], row[NOW_MS]) for row in out[3].to_pylist()] == [
        (2, 5, 0, 9),
        (2, 5, 1, 9),
    ]
    assert len(out) == 4, "nothing is known of the other side"
    assert list(Clocks(("#left at", "#right at"), 2).run([])) == []
