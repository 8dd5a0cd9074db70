"""OpenLineage's events: read back with OpenLineage's own classes, sent by its own transports."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import RunEvent
from openlineage.client.serde import Serde
from openlineage.client.transport.file import FileConfig, FileTransport
from openlineage.client.transport.http import HttpConfig, HttpTransport
from pyspark.sql.streaming.listener import QueryStartedEvent, QueryTerminatedEvent
from pyspark.sql.types import LongType, StringType, StructField, StructType

from penstock import lineage
from penstock.client.cluster.log_offsets import CommittedOffset
from penstock.errors import OptionError
from penstock.lineage import Input, LineageListener, Output
from penstock.observe.lineage.continuous import as_progress, new_reports
from penstock.observe.lineage.datasets import namespace_of
from penstock.observe.lineage.events import PRODUCER
from penstock.observe.lineage.outbox import Outbox
from penstock.observe.lineage.run import QueryDescription, Run, Span
from penstock.options.config import KafkaProperties
from penstock.relay.messages import Totals
from penstock.relay.notes import TaskNote
from penstock.relay.progress import Progress
from penstock.types import TopicPartition
from tests.http_server import QuietHandler, serving
from tests.unit.test_listener import ID, RUN, progress, source
from tests.waiting import PATIENCE_S, wait_until

SECRET = "hunter2"  # noqa: S105 - the test looks for it
BROKERS = "kafka-1:9092,kafka-2:9092"
READ = {
    "properties.bootstrap.servers": BROKERS,
    "properties.sasl.jaas.config": SECRET,
    "topic": "t;u",
}
WRITE = {"kafka.bootstrap.servers": BROKERS, "kafka.ssl.key.password": SECRET, "topic": "copy"}
PLACE = StructType([StructField("city", StringType())])
SCHEMA = StructType([StructField("id", LongType()), StructField("place", PLACE)])


class Collected:
    """A client that keeps what it gets, checked by OpenLineage's own classes."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.is_closed = False

    def emit(self, event: Any) -> None:
        assert type(event) is RunEvent
        self.events.append(json.loads(Serde.to_json(event)))

    def close(self, timeout_s: float) -> bool:
        self.is_closed = True
        return True


@pytest.fixture(autouse=True)
def _no_end_is_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lineage, "_END_EXPECTED_S", 0.0)


@pytest.fixture
def client() -> Collected:
    return Collected()


@pytest.fixture
def listener(client: Collected) -> Iterator[LineageListener]:
    listener = LineageListener("shop", client=client, running_every_s=0)
    listener.describe("orders", [Input(READ, SCHEMA)], [Output(WRITE, SCHEMA)])
    yield listener
    listener.close()
    assert client.is_closed


def started(name: str | None = "orders") -> QueryStartedEvent:
    at = "2026-11-22T15:04:00.250Z"
    given: dict[str, Any] = {"id": ID, "runId": RUN, "name": name, "timestamp": at, "jobTags": []}
    return QueryStartedEvent.fromJson(given)


def ended(exception: str | None = None, error_class: str | None = None) -> QueryTerminatedEvent:
    return QueryTerminatedEvent.fromJson(
        {"id": ID, "runId": RUN, "exception": exception, "errorClassOnException": error_class}
    )


def batch(start: Any, end: Any, batch_id: int = 0) -> Any:
    return progress({**source(end, end), "startOffset": start}, batch_id=batch_id)


def test_a_run_is_told_from_start_to_end(listener: LineageListener, client: Collected) -> None:
    listener.onQueryStarted(started())
    first = {'$penstock/1 start {"t":{"0":2}}': {}, "t": {"0": 5, "1": 1}}
    listener.onQueryProgress(batch(None, first))
    listener.onQueryProgress(batch({"t": {"0": 5, "1": 1}}, {"t": {"0": 9, "1": 1}, "u": {"0": 3}}, 1))
    listener.onQueryTerminated(ended())
    assert listener.flush()
    assert [each["eventType"] for each in client.events] == ["START", "RUNNING", "RUNNING", "COMPLETE"]
    for event in client.events:
        assert event["run"]["runId"] == RUN
        assert (event["job"]["namespace"], event["job"]["name"]) == ("shop", "orders")
        assert event["producer"] == PRODUCER
        assert [each["name"] for each in event["inputs"]] == ["t", "u"]
        assert {each["namespace"] for each in event["inputs"] + event["outputs"]} == {"kafka://kafka-1:9092"}
        assert SECRET not in json.dumps(event)
    start, _, _, last = client.events
    assert [each.get("inputFacets", {}) for each in start["inputs"]] == [{}, {}]
    t, u = (each["inputFacets"]["penstock_kafkaOffsets"]["partitions"] for each in last["inputs"])
    assert t == [
        {"partition": 0, "startOffset": 2, "endOffset": 9},
        {"partition": 1, "startOffset": 0, "endOffset": 1},
    ]
    assert u == [{"partition": 0, "startOffset": 0, "endOffset": 3}]
    assert [each["name"] for each in last["outputs"]] == ["copy"]
    assert last["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 8
    fields = last["outputs"][0]["facets"]["schema"]["fields"]
    assert [(each["name"], each["type"]) for each in fields] == [
        ("id", "bigint"),
        ("place", "struct<city:string>"),
    ]
    assert fields[1]["fields"][0]["name"] == "city"
    assert last["job"]["facets"]["jobType"]["processingType"] == "STREAMING"
    assert last["run"]["facets"]["processing_engine"]["name"] == "spark"


SPARKS = """org.apache.spark.SparkException: Job aborted: row (4711, Jane Roe) is not valid
Traceback (most recent call last):
ValueError: invalid literal for int(): 'Jane Roe'
penstock.errors.DecodeError: Cannot decode the value of orders-3 at offset 7.
Its bytes: Jane Roe
\tat org.apache.spark.api.python.Reader.run(Reader.scala:1)
"""


@pytest.mark.parametrize(
    ("text", "error_class", "said"),
    [
        (
            SPARKS,
            None,
            "org.apache.spark.SparkException: penstock.errors.DecodeError: its text may hold values of "
            "records. Spark's log has it",
        ),
        (SPARKS.partition("penstock")[0], "DIVIDE_BY_ZERO", "DIVIDE_BY_ZERO"),
        ("java.lang.ArithmeticException", None, "java.lang.ArithmeticException"),
        ("penstock.errors.ClientError: away\nJane", None, "penstock.errors.ClientError: away"),
        ("Jane Roe: no such customer", None, "The query has failed; its error is in Spark's log"),
    ],
)
def test_a_failed_run_does_not_tell_what_a_record_holds(
    listener: LineageListener, client: Collected, text: str, error_class: str | None, said: str
) -> None:
    listener.onQueryStarted(started())
    listener.onQueryTerminated(ended(text, error_class))
    listener.flush()
    facet = client.events[-1]["run"]["facets"]["errorMessage"]
    assert (facet["message"], facet.get("stackTrace")) == (said, None)
    assert "Jane" not in json.dumps(client.events)


def test_a_failed_run_says_everything_if_it_may(client: Collected) -> None:
    listener = LineageListener("shop", client=client, whole_errors=True)
    listener.describe("orders", [Input(READ, SCHEMA)])
    listener.onQueryStarted(started())
    listener.onQueryTerminated(ended("the broker is gone\nat line 1"))
    listener.close()
    facet = client.events[-1]["run"]["facets"]["errorMessage"]
    assert client.events[-1]["eventType"] == "FAIL"
    assert (facet["message"], facet["stackTrace"]) == ("the broker is gone", "at line 1")


def test_every_facet_names_its_producer_and_its_schema(listener: LineageListener, client: Collected) -> None:
    listener.onQueryStarted(started())
    listener.onQueryProgress(batch({"t": {"0": 0}}, {"t": {"0": 4}}))
    listener.onQueryTerminated(ended("why"))
    listener.flush()
    facets = [facet for event in client.events for facet in _facets(event)]
    assert len(facets) > 12
    for facet in facets:
        assert facet["_producer"] == PRODUCER
        assert ":" in facet["_schemaURL"]


def _facets(event: dict[str, Any]) -> Iterator[dict[str, Any]]:
    holders = [event["run"], event["job"], *event["inputs"], *event["outputs"]]
    for holder in holders:
        for key in ("facets", "inputFacets", "outputFacets"):
            yield from holder.get(key, {}).values()


def test_rows_are_counted_where_a_source_reads_one_topic(
    listener: LineageListener, client: Collected
) -> None:
    for batch_id in range(2):
        listener.onQueryProgress(batch({"t": {"0": batch_id}}, {"t": {"0": batch_id + 1}}, batch_id))
    listener.flush()
    t, u = client.events[-1]["inputs"]
    assert t["inputFacets"]["inputStatistics"]["rowCount"] == 8
    assert u.get("inputFacets", {}) == {}


def test_a_query_that_is_not_described_has_no_lineage(listener: LineageListener, client: Collected) -> None:
    listener.onQueryStarted(started("other"))
    listener.onQueryStarted(started(None))
    listener.onQueryTerminated(ended())
    listener.flush()
    assert client.events == []


def test_running_is_told_now_and_then(client: Collected) -> None:
    listener = LineageListener("shop", client=client, running_every_s=3_600)
    listener.describe("orders", [Input({**READ, "topic": "t"})])
    for batch_id in range(5):  # its start was before the listener was added
        listener.onQueryProgress(batch({"t": {"0": batch_id}}, {"t": {"0": batch_id + 1}}, batch_id))
    listener.onQueryTerminated(ended())
    listener.close()
    assert [each["eventType"] for each in client.events] == ["START", "RUNNING", "COMPLETE"]
    (t,) = client.events[-1]["inputs"]
    assert t["inputFacets"]["penstock_kafkaOffsets"]["partitions"][0] == {
        "partition": 0,
        "startOffset": 0,
        "endOffset": 5,
    }


def test_two_inputs_are_told_apart_by_their_topics_and_then_by_their_order(client: Collected) -> None:
    listener = LineageListener("shop", client=client, running_every_s=0)
    pattern = {"properties.bootstrap.servers": "b:1", "topic-pattern": "u.*"}
    same = {**READ, "topic": "t", "properties.bootstrap.servers": "c:1"}
    listener.describe("orders", [Input({**READ, "topic": "t"}), Input(same), Input(pattern)])
    listener.onQueryProgress(
        progress(
            *(
                {**source(end, end), "startOffset": end}
                for end in ({"t": {"0": 1}}, {"t": {"0": 2}}, {"u7": {"0": 3}})
            )
        )
    )
    listener.close()
    found = {(each["namespace"], each["name"]): _ends(each) for each in client.events[-1]["inputs"]}
    assert found == {
        ("kafka://kafka-1:9092", "t"): [1],
        ("kafka://c:1", "t"): [2],
        ("kafka://b:1", "u7"): [3],
    }


def _ends(dataset: dict[str, Any]) -> list[int]:
    partitions = dataset["inputFacets"]["penstock_kafkaOffsets"]["partitions"]
    return [each["endOffset"] for each in partitions]


def test_a_file_and_an_http_end_get_the_events(tmp_path: Path) -> None:
    got: list[dict[str, Any]] = []

    class Backend(QuietHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send(201, b"")

    file = tmp_path / "events.json"
    with serving(Backend) as url:
        for transport in (
            FileTransport(FileConfig(log_file_path=str(file), append=True)),
            HttpTransport(HttpConfig(url=url)),
        ):
            listener = LineageListener("shop", client=OpenLineageClient(transport=transport))
            listener.describe("orders", outputs=[Output(WRITE)])
            listener.onQueryStarted(started())
            listener.close()
    assert [each["eventType"] for each in got] == ["START"]
    written = json.loads(file.read_text())
    assert {**written, "eventTime": ""} == {**got[0], "eventTime": ""}


def test_the_environment_says_where_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "events.json"
    monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "of-the-environment")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "file")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__LOG_FILE_PATH", str(file))
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__APPEND", "true")
    listener = LineageListener()
    listener.describe("orders")
    listener.onQueryStarted(started())
    listener.close()
    assert json.loads(file.read_text())["job"]["namespace"] == "of-the-environment"


def test_a_backend_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fails(_: Any) -> None:
        raise OSError("no route to host")

    outbox = Outbox(fails)
    with caplog.at_level(logging.WARNING):
        outbox.put(lambda: 1, is_needed=True)
        assert outbox.flush(60)
        outbox.close()
    assert "no route to host. The query is not affected." in caplog.text
    outbox.put(lambda: 1, is_needed=True)  # closed


def test_a_slow_backend_costs_no_memory_and_loses_no_end() -> None:
    may_go, sent = threading.Event(), []

    def slow(event: str) -> None:
        may_go.wait(60)
        sent.append(event)

    outbox = Outbox(slow)
    make: Callable[[str], Callable[[], str]] = lambda text: lambda: text  # noqa: E731 - a line
    for _ in range(500):
        outbox.put(make("RUNNING"), is_needed=False)
    outbox.put(make("COMPLETE"), is_needed=True)
    assert not outbox.flush(0)
    may_go.set()
    outbox.close()
    assert (len(sent), sent[-1]) == (101, "COMPLETE")


def test_a_backend_that_hangs_is_not_waited_for_without_end(caplog: pytest.LogCaptureFixture) -> None:
    may_go = threading.Event()

    def hangs(_: object) -> None:
        may_go.wait(60)

    outbox = Outbox(hangs)
    for _ in range(3):
        outbox.put(lambda: 1, is_needed=True)
    outbox.close(0.05)
    assert "3 events of OpenLineage are dropped" in caplog.text
    outbox.put(lambda: 1, is_needed=True)
    assert "the listener is closed" in caplog.text
    assert outbox._thread.daemon
    may_go.set()
    outbox._thread.join(60)
    assert not outbox._thread.is_alive()


def test_events_that_are_needed_are_bounded_too() -> None:
    may_go, sent = threading.Event(), []

    def slow(event: int) -> None:
        may_go.wait(60)
        sent.append(event)

    outbox = Outbox(slow)
    for _ in range(2_000):
        outbox.put(lambda: 1, is_needed=True)
    may_go.set()
    outbox.close(60)
    assert len(sent) == 1_000


PROGRAM = """
import sys, time
from penstock import lineage
from penstock.client.cluster.log_offsets import CommittedOffset
from tests.unit.observe.test_lineage import ended, started

class Client:
    def emit(self, event):
        time.sleep(float(sys.argv[1]))  # a backend that answers late
        print(event.eventType.value, flush=True)

    def close(self, timeout_s):
        print("closed", flush=True)

lineage._CLOSE_TIMEOUT_S = float(sys.argv[2])
listener = lineage.LineageListener("shop", client=Client())
listener.describe("orders")
listener.onQueryStarted(started())
listener.onQueryTerminated(ended())
"""


@pytest.mark.parametrize(
    ("takes_s", "limit_s", "said"), [(0.2, 60, ["START", "COMPLETE", "closed"]), (600, 0.2, ["closed"])]
)
def test_the_end_of_the_program_sends_what_waits_for_a_limited_time(
    takes_s: float, limit_s: float, said: list[str]
) -> None:
    command = [sys.executable, "-c", PROGRAM, str(takes_s), str(limit_s)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert ended.stdout.split() == said
    assert ("events of OpenLineage are dropped" in ended.stderr) == (len(said) == 1)


def test_closing_expects_the_end_that_spark_tells_late(
    client: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lineage, "_END_EXPECTED_S", 60.0)
    listener = LineageListener("shop", client=client)
    listener.describe("orders")
    listener.onQueryStarted(started())
    late = threading.Timer(0.1, listener.onQueryTerminated, [ended()])
    late.start()
    listener.close(60)
    late.join()
    assert [each["eventType"] for each in client.events] == ["START", "COMPLETE"]


def test_a_topic_that_was_recreated_has_no_offsets_before_its_start(
    listener: LineageListener, client: Collected
) -> None:
    listener.onQueryProgress(batch({"t": {"0": 50}}, {"t": {"0": 90}}))
    listener.onQueryProgress(batch({"t": {"0": 90}}, {"t": {"0": 5}}, 1))
    listener.onQueryProgress(batch({"t": {"0": 5}}, {"t": {"0": 9}}, 2))
    listener.flush()
    found = [
        each["inputs"][0]["inputFacets"]["penstock_kafkaOffsets"]["partitions"][0]
        for each in client.events
        if each["eventType"] == "RUNNING"
    ]
    assert [(each["startOffset"], each["endOffset"]) for each in found] == [(50, 90), (0, 5), (0, 9)]


def test_the_name_of_a_cluster_is_its_first_server() -> None:
    for servers, name in [
        (" b:1 , a:2", "kafka://b:1"),
        ("SASL_SSL://b:1", "kafka://b:1"),
        (None, "kafka://unknown"),
    ]:
        items = () if servers is None else (("bootstrap.servers", servers),)
        assert namespace_of(KafkaProperties(items)) == name


def test_the_extra_is_named_if_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openlineage.client", None)
    with pytest.raises(OptionError, match=r"pip install 'pyspark-penstock\[lineage\]'"):
        LineageListener()


class Continuous:
    """What `follow` uses of a continuous query."""

    runId = RUN

    def __init__(self, name: str | None = "orders") -> None:
        self.name = name
        self.recentProgress: list[dict[str, Any]] = []
        self.ended = threading.Event()
        self.error: BaseException | None = None

    def copied(self, start: int, end: int) -> None:
        offsets = [{"t": {"0": at}} for at in (start, end)]
        names = {"startOffset": offsets[0], "endOffset": offsets[1]}
        self.recentProgress = [
            *self.recentProgress[-1:],  # as if only two were kept
            {**names, "numInputRows": end - start, "numOutputRows": end - start},
        ]

    def awaitTermination(self, timeout: float | None = None) -> bool:
        has_ended = self.ended.wait(PATIENCE_S if timeout is None else timeout)
        if has_ended and self.error is not None:
            raise self.error
        return has_ended

    def exception(self) -> BaseException | None:
        return self.error if self.ended.is_set() else None


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lineage, "_FOLLOW_S", 0.01)


def of_kind(client: Collected, kind: str) -> list[dict[str, Any]]:
    return [each for each in client.events if each["eventType"] == kind]


@pytest.mark.usefixtures("_quick")
def test_a_continuous_query_is_followed_to_its_end(listener: LineageListener, client: Collected) -> None:
    query: Any = Continuous()
    listener.follow(query)
    query.copied(2, 5)
    wait_until(lambda: len(of_kind(client, "RUNNING")) == 1, "the first report")
    query.copied(5, 9)
    wait_until(lambda: len(of_kind(client, "RUNNING")) == 2, "the second report")
    query.copied(9, 10)
    query.ended.set()
    wait_until(lambda: bool(of_kind(client, "COMPLETE")), "the end")
    assert client.events[0]["eventType"] == "START"
    (last,) = of_kind(client, "COMPLETE")
    assert (last["run"]["runId"], last["job"]["name"]) == (RUN, "orders")
    read, written = last["inputs"][0]["inputFacets"], last["outputs"][0]["outputFacets"]
    assert read["penstock_kafkaOffsets"]["partitions"] == [
        {"partition": 0, "startOffset": 2, "endOffset": 10}
    ]
    assert read["inputStatistics"]["rowCount"] == written["outputStatistics"]["rowCount"] == 8


@pytest.mark.usefixtures("_quick")
@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OptionError("the topic is gone"), "penstock.errors.OptionError: the topic is gone"),
        (ValueError("row 'secret'"), "builtins.ValueError"),
    ],
)
def test_the_error_of_a_continuous_query_is_told_without_records(
    listener: LineageListener, client: Collected, error: BaseException, said: str
) -> None:
    query: Any = Continuous()
    query.error = error
    listener.follow(query)
    query.ended.set()
    wait_until(lambda: bool(of_kind(client, "FAIL")), "the end")
    (last,) = of_kind(client, "FAIL")
    assert last["run"]["facets"]["errorMessage"]["message"] == said
    assert "stackTrace" not in last["run"]["facets"]["errorMessage"]


@pytest.mark.usefixtures("_quick")
def test_a_report_that_is_not_understood_does_not_end_the_lineage(
    listener: LineageListener, client: Collected
) -> None:
    query: Any = Continuous()
    query.recentProgress = [{}]
    listener.follow(query)
    query.ended.set()
    wait_until(lambda: bool(of_kind(client, "COMPLETE")), "the end")


def test_a_continuous_query_that_is_not_described_is_not_followed(
    listener: LineageListener, client: Collected
) -> None:
    listener.follow(Continuous("other"))  # type: ignore[arg-type]  # a part of it
    listener.follow(Continuous(None))  # type: ignore[arg-type]  # the same
    assert listener.flush()
    assert client.events == []


def test_each_report_counts_once() -> None:
    first, second, third = {"number": 1}, {"number": 1}, {"number": 3}
    assert new_reports([first, second], None) == [first, second]
    assert new_reports([first, second, third], first) == [second, third]
    assert new_reports([second, third], first) == [second, third]  # it is too old to be kept
    assert new_reports([third], third) == []


def test_the_reports_of_a_continuous_query_give_its_offsets() -> None:
    at = TopicPartition("t", 0)
    told = Progress({"runId": RUN})
    told.begin({at: 2}, 0.0)
    for offset, records in ((5, 3), (9, 7)):
        note = TaskNote(1, 0, 0, 1, Totals(records, records, 1)).text(None)
        told.see({at: CommittedOffset(offset, note)}, 1, float(offset))
    run = Run(RUN, "orders", QueryDescription([Input(READ)], [Output(WRITE)]))
    for report in new_reports(list(told.recent), None):
        run.add(as_progress(report))
    assert run.spans("t", 0) == [Span(0, 2, 9)]
    assert (run.rows_in, run.rows_out) == ({0: 7}, 7)
