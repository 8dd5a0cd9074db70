"""Dead letters go back once, whatever dies between any two requests. On the fake Kafka."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pyarrow as pa
import pytest

from penstock.cli.dead_letters import _chosen, _edit_of
from penstock.client.transactions.append import append_plainly, write_record_batch
from penstock.client.transactions.steps import TransactionProtocol
from penstock.codec import HEADERS_TYPE, RecordBatchBuilder, RecordBatchDecoder, RecordColumns
from penstock.errors import DecisionLogError, OptionError, RowError, UnknownTopicOrPartitionError
from penstock.sink.dead_letters.found import HEADER_PREFIX, DeadLetter
from penstock.sink.dead_letters.notes import NOTES_SUFFIX, decode_note, topic_of_note
from penstock.sink.dead_letters.requeue import Requeue
from penstock.table import _bad_records
from penstock.testing.fake.batches import Batch
from penstock.types import TopicPartition
from tests.unit.sink_cluster import TARGET, SinkClient, SinkCluster
from tests.unit.virtual_time import client_waits_in_virtual_time

BAD = "bad"
_COUNT = 5


class _Death(BaseException):
    """The process dies."""


@pytest.fixture(autouse=True)
def _virtual_time() -> Iterator[None]:
    with client_waits_in_virtual_time():
        yield


def _headers(offset: int, reason: str) -> list[dict[str, Any]]:
    told = {"topic": TARGET.topic, "partition": 0, "offset": offset, "timestamp": 7, "error": reason}
    ours = [{"key": HEADER_PREFIX + name, "value": str(value).encode()} for name, value in told.items()]
    return [{"key": "trace", "value": b"1"}, {"key": "trace", "value": None}, *ours]


def _put(cluster: SinkCluster, offsets: list[int], value: bytes = b"v") -> None:
    rows = pa.record_batch(
        {
            "key": pa.array([b"k%d" % each for each in offsets], pa.binary()),
            "value": pa.array([None if each == 3 else value + b"%d" % each for each in offsets], pa.binary()),
            "headers": pa.array([_headers(each, f"reason {each % 2}") for each in offsets], HEADERS_TYPE),
            "timestamp": pa.array([7_000] * len(offsets), pa.int64()).cast(pa.timestamp("us", "UTC")),
        }
    )
    builder = RecordBatchBuilder(BAD, 0, max_record_bytes=1 << 20)
    builder.append(RecordColumns(rows), pa.array(range(len(offsets)), pa.int32()), default_timestamp_ms=0)
    with cluster.kafka.log(BAD) as log:
        log.append(Batch.of(builder.build()), leader_epoch=0)


def _prepare(cluster: SinkCluster) -> None:
    cluster.kafka.create_topic(BAD)
    cluster.kafka.delete_topic(TARGET.topic)
    cluster.kafka.create_topic(TARGET.topic, config={"retention.ms": "-1"})
    _put(cluster, list(range(_COUNT)))


@pytest.fixture(params=list(TransactionProtocol), ids=lambda each: each.name)
def cluster(request: pytest.FixtureRequest) -> SinkCluster:
    found = SinkCluster(request.param)
    _prepare(found)
    return found


def _requeue(cluster: SinkCluster, client: SinkClient | None = None, **options: Any) -> list[DeadLetter]:
    connections = (client or SinkClient(cluster.kafka)).connections
    letters = _chosen(connections, BAD, options.pop("reason", None), None, range(1 << 62))
    return list(Requeue(connections, BAD, **options).run(letters))


def _committed(cluster: SinkCluster) -> list[dict[str, Any]]:
    with cluster.kafka.log(TARGET.topic) as log:
        data = b"".join(each.data for each in log.batches)
        aborted = [(each.producer_id, each.first_offset) for each in log.aborted]
        end = log.last_stable_offset
    decoder = RecordBatchDecoder(*TARGET, starting_offset=0, stopping_offset=end, read_committed=True)
    batches = [*decoder.decode(data, aborted), decoder.flush()]
    return [row for rows in batches if rows is not None for row in rows.to_pylist()]


def test_a_record_comes_back_as_it_was_without_our_headers(cluster: SinkCluster) -> None:
    assert len(_requeue(cluster)) == _COUNT
    rows = _committed(cluster)
    assert [each["key"] for each in rows] == [b"k%d" % each for each in range(_COUNT)]
    assert [each["value"] for each in rows] == [b"v0", b"v1", b"v2", None, b"v4"]
    assert all(
        each["headers"] == [{"key": "trace", "value": b"1"}, {"key": "trace", "value": None}] for each in rows
    )
    assert {each["timestamp"].timestamp() for each in rows} == {0.007}


def test_what_is_back_stays_out_also_if_a_task_wrote_it_twice(cluster: SinkCluster) -> None:
    _put(cluster, [1])
    assert len(_requeue(cluster, reason="reason 1")) == 2
    assert _requeue(cluster, reason="reason 1") == []
    _put(cluster, [1, 9])
    assert [each.origin.offset for each in _requeue(cluster)] == [0, 2, 4, 9]
    assert len(_committed(cluster)) == _COUNT + 1


def test_a_death_between_any_two_requests_neither_loses_nor_doubles(
    cluster: SinkCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.sink.dead_letters.requeue._TOGETHER", 2)
    moments = _count_moments(cluster.protocol)
    assert moments > 20
    for death in range(moments):
        fresh = SinkCluster(cluster.protocol)
        _prepare(fresh)
        client, left = SinkClient(fresh.kafka), [death]

        def moment(request: object, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise _Death

        client.moment = moment
        with pytest.raises(_Death):
            _requeue(fresh, client)
        _requeue(fresh)
        assert _requeue(fresh) == []
        keys = sorted(each["key"] for each in _committed(fresh))
        assert keys == [b"k%d" % each for each in range(_COUNT)], f"death at moment {death}"


def _count_moments(protocol: TransactionProtocol) -> int:
    fresh = SinkCluster(protocol)
    _prepare(fresh)
    client, seen = SinkClient(fresh.kafka), list[object]()
    client.moment = seen.append
    _requeue(fresh, client)
    return len(seen)


def test_two_at_once_put_nothing_back_twice(cluster: SinkCluster) -> None:
    slow = SinkClient(cluster.kafka)

    def moment(request: object) -> None:
        if type(request).__name__ == "ProduceRequest":
            slow.moment = lambda request: None
            _requeue(cluster)

    slow.moment = moment
    with pytest.raises(Exception, match="requeue"):
        _requeue(cluster, slow)
    assert sorted(each["key"] for each in _committed(cluster)) == [b"k%d" % each for each in range(_COUNT)]


def test_lost_notes_are_an_error(cluster: SinkCluster) -> None:
    _requeue(cluster)
    cluster.kafka.delete_topic(BAD + NOTES_SUFFIX)
    with pytest.raises(DecisionLogError, match="could be doubled"):
        _requeue(cluster)
    assert len(_committed(cluster)) == _COUNT


def test_a_target_that_does_not_exist_changes_nothing(cluster: SinkCluster) -> None:
    with pytest.raises(UnknownTopicOrPartitionError, match="--into"):
        _requeue(cluster, target="nowhere")
    assert len(_requeue(cluster)) == _COUNT


def test_a_value_is_edited_and_a_tombstone_stays_one(cluster: SinkCluster, tmp_path: Path) -> None:
    path = tmp_path / "edit.py"
    path.write_text("def edit(value):\n    return value.replace(b'v', b'w')\n")
    _requeue(cluster, edit=_edit_of(path))
    assert [each["value"] for each in _committed(cluster)] == [b"w0", b"w1", b"w2", None, b"w4"]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("value.replace(b'v', b'w')", "Expected bytes .* got NoneType"),
        ("return value.decode()", "Expected bytes .* got str"),
        ("return 1 / 0", "offset 0 of bad-0 failed: ZeroDivisionError"),
    ],
    ids=["forgets its return", "returns a text", "fails"],
)
def test_a_wrong_edit_puts_nothing_back(cluster: SinkCluster, tmp_path: Path, body: str, told: str) -> None:
    path = tmp_path / "edit.py"
    path.write_text(f"def edit(value):\n    {body}\n")
    with pytest.raises(RowError, match=told):
        _requeue(cluster, edit=_edit_of(path))
    assert _committed(cluster) == []
    assert len(_requeue(cluster)) == _COUNT


def test_the_edit_of_the_page_repairs_the_value_of_the_page(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "bad-records.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^   ```python\n(.*?)^   ```", page, re.DOTALL | re.MULTILINE)
    path = tmp_path / "repair.py"
    path.write_text(dedent(code))
    assert _edit_of(path)(b'{"id": 17, "amount": "12,50"}') == b'{"id": 17, "amount": 12.50}'


def test_a_file_without_an_edit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="FileNotFoundError"):
        _edit_of(tmp_path / "nothing.py")
    path = tmp_path / "edit.py"
    for text, told in (
        ("x = 1", "found none"),
        ("x =", "SyntaxError"),
        ("import nothing_here", "nothing_here"),
    ):
        path.write_text(text)
        with pytest.raises(OptionError, match=told):
            _edit_of(path)


def test_another_record_at_the_same_offset_of_a_new_topic_is_not_back(cluster: SinkCluster) -> None:
    """A topic that was created again begins with the same offsets, and its times may be the same."""
    assert len(_requeue(cluster)) == _COUNT
    _put(cluster, [0, 1], value=b"of the new topic")
    assert [each.origin.offset for each in _requeue(cluster)] == [0, 1]


def test_records_that_do_not_fit_into_one_batch_go_in_several(cluster: SinkCluster) -> None:
    cluster.kafka.create_topic("small", config={"max.message.bytes": "200", "retention.ms": "-1"})
    assert len(_requeue(cluster, target="small")) == _COUNT
    assert _requeue(cluster, target="small") == []
    with cluster.kafka.log("small") as log:
        assert sum(each.record_count for each in log.batches if not each.is_control) >= _COUNT


def test_a_record_that_its_topic_would_delete_is_an_error(cluster: SinkCluster) -> None:
    cluster.kafka.create_topic("week")
    with pytest.raises(RowError, match=r"would be deleted at once.* --new-time"):
        _requeue(cluster, target="week")
    cluster.kafka.create_topic("compacted", config={"cleanup.policy": "compact"})
    assert len(_requeue(cluster, target="compacted", reason="reason 1")) == 2
    assert len(_requeue(cluster, target="week", is_new_time=True)) == _COUNT - 2
    with cluster.kafka.log("week") as log:
        assert max(each.max_timestamp_ms for each in log.batches) > 1_700_000_000_000


def test_the_topics_of_dead_letters_and_notes_are_no_targets(cluster: SinkCluster) -> None:
    for target in (BAD, BAD + NOTES_SUFFIX):
        with pytest.raises(OptionError, match="another topic for --into"):
            _requeue(cluster, target=target)


def test_a_note_that_cannot_be_read_stops_everything(cluster: SinkCluster) -> None:
    """A note of a later version may mean something else. So nothing is put back, rather than twice."""
    _requeue(cluster, reason="reason 1")
    connections = SinkClient(cluster.kafka).connections
    notes = TopicPartition(BAD + NOTES_SUFFIX, 0)
    append_plainly(connections, notes, b"{}", b'{"version": 2}', timeout_ms=1_000)
    with pytest.raises(DecisionLogError, match="version 2, while this is version 1"):
        _requeue(cluster)
    assert len(_committed(cluster)) == 2


@pytest.mark.parametrize(
    ("key", "value"), [(None, None), (b"{}", b'{"version": 1}'), (b"5", b"5"), (b"x", b'{"version": 1}')]
)
def test_another_record_is_not_a_note(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        decode_note(key, value)


@pytest.mark.parametrize("value", [None, b"5", b'{"version": 1}', b'{"version": 1, "into": ["orders"]}'])
def test_a_note_without_a_topic_is_not_read(value: bytes | None) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        topic_of_note(value)


def test_dead_letters_behind_an_open_transaction_are_named(
    cluster: SinkCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = pa.record_batch({"value": pa.array([b"x"], pa.binary())})
    builder = RecordBatchBuilder(BAD, 0, max_record_bytes=1 << 20, is_transactional=True)
    builder.append(RecordColumns(rows), pa.array([0], pa.int32()), default_timestamp_ms=0)
    identity, at = cluster.take("other"), TopicPartition(BAD, 0)
    cluster.transactions.add_topic_partitions(identity, [at])
    data = builder.build(
        producer_id=identity.producer_id, producer_epoch=identity.producer_epoch, base_sequence=0
    )
    write_record_batch(cluster.client.connections, identity, at, data, timeout_ms=1_000)
    _put(cluster, [7])
    assert len(_requeue(cluster)) == _COUNT
    assert "2 offsets of bad-0 from 5 on are behind an open transaction" in capsys.readouterr().err


def test_the_header_that_is_looked_for_is_the_one_that_is_written() -> None:
    assert HEADER_PREFIX == _bad_records.HEADER_PREFIX
