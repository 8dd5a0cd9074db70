"""Notes, progress, restarts, slots, assignment: what the driver of a continuous query decides without I/O."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.cluster.log_offsets import CommittedOffset
from penstock.relay.assignment import divided
from penstock.relay.messages import NOTHING, Totals
from penstock.relay.notes import TaskNote, plan_note, query_of, task_note_of, topic_id_of
from penstock.relay.progress import KEPT, Progress, figures_of
from penstock.relay.restarts import FAILURES_MAX, Restarts, Slots
from penstock.types import TopicPartition

TOPIC_PARTITION = TopicPartition("orders", 0)
TOPIC_ID = "11111111-2222-3333-4444-555555555555"


def note(generation: int = 1, task: int = 0, attempt: int = 0, records: int = 0) -> str:
    said = TaskNote(generation, task, attempt, 1, Totals(records, records, 1))
    return said.text(TOPIC_ID)


@given(st.tuples(*[st.integers(0, 2**40)] * 12))
def test_a_note_is_read_as_it_was_written(numbers: tuple[int, ...]) -> None:
    generation, number, attempt, start_count, *totals = numbers
    said = TaskNote(generation, number, attempt, start_count, Totals(*totals))
    assert task_note_of(said.text(TOPIC_ID)) == said
    assert topic_id_of(said.text(TOPIC_ID)) == TOPIC_ID
    assert query_of(said.text(TOPIC_ID)) is None
    for topic_id in (TOPIC_ID, None):
        of_query = said.text(topic_id, "0123456789ab")
        assert (topic_id_of(of_query), query_of(of_query)) == (topic_id, "0123456789ab")
        assert task_note_of(of_query) == said


def test_the_first_notes_said_nothing_of_bytes_and_bad_records() -> None:
    said = task_note_of(f"penstock1 {TOPIC_ID} 7 2 1 3 1000 990 41")
    assert said == TaskNote(7, 2, 1, 3, Totals(1000, 990, 41))


@pytest.mark.parametrize(
    "text",
    ["", "consumer's own", "penstock2 x 1 2 3 4 5 6 7", "penstock1 x 1 2 3 4 5 6 y", "penstock1 x 1 2"],
)
def test_what_others_have_committed_is_not_a_note(text: str) -> None:
    assert task_note_of(text) is None
    assert topic_id_of(text) in (None, "x")


def test_the_driver_notes_only_the_topic() -> None:
    assert task_note_of(plan_note(TOPIC_ID)) is None
    assert topic_id_of(plan_note(TOPIC_ID)) == TOPIC_ID
    assert topic_id_of(plan_note(None)) is None


@given(st.integers(1, 30), st.integers(1, 40))
def test_topic_partitions_are_divided_evenly(partitions: int, tasks: int) -> None:
    topic_partitions = [TopicPartition("orders", index) for index in range(partitions)]
    found = divided(topic_partitions, tasks)
    assert sorted(topic_partition for mine in found for topic_partition in mine) == topic_partitions
    sizes = [len(mine) for mine in found]
    assert len(found) == min(partitions, tasks)
    assert max(sizes) - min(sizes) <= 1


def test_a_pause_doubles_until_something_is_committed() -> None:
    restarts = Restarts()
    assert [restarts.pause_ms(5) for _ in range(8)] == [1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000]
    assert restarts.pause_ms(6) == 1000
    assert [restarts.pause_ms(6) for _ in range(FAILURES_MAX)][-1] is None


def test_tasks_that_do_not_begin_give_a_plan_with_those_that_have() -> None:
    slots = Slots(3, patience_ms=100)
    assert slots.see(0, 0) is None
    assert slots.see(0, 1_000) is None, "no slot at all: it waits"
    assert slots.see(1, 2_000) is None
    assert slots.see(2, 2_090) is None
    assert slots.see(2, 2_150) is None, "the last one has begun a moment ago"
    assert slots.see(2, 2_190) == 2
    assert slots.see(3, 2_200) is None
    assert slots.are_enough


def progress_of(positions: int = 0) -> Progress:
    made = Progress({"name": "test"})
    made.begin({TOPIC_PARTITION: positions}, 100.0)
    return made


def test_a_report_has_what_was_committed_since_the_last_one() -> None:
    progress = progress_of()
    assert progress.see({TOPIC_PARTITION: CommittedOffset(0, plan_note(TOPIC_ID))}, 1, 101.0) is None
    first = progress.see({TOPIC_PARTITION: CommittedOffset(40, note(records=40))}, 1, 102.0)
    assert first is not None
    assert (first["numInputRows"], first["inputRowsPerSecond"]) == (40, 20.0)
    assert first["timestamp"] == "1970-01-01T00:01:42.000Z"
    second = progress.see({TOPIC_PARTITION: CommittedOffset(100, note(records=90))}, 1, 104.0)
    assert second is not None
    assert second["numInputRows"] == 50
    assert second["startOffset"] == {"orders": {"0": 40}}
    assert second["endOffset"] == {"orders": {"0": 100}}
    assert [progress.idle_since_s] == [None]
    assert progress.see({TOPIC_PARTITION: CommittedOffset(100, note(records=90))}, 1, 105.0) is None
    assert progress.see({TOPIC_PARTITION: CommittedOffset(100, note(records=90))}, 1, 106.0) is None
    assert progress.idle_since_s == 105.0
    assert progress.committed.records_in == 90
    assert first.keys() == second.keys() > figures_of(NOTHING).keys()
    assert progress.positions == {TOPIC_PARTITION: 100}


def test_a_report_counts_bytes_and_bad_records() -> None:
    progress = progress_of()
    for number, totals in enumerate((Totals(9, 5, 1, 90, 50, 1, 2, 1), Totals(20, 15, 2, 200, 150, 1, 3, 1))):
        said = TaskNote(1, 0, 0, 1, totals).text(TOPIC_ID)
        progress.see({TOPIC_PARTITION: CommittedOffset(10 * number + 10, said)}, 1, 101.0 + number)
    found = {name: [each[name] for each in progress.recent] for name in figures_of(NOTHING)}
    assert found == {
        "numInputRows": [9, 11], "numInputBytes": [90, 110], "numOutputRows": [5, 10],
        "numOutputBytes": [50, 100], "numTransactions": [1, 1], "numDeadLetters": [2, 1],
        "numSkippedRecords": [1, 0], "numIgnoredRecords": [1, 0],
    }  # fmt: skip


def test_attempts_and_plans_are_added_up_and_older_queries_left_out() -> None:
    progress = progress_of()
    other = TopicPartition("orders", 1)
    progress.see({TOPIC_PARTITION: CommittedOffset(9, note(generation=1, records=999))}, 5, 101.0)
    assert progress.totals == NOTHING
    progress.see({TOPIC_PARTITION: CommittedOffset(10, note(5, records=10))}, 5, 102.0)
    progress.see({TOPIC_PARTITION: CommittedOffset(15, note(5, attempt=1, records=5))}, 5, 103.0)
    progress.see({TOPIC_PARTITION: CommittedOffset(15, note(5, attempt=1, records=5)),
                  other: CommittedOffset(7, note(5, task=1, records=7))}, 5, 104.0)  # fmt: skip
    assert progress.totals.records_in == 22
    progress.forget_plans(6)
    progress.see({TOPIC_PARTITION: CommittedOffset(15, note(5, attempt=1, records=5)),
                  other: CommittedOffset(10, note(6, records=3))}, 6, 105.0)  # fmt: skip
    assert progress.totals.records_in == 25


def test_as_many_reports_are_kept_as_spark_keeps() -> None:
    progress = progress_of()
    for number in range(KEPT + 20):
        progress.see(
            {TOPIC_PARTITION: CommittedOffset(number + 1, note(records=number + 1))}, 1, 100.0 + number
        )
    assert len(progress.recent) == KEPT
