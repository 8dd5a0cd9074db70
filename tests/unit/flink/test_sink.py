"""The builder of sinks: PyFlink's names, Flink's checks, penstock's options; and what functions may give."""

from __future__ import annotations

import functools
import pickle
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from penstock.errors import ExactlyOnceError, MissingOptionError, OptionError, RowError
from penstock.flink import (
    ByteArraySchema,
    DeliveryGuarantee,
    HeaderProvider,
    KafkaPartitioner,
    KafkaRecordSerializationSchema,
    KafkaRecordSerializationSchemaBuilder,
    KafkaSink,
    KafkaSinkBuilder,
    KafkaTopicSelector,
    SerializationSchema,
    SimpleStringSchema,
)
from penstock.flink._functions import RecordPart, RowFunction
from penstock.flink._pickling import to_text
from penstock.options.parse import parse_write
from penstock.options.python_objects import FUNCTION
from penstock.sink.custom_partitioner import load_partitioner
from penstock.spark.write_batch import MicroBatchWriter, write_batch


def first_of(key: bytes | None, value: bytes | None, topic: str, partitions: Sequence[int]) -> int:
    return partitions[0]


def serializer() -> KafkaRecordSerializationSchemaBuilder:
    builder = KafkaRecordSerializationSchema.builder()
    return builder.set_topic("t").set_value_serialization_schema(SimpleStringSchema())


def sink(of: KafkaRecordSerializationSchemaBuilder | None = None) -> KafkaSinkBuilder:
    of = of if of is not None else serializer()
    return KafkaSink.builder().set_bootstrap_servers("a:9092").set_record_serializer(of.build())


class BySize(KafkaPartitioner):
    def partition(
        self,
        record: Mapping[str, Any],
        key: bytes | None,
        value: bytes | None,
        target_topic: str,
        partitions: Sequence[int],
    ) -> int:
        return len(value or b"") % len(partitions)


class Region(KafkaTopicSelector):
    def apply(self, data: Any) -> str:
        return f"orders-{data['region']}"


class Trace(HeaderProvider):
    def get_headers(self, data: Any) -> Mapping[str, bytes | str | None]:
        return {"trace": data["trace"]}


class TestSink:
    def test_the_smallest_sink_is_at_least_once(self) -> None:
        built = sink().build()
        assert built.options == {
            "properties.bootstrap.servers": "a:9092",
            "topic": "t",
            "sink.delivery-guarantee": "at-least-once",
        }
        assert built.parallelism is None

    def test_everything_becomes_options(self) -> None:
        of = serializer().set_partitioner("fixed")
        built = (
            sink(of)
            .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
            .set_transactional_id_prefix("orders")
            .set_property("linger.ms", "50")
            .set_properties({"enable.idempotence": True})  # type: ignore[dict-item]  # as users do
            .set_option("sink.commit-log.topic", "decisions")
            .set_parallelism(3)
            .build()
        )
        config = parse_write(built.options).sink
        assert config.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE
        assert (config.transactional_id_prefix, config.commit_log_topic) == ("orders", "decisions")
        assert (config.topic, config.partitioner) == ("t", "fixed")
        assert config.properties.get("linger.ms") == "50"
        assert config.properties.get("enable.idempotence") == "true"
        assert built.parallelism == 3

    @pytest.mark.parametrize(
        ("builder", "says"),
        [
            (KafkaSink.builder(), "bootstrap.servers is required"),
            (KafkaSink.builder().set_bootstrap_servers("a:1"), "No record serializer is set"),
            (sink().set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE), "EXACTLY_ONCE needs a transac"),
        ],
    )
    def test_what_is_missing_is_said(self, builder: KafkaSinkBuilder, says: str) -> None:
        with pytest.raises(MissingOptionError, match=says):
            builder.build()

    @pytest.mark.parametrize(
        ("wrong", "says"),
        [
            (lambda: sink().set_record_serializer(serializer()), r"Call build\(\) of its builder"),  # type: ignore[arg-type]
            (lambda: sink().set_delivery_guarantee("exactly"), "Expected a penstock.DeliveryGuarantee"),  # type: ignore[arg-type]
            (lambda: sink().set_parallelism(0), "parallelism cannot be 0"),
            (lambda: sink().set_parallelism(True), "parallelism cannot be True"),
            (lambda: sink().set_property("acks", "1").build(), "'properties.acks' = '1' contradicts"),
            (lambda: sink().set_property("transactional.id", "x").build(), "transactional.id"),
            (
                lambda: sink().set_option("Topic", "u").build(),
                "set_option sets what other methods have set already: topic",
            ),
            (
                lambda: sink(serializer().set_partitioner("mine")).build(),
                "'sink.partitioner' cannot be",
            ),
            (
                lambda: (
                    sink()
                    .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
                    .set_transactional_id_prefix("a b")
                    .build()
                ),
                "for sink.transactional-id-prefix, got 'a b'",
            ),
        ],
    )
    def test_what_is_wrong_is_said_before_spark_is_asked(self, wrong: Callable[[], Any], says: str) -> None:
        with pytest.raises(OptionError, match=says):
            wrong()

    def test_a_prefix_without_exactly_once_is_kept_for_later(self) -> None:
        built = sink().set_transactional_id_prefix("orders").build()
        assert built.options["sink.transactional-id-prefix"] == "orders"
        assert parse_write(built.options).sink.transactional_id_prefix is None


class TestSerializer:
    def test_topic_and_partitioner_become_options(self) -> None:
        assert serializer().build().options == {"topic": "t"}
        assert (
            serializer().set_partitioner("Round-Robin").build().options["sink.partitioner"] == "Round-Robin"
        )

    @pytest.mark.parametrize("partitioner", [BySize(), first_of, functools.partial(first_of), BySize])
    def test_partitioners_of_the_user_travel(self, partitioner: Any) -> None:
        options = sink(serializer().set_partitioner(partitioner)).build().options
        _, loaded = load_partitioner(parse_write(options).sink.partitioner)
        assert loaded.partition({}, None, None, "t", [4, 5]) in (0, 4) or isinstance(loaded, KafkaPartitioner)

    @pytest.mark.parametrize(
        ("wrong", "says"),
        [
            (KafkaRecordSerializationSchema.builder().set_topic("t").build, "No value serialization schema"),
            (
                KafkaRecordSerializationSchema.builder().set_value_serialization_schema(len).build,
                "No topic to write to is set",
            ),
            (lambda: serializer().set_topic("u"), "topic is set already"),
            (lambda: serializer().set_topic_selector(str), "topic is set already"),
            (
                lambda: serializer().set_value_serialization_schema(len),
                "value serialization schema is set",
            ),
            (
                lambda: serializer().set_key_serialization_schema(len).set_key_serialization_schema(len),
                "key serialization schema is set already",
            ),
            (lambda: KafkaRecordSerializationSchema.builder().set_topic("a b"), "topic cannot be 'a b'"),
            (lambda: serializer().set_key_serialization_schema("id"), "Spark column or a function.*got str"),
            (
                lambda: serializer().set_key_serialization_schema(SimpleStringSchema),
                "got the class SimpleStringSchema",
            ),
            (
                lambda: KafkaRecordSerializationSchema.builder().set_topic_selector("t"),  # type: ignore[arg-type]
                "Expected a KafkaTopicSelector or a function of a row as the topic selector, got str",
            ),
            (lambda: serializer().set_header_provider(Trace), "got the class Trace"),  # type: ignore[arg-type]
            (
                lambda: serializer().set_partitioner(object()),  # type: ignore[arg-type]
                "Expected a subclass of penstock.flink.KafkaPartitioner",
            ),
            (
                lambda: serializer().set_key_serialization_schema(len).set_partitioner("ROUND-robin").build(),
                "'round-robin' is for records without keys",
            ),
            (lambda: SimpleStringSchema("EBCDIC"), "charset 'EBCDIC'. Allowed: UTF-8"),
        ],
    )
    def test_what_is_wrong_is_said_at_once(self, wrong: Callable[[], Any], says: str) -> None:
        with pytest.raises(OptionError, match=says):
            wrong()

    def test_interfaces_and_functions_do_the_same(self) -> None:
        plain = KafkaRecordSerializationSchema.builder().set_value_serialization_schema(ByteArraySchema())
        by_class = plain.set_topic_selector(Region()).set_header_provider(Trace()).build()
        row = {"region": "eu", "trace": b"1"}
        assert by_class.topic_selector is not None
        assert by_class.topic_selector(row) == "orders-eu"  # type: ignore[arg-type]  # a mapping does for a Row
        assert by_class.header_provider is not None
        assert by_class.header_provider(row) == {"trace": b"1"}  # type: ignore[arg-type]  # a mapping does


class Holds(SerializationSchema):
    def __init__(self, value: Any) -> None:
        self.value = value

    def serialize(self, element: Any) -> Any:
        return self.value


def given(role: RecordPart, value: Any) -> Any:
    """What comes of it when a function of the user gives `value`; it has travelled as to executors."""
    function = RowFunction(to_text(Holds(value).serialize, FUNCTION), role)
    travelled: RowFunction = pickle.loads(pickle.dumps(function))  # noqa: S301 - our own
    travelled(None)
    return pickle.loads(pickle.dumps(travelled))(None)  # noqa: S301 - our own


class TestFunctions:
    @pytest.mark.parametrize("role", [RecordPart.KEY, RecordPart.VALUE])
    def test_keys_and_values_are_bytes_or_null(self, role: RecordPart) -> None:
        assert given(role, b"x") == b"x"
        assert given(role, bytearray(b"x")) == b"x"
        assert given(role, None) is None

    def test_headers_are_pairs(self) -> None:
        wanted = [("a", b"1"), ("b", b"2"), ("c", None)]
        assert given(RecordPart.HEADERS, {"a": b"1", "b": "2", "c": None}) == wanted
        assert given(RecordPart.HEADERS, [("a", b"1"), ("a", bytearray(b"2"))]) == [("a", b"1"), ("a", b"2")]
        assert given(RecordPart.HEADERS, []) == []
        assert given(RecordPart.HEADERS, None) is None

    @pytest.mark.parametrize(
        ("role", "value", "says"),
        [
            (RecordPart.VALUE, "text", "value of a record has to return bytes or None; it returned str"),
            (RecordPart.KEY, 7, "key of a record has to return bytes or None; it returned int"),
            (RecordPart.TOPIC, None, "topic of a record .* it returned NoneType"),
            (RecordPart.TOPIC, "", "has to return the name of a topic"),
            (RecordPart.TOPIC, b"t", "it returned bytes"),
            (RecordPart.HEADERS, "text", "headers of a record .* it returned str"),
            (RecordPart.HEADERS, 7, "headers of a record .* it returned int"),
            (RecordPart.HEADERS, {"a": 1}, "has to return a mapping .* it returned tuple"),
            (RecordPart.HEADERS, [("a", b"1", 2)], "it returned tuple"),
            (RecordPart.HEADERS, [{"key": "a", "value": b"1"}], "it returned dict"),
        ],
    )
    def test_what_spark_would_turn_to_null_is_an_error(self, role: RecordPart, value: Any, says: str) -> None:
        with pytest.raises(RowError, match=says) as caught:
            given(role, value)
        assert caught.value.facts["role"] == role.value

    def test_an_error_of_the_user_is_said_with_its_role(self) -> None:
        def fails(row: Any) -> bytes:
            raise KeyError("amount")

        with pytest.raises(RowError, match="value of a record failed: KeyError: 'amount'"):
            RowFunction(to_text(fails, FUNCTION), RecordPart.VALUE)(None)

    def test_what_cannot_travel_is_said_where_it_is_given(self) -> None:
        with pytest.raises(OptionError, match="serialize cannot be sent to Spark"):
            to_text(Holds(threading.Lock()).serialize, FUNCTION)


EXACTLY_ONCE = {
    "properties.bootstrap.servers": "a:9092",
    "topic": "t",
    "sink.delivery-guarantee": "exactly-once",
    "sink.transactional-id-prefix": "orders",
}


class FakeRows:
    """Stands for a DataFrame; also for its session, its writer, and what reads the checkpoint."""

    def __init__(self, query_id: str | None = None, run_id: str = str(uuid.UUID(int=1))) -> None:
        self.properties = {"sql.streaming.queryId": query_id, "spark.jobGroup.id": run_id}
        self.saved: list[dict[str, str]] = []
        self.given: dict[str, str] = {}
        self.fails = False

    sparkSession = sparkContext = write = property(lambda self: self)

    def getLocalProperty(self, name: str) -> str | None:
        return self.properties[name]

    def format(self, name: str) -> FakeRows:
        assert name == "penstock"
        return self

    def options(self, **options: str) -> FakeRows:
        self.given = options
        return self

    def mode(self, mode: str) -> FakeRows:
        assert mode == "append"
        return self

    def save(self) -> None:
        if self.fails:
            raise ConnectionError("no broker")
        self.saved.append(self.given)


class TestWriteBatch:
    def test_the_batch_and_its_query_are_said(self) -> None:
        rows = FakeRows("q-1")
        write_batch(rows, 7, EXACTLY_ONCE)
        assert rows.saved == [{**EXACTLY_ONCE, "sink.query-id": "q-1", "sink.batch-id": "7"}]
        config = parse_write(rows.saved[0]).sink
        assert (config.query_id, config.batch_id) == ("q-1", 7)

    def test_without_exactly_once_nothing_has_to_be_known(self) -> None:
        rows = FakeRows()
        plain = {"properties.bootstrap.servers": "a:9092", "topic": "t"}
        for _ in range(2):
            write_batch(rows, 7, plain)
        assert rows.saved == [plain, plain]

    def test_a_query_that_nobody_knows_is_asked_for(self) -> None:
        rows = FakeRows()
        with pytest.raises(MissingOptionError, match="Pass query_id to write_batch"):
            write_batch(rows, 7, EXACTLY_ONCE)
        assert rows.saved == []
        write_batch(rows, 7, EXACTLY_ONCE, query_id="mine")
        assert rows.saved[0]["sink.query-id"] == "mine"

    def test_a_second_write_of_a_batch_in_one_run_is_refused(self) -> None:
        rows = FakeRows("q-2")
        write_batch(rows, 7, EXACTLY_ONCE)
        with pytest.raises(
            ExactlyOnceError, match=r"Batch 7 of query q-2 was already written .* prefix orders"
        ):
            write_batch(rows, 7, EXACTLY_ONCE)
        assert len(rows.saved) == 1
        write_batch(rows, 7, {**EXACTLY_ONCE, "sink.transactional-id-prefix": "orders-2"})
        write_batch(rows, 8, EXACTLY_ONCE)
        assert len(rows.saved) == 3

    def test_prefixes_that_have_written_the_batch_are_named_to_the_next(self) -> None:
        rows = FakeRows("q-7")
        other = {**EXACTLY_ONCE, "sink.transactional-id-prefix": "orders-2"}
        for batch_id in (7, 8):
            write_batch(rows, batch_id, EXACTLY_ONCE)
            write_batch(rows, batch_id, other)
        write_batch(rows, 9, other)
        siblings = [parse_write(each).sink.sibling_prefixes for each in rows.saved]
        assert siblings == [frozenset(), {"orders"}, frozenset(), {"orders"}, frozenset()]

    def test_a_batch_that_comes_again_in_another_run_goes_to_the_log_of_decisions(self) -> None:
        first, second = FakeRows("q-3"), FakeRows("q-3", run_id=str(uuid.UUID(int=2)))
        write_batch(first, 7, EXACTLY_ONCE)
        write_batch(second, 7, EXACTLY_ONCE)
        assert first.saved == second.saved

    def test_a_job_group_of_the_user_would_hide_the_run(self) -> None:
        rows = FakeRows("q-6")
        write_batch(rows, 7, EXACTLY_ONCE)
        rows.properties["spark.jobGroup.id"] = "nightly"
        with pytest.raises(ExactlyOnceError, match=r"replaced Spark.s job group by nightly"):
            write_batch(rows, 7, EXACTLY_ONCE)
        assert len(rows.saved) == 1

    def test_a_write_that_failed_may_be_tried_again(self) -> None:
        rows = FakeRows("q-4")
        rows.fails = True
        with pytest.raises(ConnectionError):
            write_batch(rows, 7, EXACTLY_ONCE)
        rows.fails = False
        write_batch(rows, 7, EXACTLY_ONCE)
        assert len(rows.saved) == 1

    def test_the_function_of_a_sink_makes_the_records(self) -> None:
        rows, records = FakeRows(), FakeRows("q-5")
        writer = MicroBatchWriter(EXACTLY_ONCE, records=lambda given: records if given is rows else None)
        writer(rows, 3)
        assert records.saved[0]["sink.batch-id"] == "3"
