"""The builder: PyFlink's names, Flink's checks, penstock's options."""

from __future__ import annotations

import base64
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.client.cluster.results import Results
from penstock.errors import MissingOptionError, OptionError, RequestTimeoutError
from penstock.flink import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaSource,
    KafkaSourceBuilder,
    KafkaTopicPartition,
    PartitionOffsetsRetriever,
)
from penstock.options.config import (
    DiscoveryInterval,
    SourceConfig,
    TopicPartitionSet,
    TopicPattern,
)
from penstock.options.parse import parse_read
from penstock.options.python_objects import INITIALIZER, PICKLE_BYTES_MAX
from penstock.source._lookup import Wait
from penstock.source._resolve_offsets import is_fixed, resolve_offsets
from penstock.source.user_initializer import ask_initializer
from penstock.types import LogEnd, OffsetRange, TopicPartition
from tests.unit.planning import tp

Strategy = KafkaOffsetResetStrategy
Initializer = KafkaOffsetsInitializer


def builder() -> KafkaSourceBuilder:
    return KafkaSource.builder().set_bootstrap_servers("a:9092").set_topics("t", "u")


def config_of(source: KafkaSource) -> SourceConfig:
    return parse_read(source.options, streaming=not source.is_bounded).source


class TestOptions:
    def test_the_smallest_source_reads_everything_as_a_stream(self) -> None:
        source = builder().build()
        assert not source.is_bounded
        assert source.options == {
            "properties.bootstrap.servers": "a:9092",
            "topic": "t;u",
            "scan.startup.mode": "earliest-offset",
        }

    def test_other_subscriptions(self) -> None:
        plain = KafkaSource.builder().set_bootstrap_servers("a:9092")
        assert config_of(plain.set_topic_pattern("t.*").build()).subscription == TopicPattern("t.*")
        plain = KafkaSource.builder().set_bootstrap_servers("a:9092")
        one = plain.set_partitions({KafkaTopicPartition("t", 1), KafkaTopicPartition("t", 0)}).build()
        assert config_of(one).subscription == TopicPartitionSet((tp(0), tp(1)))

    @pytest.mark.parametrize(
        ("initializer", "expected"),
        [
            (Initializer.latest(), {"scan.startup.mode": "latest-offset"}),
            (
                Initializer.timestamp(1_657_256_176_000),
                {"scan.startup.mode": "timestamp", "scan.startup.timestamp-millis": "1657256176000"},
            ),
            (
                Initializer.timestamp("-10 min"),
                {"scan.startup.mode": "timestamp", "scan.startup.timestamp": "-10 min"},
            ),
            (
                Initializer.committed_offsets(),
                {"scan.startup.mode": "group-offsets", "properties.auto.offset.reset": "none"},
            ),
            (
                Initializer.committed_offsets(Strategy.LATEST),
                {"scan.startup.mode": "group-offsets", "properties.auto.offset.reset": "latest"},
            ),
            (
                Initializer.offsets({tp(1): 7, tp(0): -1}),
                {
                    "scan.startup.mode": "specific-offsets",
                    "scan.startup.specific-offsets": "topic:t,partition:0,offset:-1;"
                    "topic:t,partition:1,offset:7",
                },
            ),
        ],
        ids=["latest", "timestamp", "before-now", "committed", "committed-latest", "offsets"],
    )
    def test_starting_offsets_are_flinks_options(
        self, initializer: KafkaOffsetsInitializer, expected: dict[str, str]
    ) -> None:
        source = builder().set_group_id("g").set_starting_offsets(initializer).build()
        plain = builder().set_group_id("g").build().options
        assert dict(source.options.items() - plain.items()) == expected

    def test_bounded_is_a_batch_and_has_no_discovery(self, caplog: pytest.LogCaptureFixture) -> None:
        source = builder().set_bounded(Initializer.latest())
        bounded = source.set_property("partition.discovery.interval.ms", "5").build()
        assert bounded.is_bounded
        assert bounded.options["scan.bounded.mode"] == "latest-offset"
        assert config_of(bounded).discovery == DiscoveryInterval.ONCE
        assert (
            "partition.discovery.interval.ms is provided but will be overridden from 5 to -1" in caplog.text
        )

    def test_unbounded_with_an_end_is_a_stream(self) -> None:
        source = builder().set_unbounded(Initializer.timestamp(5)).build()
        assert not source.is_bounded
        assert source.options["scan.bounded.timestamp-millis"] == "5"

    def test_flinks_four_properties_become_options(self) -> None:
        made = builder().set_group_id("g").set_client_id_prefix("me")
        made.set_property("partition.discovery.interval.ms", "10000")
        config = config_of(made.set_properties({"commit.offsets.on.checkpoint": "true"}).build())
        assert config.discovery == DiscoveryInterval.every(10_000)
        assert config.properties.get("client.id") == "me"
        assert config.commits_offsets

    def test_discovery_can_be_turned_off(self) -> None:
        made = builder().set_property("partition.discovery.interval.ms", "-1").build()
        assert config_of(made).discovery == DiscoveryInterval.ONCE

    def test_event_time(self) -> None:
        made = builder().set_option("scan.watermark.alignment.max-drift", "1 min")
        config = config_of(made.set_option("scan.idle-timeout", "5 s").build())
        assert (config.max_drift_ms, config.idle_timeout_ms) == (60_000, 5_000)
        config = config_of(builder().build())
        assert (config.max_drift_ms, config.idle_timeout_ms) == (None, 60_000)

    def test_the_reset_strategy_counts_and_not_the_property(self, caplog: pytest.LogCaptureFixture) -> None:
        made = builder().set_group_id("g").set_property("auto.offset.reset", "latest")
        source = made.set_starting_offsets(Initializer.committed_offsets(Strategy.EARLIEST)).build()
        assert source.options["properties.auto.offset.reset"] == "earliest"
        assert "auto.offset.reset is provided but will be overridden from latest to earliest" in caplog.text

    def test_repr_shows_what_is_read_and_no_secret(self) -> None:
        made = builder().set_property("ssl.key.password", "hush").set_property("sasl.jaas.config", "hush")
        shown = repr(made.set_unbounded(Initializer.timestamp(5)).build())
        assert "hush" not in shown
        for part in (
            "properties.bootstrap.servers='a:9092'",
            "topic='t;u'",
            "scan.startup.mode='earliest-offset'",
            "scan.bounded.timestamp-millis='5'",
            "options not shown: 2",
            "is_bounded=False",
        ):
            assert part in shown

    def test_repr_of_an_initializer_of_ones_own_is_short(self) -> None:
        shown = repr(builder().set_starting_offsets(FromMiddle()).build())
        assert "scan.startup.initializer=..." in shown
        assert len(shown) < 200

    def test_topics_may_be_a_list(self) -> None:
        given = KafkaSource.builder().set_bootstrap_servers("a:9092").set_topics(["t", "u"]).build()
        assert given.options == builder().build().options


class TestChecks:
    @pytest.mark.parametrize(
        ("build", "error", "says"),
        [
            (lambda: KafkaSource.builder().set_topics("t").build(), MissingOptionError, "bootstrap.servers"),
            (
                lambda: KafkaSource.builder().set_bootstrap_servers("a:1").build(),
                MissingOptionError,
                "set_topics, set_topic_pattern and set_partitions",
            ),
            (lambda: builder().set_topics("v"), OptionError, "already reads topics"),
            (lambda: KafkaSource.builder().set_topics(5), OptionError, "names of topics, got int"),  # type: ignore[arg-type]
            (lambda: builder().set_topic_pattern("v"), OptionError, "cannot also read topic pattern"),
            (lambda: builder().set_partitions({tp(0)}), OptionError, "cannot also read partitions"),
            (
                lambda: builder().set_starting_offsets(Initializer.committed_offsets()).build(),
                MissingOptionError,
                "group.id is required",
            ),
            (
                lambda: builder().set_bounded(Initializer.committed_offsets()).build(),
                MissingOptionError,
                "group.id is required",
            ),
            (
                lambda: builder().set_starting_offsets(Initializer.offsets({tp(0): -3})).build(),
                MissingOptionError,
                "t-0 has the committed offset",
            ),
            (
                lambda: builder().set_property("commit.offsets.on.checkpoint", "true").build(),
                MissingOptionError,
                "group.id is required",
            ),
            (
                lambda: builder().set_property("enable.auto.commit", "true").build(),
                MissingOptionError,
                "group.id is required",
            ),
            (
                lambda: builder().set_bounded(Initializer.earliest()).build(),
                OptionError,
                "nothing would be read",
            ),
            (lambda: builder().set_bounded("latest"), OptionError, "got str"),  # type: ignore[arg-type]
            (lambda: Initializer.offsets({}), OptionError, "at least one"),
            (lambda: builder().set_option("topic", "x").build(), OptionError, "set already"),
            (
                lambda: builder().set_property("partition.discovery.interval.ms", "soon").build(),
                OptionError,
                "number of milliseconds",
            ),
            (
                lambda: builder().set_starting_offsets(Initializer.timestamp(-1)).build(),
                OptionError,
                "timestamp cannot be -1",
            ),
            (
                lambda: builder().set_property("value.deserializer", "com.example.Mine").build(),
                OptionError,
                "value.deserializer",
            ),
        ],
    )
    def test_what_is_wrong_is_found_without_kafka(
        self, build: Callable[[], object], error: type[Exception], says: str
    ) -> None:
        with pytest.raises(error, match=says):
            build()


class FromMiddle(KafkaOffsetsInitializer):
    """Starts each log in its middle."""

    def get_partition_offsets(
        self, partitions: Collection[TopicPartition], retriever: PartitionOffsetsRetriever
    ) -> Mapping[TopicPartition, int]:
        begins, ends = retriever.beginning_offsets(partitions), retriever.end_offsets(partitions)
        return {tp: (begins[tp] + ends[tp]) // 2 for tp in partitions}


class Says(KafkaOffsetsInitializer):
    def __init__(self, answer: Any, strategy: KafkaOffsetResetStrategy = Strategy.EARLIEST) -> None:
        self.answer, self.strategy = answer, strategy

    def get_partition_offsets(
        self, partitions: Collection[TopicPartition], retriever: PartitionOffsetsRetriever
    ) -> Any:
        return self.answer(partitions, retriever) if callable(self.answer) else self.answer

    def get_auto_offset_reset_strategy(self) -> KafkaOffsetResetStrategy:
        return self.strategy


class LookUps:
    """Logs [10, 20); partition 0 has committed 15 and a record at time 5 at offset 12."""

    def log_ends(
        self, topic_partitions: Collection[TopicPartition], end: LogEnd, *, wait: Wait = Wait.FOR_ALL
    ) -> Results[TopicPartition, int]:
        return Results(dict.fromkeys(topic_partitions, 10 if end is LogEnd.EARLIEST else 20))

    group_id = "g"

    def for_times(self, timestamps_ms: Mapping[TopicPartition, int]) -> Results[TopicPartition, int]:
        return Results({t: 12 for t, ms in timestamps_ms.items() if t == tp(0) and ms <= 5})

    def committed(self, topic_partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        return {t: 15 for t in topic_partitions if t == tp(0)}

    def records(self, offset_range: OffsetRange) -> Iterator[pa.RecordBatch]:
        return iter(())


def resolved(initializer: KafkaOffsetsInitializer) -> dict[TopicPartition, int]:
    spec = config_of(builder().set_starting_offsets(initializer).build()).starting
    assert spec is not None
    assert not is_fixed(spec)
    return resolve_offsets(spec, [tp(0), tp(1)], LookUps())


class TestInitializersOfUsers:
    def test_it_travels_by_value_and_is_asked_where_it_arrives(self) -> None:
        source = builder().set_starting_offsets(FromMiddle()).build()
        assert resolved(FromMiddle()) == {tp(0): 15, tp(1): 15}
        _, pickled = INITIALIZER.split(source.options["scan.startup.initializer"], "")
        code = (
            "import base64, pickle, sys; initializer = pickle.loads(base64.b64decode(sys.argv[1]));"
            "assert not [name for name in sys.modules if name.startswith('tests')];"
            "print(type(initializer).__name__)"
        )
        run = subprocess.run(
            [sys.executable, "-c", code, base64.b64encode(pickled).decode()],
            capture_output=True,
            text=True,
            check=True,
            cwd="/",
        )
        assert run.stdout.strip() == "FromMiddle"

    def test_as_an_end(self) -> None:
        config = config_of(builder().set_bounded(FromMiddle()).build())
        assert config.stopping is not None
        assert resolve_offsets(config.stopping, [tp(0)], LookUps()) == {tp(0): 15}

    def test_sentinels_are_resolved(self) -> None:
        assert resolved(Says({tp(0): -2, tp(1): -1})) == {tp(0): 10, tp(1): 20}
        assert resolved(Says({tp(0): -3, tp(1): -3}, Strategy.LATEST)) == {tp(0): 15, tp(1): 20}

    def test_offsets_with_a_strategy_fall_back_as_it_says(self) -> None:
        assert resolved(Initializer.offsets({tp(1): 11}, Strategy.LATEST)) == {tp(0): 15, tp(1): 11}
        assert resolved(Initializer.offsets({tp(0): 11}, Strategy.LATEST)) == {tp(0): 11, tp(1): 20}
        with pytest.raises(OptionError, match="no committed offset for t-1"):
            resolved(Initializer.offsets({tp(0): 11}, Strategy.NONE))
        # Flink's bug: it fails although every offset is known.
        assert resolved(Initializer.offsets({tp(1): 11}, Strategy.NONE)) == {tp(0): 15, tp(1): 11}

    def test_the_built_in_ones_can_be_asked_by_others(self) -> None:
        def of(initializer: KafkaOffsetsInitializer) -> Any:
            return initializer.get_partition_offsets

        assert resolved(Says(of(Initializer.earliest()))) == {tp(0): 10, tp(1): 10}
        assert resolved(Says(of(Initializer.latest()))) == {tp(0): 20, tp(1): 20}
        assert resolved(Says(of(Initializer.timestamp(5)))) == {tp(0): 12, tp(1): 20}
        assert resolved(Says(of(Initializer.committed_offsets()))) == {tp(0): 15, tp(1): 10}
        assert resolved(Says(lambda partitions, retriever: {**dict.fromkeys(partitions, 1),
                                                            **retriever.committed_offsets(partitions)})) == {
            tp(0): 15, tp(1): 1,
        }  # fmt: skip

    @pytest.mark.parametrize(
        ("answer", "says"),
        [
            ([1, 2], "gave a list"),
            ({("t", 0): 5}, "gave no offset for t-1"),
            ({("t", 0): 5, ("t", 1): -4}, "gave -4 for t-1"),
            ({("t", 0): 5, ("t", 1): True}, "gave True for t-1"),
            ({("t", 0): 5, ("t", 1): 5, ("x", 0): 5}, "x-0, which the subscription does not have"),
            (lambda *_: 1 // 0, "Says failed: ZeroDivisionError"),
        ],
    )
    def test_a_wrong_answer_is_refused(self, answer: Any, says: str) -> None:
        with pytest.raises(OptionError, match=says):
            resolved(Says(answer))

    def test_an_error_of_the_cluster_stays_what_it_is(self) -> None:
        def fail(*_: object) -> None:
            raise RequestTimeoutError("slow")

        with pytest.raises(RequestTimeoutError):
            resolved(Says(fail))

    def test_what_cannot_travel_is_refused_at_once(self) -> None:
        with pytest.raises(OptionError, match="cannot be sent to Spark"):
            builder().set_starting_offsets(Says(threading.Lock())).build()
        with pytest.raises(OptionError, match="bytes as a pickle"):
            builder().set_starting_offsets(Says(b"x" * PICKLE_BYTES_MAX)).build()

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("earliest", "does not begin with"),
            ("penstock-initializer-2:3.11:AAAA", "does not begin with"),
            ("penstock-initializer-1:3.11:???", "expected base64"),
            ("penstock-initializer-1:3.11:", "got 0"),
        ],
    )
    def test_a_text_of_another_make_is_refused_without_loading_it(self, text: str, says: str) -> None:
        options = {"properties.bootstrap.servers": "a:1", "topic": "t", "scan.startup.initializer": text}
        with pytest.raises(OptionError, match=says):
            parse_read(options, streaming=True)

    def test_mode_and_object_exclude_each_other(self) -> None:
        options = {**builder().set_starting_offsets(FromMiddle()).build().options}
        with pytest.raises(OptionError, match="exclude each other"):
            parse_read({**options, "scan.startup.mode": "latest-offset"}, streaming=True)

    def test_another_python_is_refused(self) -> None:
        text = INITIALIZER.join(pickle.dumps(1), "3.99")
        with pytest.raises(OptionError, match=r"made with Python 3\.99"):
            ask_initializer(text, [tp(0)], LookUps())

    def test_an_object_whose_modules_are_missing_is_explained(self) -> None:
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        text = INITIALIZER.join(b"cno_such_module\nThing\n.", python)
        with pytest.raises(OptionError, match="No module named 'no_such_module'"):
            ask_initializer(text, [tp(0)], LookUps())


class FakeFrame:
    columns = ("value",)

    def __init__(self) -> None:
        self.watermark: tuple[str, str] | None = None

    def withWatermark(self, event_time: str, delay: str) -> FakeFrame:
        self.watermark = (event_time, delay)
        return self


class TestWatermark:
    def with_drift(self, drift: str) -> KafkaSource:
        return builder().set_option("scan.watermark.alignment.max-drift", drift).build()

    def test_it_is_sparks(self) -> None:
        frame: Any = FakeFrame()
        assert penstock.with_watermark(frame, "timestamp", "1 minute") is frame
        assert frame.watermark == ("timestamp", "1 minute")
        penstock.with_watermark(frame, "timestamp", "60 seconds", source=self.with_drift("1 min"))
        assert frame.watermark == ("timestamp", "60 seconds")

    @pytest.mark.parametrize(
        ("drift", "delay", "says"),
        [
            ("2 min", "1 minute", "is shorter than"),
            ("0", "1 minute", "topic partitions are not aligned"),
            ("1 min", "interval 1 minute", "cannot be compared"),
        ],
    )
    def test_a_delay_that_would_lose_rows_is_refused(self, drift: str, delay: str, says: str) -> None:
        frame: Any = FakeFrame()
        with pytest.raises(OptionError, match=says):
            penstock.with_watermark(frame, "timestamp", delay, source=self.with_drift(drift))
        assert frame.watermark is None
