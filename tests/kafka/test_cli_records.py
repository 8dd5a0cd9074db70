"""`penstock topics`, `produce` and `cat` against a real broker, as the quick start uses them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner, Result

from penstock.cli import main
from penstock.cli.app import app
from penstock.devbroker.state import ClusterState, StateFolder
from penstock.errors import (
    ClientError,
    MissingOptionError,
    OptionError,
    RowError,
    UnknownTopicOrPartitionError,
)
from tests import judge
from tests.checkpoint_files import write_checkpoint
from tests.fix_broker import MakeTopic


def ran(*arguments: str, stdin: bytes = b"") -> Result:
    result = CliRunner().invoke(app, list(arguments), input=stdin, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def run(*arguments: str, stdin: bytes = b"") -> str:
    return ran(*arguments, stdin=stdin).stdout


@pytest.fixture
def servers(bootstrap: str) -> tuple[str, str]:
    return ("--bootstrap-server", bootstrap)


def test_topics_are_created_and_listed(servers: tuple[str, str], topic_name: str) -> None:
    other = f"{topic_name}-2"
    assert run("topics", "create", topic_name, other, "--partitions", "3", *servers) == (
        f"Created topic {topic_name} with 3 partitions at {servers[1]}.\n"
        f"Created topic {other} with 3 partitions at {servers[1]}.\n"
    )
    listed = run("topics", "list", "-b", servers[1]).splitlines()
    assert {f"{topic_name}  3 partitions", f"{other}  3 partitions"} <= set(listed)
    assert {"topic": other, "partitions": 3} in json.loads(run("topics", "list", "--json", *servers))


def test_a_topic_that_exists_is_left_as_it_is(servers: tuple[str, str], make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    with pytest.raises(ClientError, match=f"Creating topic '{topic}'.*exists"):
        run("topics", "create", topic, *servers)
    new = f"{topic}-new"
    assert run("topics", "create", topic, new, "--if-not-exists", *servers) == (
        f"Created topic {new} with 1 partition at {servers[1]}.\n"
        f"Topic {topic} exists at {servers[1]}; it was left as it is.\n"
    )
    assert json.loads(run("topics", "create", topic, "--if-not-exists", "--json", *servers))["created"] == []


@pytest.mark.promise
@pytest.mark.parametrize(
    ("stdin", "values"),
    [
        (b"first\nsecond\n", [b"first", b"second"]),
        (b"no end", [b"no end"]),
        (b"\n\xff\r\n", [b"", b"\xff\r"]),
        (b"", []),
        (b"many\n" * 25_000, [b"many"] * 25_000),
    ],
)
def test_each_line_is_a_record(
    servers: tuple[str, str], make_topic: MakeTopic, stdin: bytes, values: list[bytes]
) -> None:
    topic = make_topic()
    said = run("produce", topic, *servers, stdin=stdin)
    assert (
        said == f"{len(values):,} record{'s' * (len(values) != 1)} went to topic {topic} at {servers[1]}.\n"
    )
    assert [record.value for record in judge.consume_all(servers[1], topic)] == values


@pytest.mark.promise
def test_what_is_in_a_topic_is_shown_without_aborted_records(
    servers: tuple[str, str], make_topic: MakeTopic
) -> None:
    topic = make_topic(2, config={"retention.ms": "-1"})
    assert run("cat", topic, *servers) == ""
    judge.produce(servers[1], topic, judge.Record(value=b"caf\xc3\xa9 \xff", key=b"k", partition=1))
    judge.produce(servers[1], topic, judge.Record(value=None, timestamp_ms=1000, partition=0))
    aborted = judge.Record(value=b"never", partition=1)
    judge.produce_in_transaction(servers[1], topic, aborted, transactional_id=topic, is_committed=False)
    assert run("cat", topic, *servers) == "(null)\ncafé \\xff\n"
    null, text = map(json.loads, run("cat", topic, "--json", *servers).splitlines())
    assert null == {
        "topic": topic,
        "partition": 0,
        "offset": 0,
        "timestamp": "1970-01-01T00:00:01.000+00:00",
        "key": None,
        "value": None,
    }
    assert (text["partition"], text["key"], text["value"]) == (1, "k", "café \\xff")


def test_cat_shows_keys_and_headers_from_an_offset_on(
    servers: tuple[str, str], make_topic: MakeTopic
) -> None:
    topic = make_topic(2, config={"retention.ms": "-1"})
    headers = [("source", b"billing"), ("source", None)]
    records = [
        judge.Record(b"%d" % n, b"k%d" % (n % 2), headers, timestamp_ms=1000, partition=1) for n in range(4)
    ]
    judge.produce(servers[1], topic, *records)
    one = ("--partition", "1")
    assert run("cat", topic, *one, "--from", "2", *servers) == "2\n3\n"
    assert run("cat", topic, "--count", "3", *servers) == "0\n1\n2\n"
    assert run("cat", topic, "--key", "k1", *servers) == "1\n3\n"
    assert run("cat", topic, *one, "--from", "3", "--headers", *servers) == (
        f"{topic}-1 offset 3  1970-01-01T00:00:01.000+00:00  key k1\n"
        "  source: billing\n  source: (null)\n  3\n"
    )
    (line,) = map(json.loads, run("cat", topic, "--count", "1", "--headers", "--json", *servers).splitlines())
    assert line["headers"] == [{"key": "source", "value": "billing"}, {"key": "source", "value": None}]
    assert run("cat", topic, *one, "--from", "4", *servers) == ""
    with pytest.raises(OptionError, match=r"from 0 to 4 for --from.*got 5"):
        run("cat", topic, *one, "--from", "5", *servers)
    with pytest.raises(OptionError, match="--from needs --partition"):
        run("cat", topic, "--from", "1", *servers)
    with pytest.raises(UnknownTopicOrPartitionError, match="has no partition 2"):
        run("cat", topic, "--partition", "2", *servers)
    judge.delete_records(servers[1], topic, {1: 2})
    with pytest.raises(OptionError, match=r"from 2 to 4 .*Records before 2 were deleted"):
        run("cat", topic, *one, "--from", "0", *servers)


def test_produce_json_writes_what_cat_printed(
    servers: tuple[str, str], make_topic: MakeTopic, tmp_path: Path
) -> None:
    forever = {"retention.ms": "-1"}  # the records are old
    topic, copy = make_topic(3, config=forever), make_topic(3, suffix="-copy", config=forever)
    records = [
        judge.Record(
            b"caf\xc3\xa9", b"k", [("h", b"1"), ("h", b"\xff"), ("n", None)], timestamp_ms=1_700_000_000_123
        ),
        judge.Record(None, b"\xff\x00", timestamp_ms=1_700_000_000_000),
        judge.Record(b"\xfe", None, timestamp_ms=1_700_000_000_001),
        judge.Record(b"", b"", timestamp_ms=1_700_000_000_002),
    ]
    judge.produce(servers[1], topic, *records)
    shown = run("cat", topic, "--json", "--headers", *servers)
    run("produce", copy, "--json", *servers, stdin=shown.encode())

    def contents(name: str) -> list[tuple[object, ...]]:
        found = judge.consume_all(servers[1], name)
        return sorted((r.key or b"", r.value or b"-", str(r.headers), r.timestamp_ms) for r in found)

    assert contents(copy) == contents(topic)
    again = run("cat", copy, "--json", "--headers", "--key", "k", *servers)
    run(
        "produce",
        copy,
        "--json",
        "--drop-headers",
        "h",
        "--header",
        "by=hand",
        *servers,
        stdin=again.encode(),
    )
    (_, repaired) = [record for record in judge.consume_all(servers[1], copy) if record.key == b"k"]
    assert list(repaired.headers) == [("n", None), ("by", b"hand")]


def test_keyed_lines_go_where_javas_default_partitioner_sends_them(
    servers: tuple[str, str], make_topic: MakeTopic
) -> None:
    topic, judged = make_topic(7), make_topic(7, suffix="-judged")
    keys = [b"key-%d" % n for n in range(50)]
    producer = Producer({"bootstrap.servers": servers[1], "partitioner": "murmur2_random"})
    for key in keys:
        producer.produce(judged, b"v:1", key)
    judge.flush(producer)
    lines = b"".join(key + b"::v:1\n" for key in keys)
    run("produce", topic, "--key-separator", "::", "--header", "h=a=b", *servers, stdin=lines)
    ours = judge.consume_all(servers[1], topic)
    assert {record.key: record.partition for record in ours} == {
        record.key: record.partition for record in judge.consume_all(servers[1], judged)
    }
    assert {(record.value, str(record.headers)) for record in ours} == {(b"v:1", "(('h', b'a=b'),)")}


def test_a_wrong_line_is_named_before_anything_of_it_is_written(
    servers: tuple[str, str], make_topic: MakeTopic
) -> None:
    topic = make_topic()
    with pytest.raises(RowError, match=r"^Line 2: expected a key, ':' and a value. Nothing was written.$"):
        run("produce", topic, "--key-separator", ":", *servers, stdin=b"a:1\nb\n")
    with pytest.raises(RowError, match=r"^Line 1: the key before the first ':' begins like JSON"):
        run("produce", topic, "--key-separator", ":", *servers, stdin=b'{"id": 1}:{"a": 1}\n')
    with pytest.raises(RowError, match=r"^Line 3: expected JSON, .*Nothing was written.$"):
        run("produce", topic, "--json", *servers, stdin=b'{"value": "1"}\n{"value": "2"}\n{"value": \n')
    assert judge.consume_all(servers[1], topic) == []
    lines = b"a:1\n" * 10_000 + b"b\n"
    with pytest.raises(RowError, match=r"^Line 10001: .*Lines 1 to 10,000 may be written already.$"):
        run("produce", topic, "--key-separator", ":", *servers, stdin=lines)
    for wrong in (["--json", "--key-separator", ":"], ["--drop-headers", "h"], ["--header", "no"]):
        with pytest.raises(OptionError, match="Nothing was written"):
            run("produce", topic, *wrong, *servers, stdin=b"x\n")


@pytest.mark.parametrize("command", ["cat", "produce"])
def test_a_topic_that_is_not_there_is_named(
    servers: tuple[str, str], topic_name: str, command: str, tmp_path: Path
) -> None:
    quick = tmp_path / "client.properties"
    quick.write_text("max.block.ms=2000\ndefault.api.timeout.ms=2000\nrequest.timeout.ms=1000\n")
    with pytest.raises(UnknownTopicOrPartitionError, match=topic_name):
        run(command, topic_name, *servers, "--command-config", str(quick), stdin=b"x\n")


@contextmanager
def development_cluster(bootstrap: str, name: str = "default") -> Iterator[None]:
    """Let `penstock broker start` have started the broker under this name."""
    folder = StateFolder(name)
    folder.create()
    folder.write(ClusterState("id", "digest", 1, bootstrap, "/folder", ()))
    lock = folder.try_lock()
    assert lock is not None
    with lock:
        yield


@pytest.fixture
def no_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path / "cache"))


@pytest.mark.usefixtures("no_cluster")
def test_without_an_address_the_development_broker_is_used(bootstrap: str, topic_name: str) -> None:
    with pytest.raises(MissingOptionError, match="--bootstrap-server"):
        run("topics", "create", topic_name)
    with development_cluster(bootstrap):
        pass
    with pytest.raises(MissingOptionError, match="penstock broker start"):  # stale: no process holds the lock
        run("cat", topic_name)
    where = f"{bootstrap} (cluster 'default')"
    with development_cluster(bootstrap):
        assert run("topics", "create", topic_name).endswith(f"with 1 partition at {where}.\n")
        assert (
            run("produce", topic_name, stdin=b"x\n") == f"1 record went to topic {topic_name} at {where}.\n"
        )
        shown = ran("cat", topic_name)
        assert shown.stdout == "x\n", "stdout holds the records and nothing else"
        assert where in shown.stderr
        listed = ran("topics", "list")
        assert f"{topic_name}  1 partition" in listed.stdout.splitlines()
        assert listed.stderr == f"Topics at {where}:\n"
        with pytest.raises(UnknownTopicOrPartitionError) as raised:
            run("cat", f"{topic_name}-not")
        assert raised.value.facts["asked_cluster"] == where


@pytest.mark.usefixtures("no_cluster")
def test_every_command_takes_the_name_of_a_development_cluster(
    bootstrap: str, topic_name: str, tmp_path: Path
) -> None:
    name = ("--name", "other")
    with pytest.raises(MissingOptionError, match=r"No development cluster 'other' runs.*start --name other`"):
        run("topics", "list", *name)
    with pytest.raises(OptionError, match="got both"):
        run("topics", "list", *name, "-b", bootstrap)
    elsewhere = tmp_path / "client.properties"
    elsewhere.write_text("bootstrap.servers=127.0.0.1:1\n")
    where = f"{bootstrap} (cluster 'other')"
    with development_cluster(bootstrap, "other"):
        run("topics", "create", topic_name, *name, "--properties", str(elsewhere))
        run("produce", topic_name, *name, stdin=b"x\n")
        assert run("cat", topic_name, *name) == "x\n"
        judge.commit_offsets(bootstrap, topic_name, topic_name, {0: 0})
        assert f"Cluster: {where}" in run("lag", "--group", topic_name, *name)
        assert where in " ".join(run("top", "--group", topic_name, "--looks", "1", *name).split())
        assert f"{where} answered" in run("doctor", "--topic", topic_name, *name)
        for listing in (["list"], ["list", "--prefix", topic_name], ["prefixes"]):
            assert where in ran("transactions", *listing, *name).stderr
        for command in ("describe", "recover", "abort"):
            assert where in ran("transactions", command, "--prefix", topic_name, *name).stderr


@pytest.mark.usefixtures("no_cluster")
def test_a_checkpoint_is_not_compared_with_a_cluster_that_was_not_named(
    bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    folder = str(write_checkpoint(tmp_path / "checkpoint", {make_topic(): {"0": 0}}))
    with development_cluster(bootstrap):
        for command in ("lag", "top"):
            with pytest.raises(
                MissingOptionError, match=f"No cluster was asked.*--name default.*{bootstrap}"
            ):
                run(command, "--checkpoint", folder)
        named = run("lag", "--checkpoint", folder, "--name", "default")
        assert f"Cluster: {bootstrap} (cluster 'default')" in named


def test_an_error_says_which_cluster_was_asked(
    bootstrap: str, topic_name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["penstock", "cat", topic_name, "-b", bootstrap])
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().err.endswith(f"The cluster that was asked: {bootstrap}\n")
