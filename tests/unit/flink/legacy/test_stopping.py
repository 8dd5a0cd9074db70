"""Where a bounded stream of an older consumer ends, planned as the driver plans it."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.client.net import error_codes as codes
from penstock.errors import OptionError
from penstock.flink import ConsumerRecord, SimpleStringSchema
from penstock.flink.legacy import FlinkKafkaConsumer, KafkaDeserializationSchema
from penstock.options.parse import parse_read
from penstock.options.python_objects import DESERIALIZER
from penstock.source.checkpoint_offset import SourceOffset
from penstock.source.enumerator import SplitEnumerator
from penstock.testing import Refuse
from penstock.testing.fake.control import SeenRequest
from tests.unit.planning import tp
from tests.unit.source_cluster import Log, SourceCluster, append

pytestmark = pytest.mark.usefixtures("virtual_time")


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


def query(made: FlinkKafkaConsumer, cluster: SourceCluster) -> SplitEnumerator:
    return SplitEnumerator(parse_read(bounded(made), streaming=True).source, cluster.lookup)


def cluster_of(*logs: bytes, brokers: int = 1) -> SourceCluster:
    """Return a cluster with the words of each text as records."""
    made = SourceCluster({tp(partition): Log() for partition in range(len(logs))}, brokers=brokers)
    for partition, text in enumerate(logs):
        write(made, partition, *text.split())
    return made


def write(cluster: SourceCluster, partition: int, *values: bytes) -> None:
    with cluster.kafka.log("t", partition) as log:
        append(log, *values)


def stops(offset: SourceOffset) -> dict[Any, int]:
    return dict(offset.markers.stops or {})


def test_records_between_the_call_and_the_first_planning_count() -> None:
    cluster = cluster_of(b"a", b"b c")
    options = bounded(consumer())
    write(cluster, 0, b"end", b"after")
    write(cluster, 1, b"d")
    planned = SplitEnumerator(parse_read(options, streaming=True).source, cluster.lookup)
    initial = planned.initial_offset()
    write(cluster, 1, b"later", b"end")
    cluster.add(tp(2))
    write(cluster, 2, b"new")
    assert stops(initial) == {tp(0): 1, tp(1): 3}
    end = planned.latest_offset(initial, None)
    assert end.positions == {tp(0): 1, tp(1): 3}, "rows after an end, or that were not looked at, are read"


def test_a_restarted_query_does_not_look_again() -> None:
    cluster = cluster_of(b"a end x")
    first = query(consumer(), cluster)
    end = first.latest_offset(first.initial_offset(), 1)
    fetches = cluster.count("Fetch")
    again = query(consumer(), cluster)
    assert again.latest_offset(SourceOffset.from_json(end.to_json()), None).positions == {tp(0): 1}
    assert cluster.count("Fetch") == fetches > 0


def test_elements_before_the_end_in_its_record_are_read() -> None:
    cluster = SourceCluster({tp(0): Log()})
    write(cluster, 0, b"a", b"b end c", b"d")
    assert stops(query(consumer(), cluster).initial_offset()) == {tp(0): 2}


def test_the_end_is_looked_for_from_the_start_of_the_query() -> None:
    cluster = cluster_of(b"end a b end c", b"a")
    cluster.commit("g", {tp(0): 2, tp(1): 1})
    made = consumer(**{"group.id": "g"}).set_start_from_group_offsets()
    assert stops(query(made, cluster).initial_offset()) == {tp(0): 3, tp(1): 1}


def test_an_available_now_run_looks_up_to_its_fixed_ends() -> None:
    cluster = cluster_of(b"a b")
    planned = query(consumer(), cluster)
    planned.freeze()
    write(cluster, 0, b"end")
    assert stops(planned.initial_offset()) == {tp(0): 2}


def test_deleted_records_are_passed_over() -> None:
    cluster = cluster_of(b"a b end c")
    planned = query(consumer(), cluster)

    def deleted_meanwhile(_: SeenRequest) -> None:
        cluster.delete_before(tp(0), 1)

    cluster.kafka.control("Fetch", deleted_meanwhile, times=None)
    assert stops(planned.initial_offset()) == {tp(0): 2}


def test_a_topic_partition_without_an_answer_is_an_error() -> None:
    cluster = cluster_of(b"a", b"b", brokers=2)
    planned = query(consumer(), cluster)
    starts_of_1 = cluster.control_leader(tp(1), "ListOffsets", Refuse(codes.REQUEST_TIMED_OUT))
    with pytest.raises(OptionError, match=r"Where t-1 starts could not be looked up.*Nothing was read"):
        planned.initial_offset()
    assert len(starts_of_1.seen) > 1, "it was asked again"


def test_the_checkpoint_of_a_stream_without_an_end_is_refused() -> None:
    started = SourceOffset({tp(0): 1})
    with pytest.raises(OptionError, match="is known only at the first planning of a stream"):
        query(consumer(), cluster_of(b"a end")).latest_offset(started, None)


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
