"""Where a bounded stream of an older consumer ends, planned as the driver plans it."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import BrokerUnavailableError, OptionError
from penstock.flink import ConsumerRecord, SimpleStringSchema
from penstock.flink.legacy import FlinkKafkaConsumer, KafkaDeserializationSchema
from penstock.options.parse import parse_read
from penstock.options.python_objects import DESERIALIZER
from penstock.source.checkpoint_offset import SourceOffset
from penstock.source.enumerator import SplitEnumerator
from tests.unit.source_fakes import FakeAdmin, Log, tp


class UntilEnd(KafkaDeserializationSchema):
    def deserialize(self, record: ConsumerRecord) -> Any:
        return (record.value or b"").decode().split()

    def is_end_of_stream(self, next_element: Any) -> bool:
        return bool(next_element == "end")

    def get_produced_type(self) -> str:
        return "STRING"


class FakeReader:
    """Keeps the options of `spark.readStream`."""

    def __init__(self) -> None:
        self.given: dict[str, str] = {}

    @property
    def readStream(self) -> FakeReader:
        return self

    def format(self, _: str) -> FakeReader:
        return self

    def options(self, **given: str) -> FakeReader:
        self.given = given
        return self

    def schema(self, _: Any) -> FakeReader:
        return self

    def load(self) -> FakeReader:
        return self


def consumer(schema: Any = None, **properties: str) -> FlinkKafkaConsumer:
    given = {"bootstrap.servers": "unused:9092", **properties}
    made = FlinkKafkaConsumer("t", UntilEnd() if schema is None else schema, given)
    return made.set_start_from_earliest()


def bounded(made: FlinkKafkaConsumer) -> dict[str, str]:
    spark = FakeReader()
    made.load_bounded(spark)  # type: ignore[arg-type]
    return spark.given


def query(made: FlinkKafkaConsumer, admin: FakeAdmin) -> SplitEnumerator:
    return SplitEnumerator(parse_read(bounded(made), streaming=True).source, admin)


def cluster(*logs: bytes) -> FakeAdmin:
    """Return a cluster with the words of each text as records."""
    values = {tp(partition): text.split() for partition, text in enumerate(logs)}
    return FakeAdmin(
        {topic_partition: Log(0, len(words)) for topic_partition, words in values.items()}, values=values
    )


def append(admin: FakeAdmin, partition: int, *words: bytes) -> None:
    admin.values[tp(partition)] += words
    admin.logs[tp(partition)].end += len(words)


def stops(offset: SourceOffset) -> dict[Any, int]:
    return dict(offset.markers.stops or {})


def test_records_between_the_call_and_the_first_planning_count() -> None:
    admin = cluster(b"a", b"b c")
    options = bounded(consumer())
    append(admin, 0, b"end", b"after")
    append(admin, 1, b"d")
    planned = SplitEnumerator(parse_read(options, streaming=True).source, admin)
    initial = planned.initial_offset()
    append(admin, 1, b"later", b"end")
    admin.logs[tp(2)], admin.values[tp(2)] = Log(0, 1), [b"new"]
    assert stops(initial) == {tp(0): 1, tp(1): 3}
    end = planned.latest_offset(initial, None)
    assert end.positions == {tp(0): 1, tp(1): 3}, "rows after an end, or that were not looked at, are read"


def test_a_restarted_query_does_not_look_again() -> None:
    admin = cluster(b"a end x")
    first = query(consumer(), admin)
    end = first.latest_offset(first.initial_offset(), 1)
    admin.values.clear()
    again = query(consumer(), admin)
    assert again.latest_offset(SourceOffset.from_json(end.to_json()), None).positions == {tp(0): 1}


def test_elements_before_the_end_in_its_record_are_read() -> None:
    admin = FakeAdmin({tp(0): Log(0, 3)}, values={tp(0): [b"a", b"b end c", b"d"]})
    assert stops(query(consumer(), admin).initial_offset()) == {tp(0): 2}


def test_the_end_is_looked_for_from_the_start_of_the_query() -> None:
    admin = cluster(b"end a b end c", b"a")
    admin.committed = {"g": {tp(0): 2, tp(1): 1}}
    made = consumer(**{"group.id": "g"}).set_start_from_group_offsets()
    assert stops(query(made, admin).initial_offset()) == {tp(0): 3, tp(1): 1}


def test_an_available_now_run_looks_up_to_its_fixed_ends() -> None:
    admin = cluster(b"a b")
    planned = query(consumer(), admin)
    planned.freeze()
    append(admin, 0, b"end")
    assert stops(planned.initial_offset()) == {tp(0): 2}


def test_deleted_records_are_passed_over() -> None:
    admin = cluster(b"a b end c")
    made = consumer()
    planned = query(made, admin)
    initial_start = admin.list_offsets
    starts = iter([0])

    def deleted_meanwhile(*arguments: Any, **more: Any) -> Any:
        found = initial_start(*arguments, **more)
        if next(starts, None) is not None:
            admin.logs[tp(0)].start = 1
        return found

    admin.list_offsets = deleted_meanwhile  # type: ignore[method-assign]
    assert stops(planned.initial_offset()) == {tp(0): 2}


def test_a_topic_partition_without_an_answer_is_an_error() -> None:
    admin = cluster(b"a", b"b")
    planned = query(consumer(), admin)
    looked_up = admin.list_offsets
    calls: list[Any] = []

    def answers_late(*arguments: Any, **more: Any) -> Any:
        calls.append(arguments)
        admin.failing = {tp(1): BrokerUnavailableError("no leader")} if len(calls) == 1 else {}
        return looked_up(*arguments, **more)

    admin.list_offsets = answers_late  # type: ignore[method-assign]
    with pytest.raises(OptionError, match=r"Where t-1 starts could not be looked up.*Nothing was read"):
        planned.initial_offset()


def test_the_checkpoint_of_a_stream_without_an_end_is_refused() -> None:
    started = SourceOffset({tp(0): 1})
    with pytest.raises(OptionError, match="is known only at the first planning of a stream"):
        query(consumer(), cluster(b"a end")).latest_offset(started, None)


def test_the_decoder_of_the_driver_remembers_no_end() -> None:
    """With a timestamp assigner the driver decodes the same records several times."""
    elements = DESERIALIZER.load(bounded(consumer())["scan.deserializer"], "test").user_object
    for _ in range(2):
        found = [elements.deserialize(record(value)) for value in (b"a", b"b end")]
        assert found == [["a"], ["b"]]


def record(value: bytes) -> ConsumerRecord:
    return ConsumerRecord("t", 0, 0, 0, 0, None, value, [], None)


def test_without_an_end_in_the_schema_it_is_the_latest_offset() -> None:
    assert bounded(consumer(SimpleStringSchema()))["scan.bounded.mode"] == "latest-offset"
