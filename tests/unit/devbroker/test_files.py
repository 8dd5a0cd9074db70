"""What the development broker writes and reads: properties, metadata answers, state files."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.devbroker import DevCluster
from penstock.devbroker.cluster import free_ports, is_free
from penstock.devbroker.node import BrokerNode, log_excerpt
from penstock.devbroker.probe import metadata_request, parse_metadata_response
from penstock.devbroker.properties import (
    NodeAddress,
    parse_properties,
    render_properties,
    server_properties,
)
from penstock.devbroker.storage import cluster_id_of, format_storage, random_kafka_uuid
from penstock.errors import DevBrokerError


def unescape(text: str) -> str:
    """Java's rules for reading a value of a properties file, written apart from the code under test."""
    units = b""
    at = 0
    while at < len(text):
        if text[at] != "\\":
            units += text[at].encode("utf-16-be")
            at += 1
        elif text[at + 1] == "u":
            units += bytes.fromhex(text[at + 2 : at + 6])
            at += 6
        else:
            units += {"n": "\n", "r": "\r", "t": "\t"}.get(text[at + 1], text[at + 1]).encode("utf-16-be")
            at += 2
    return units.decode("utf-16-be")


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_value_survives_a_properties_file(value: str) -> None:
    text = render_properties({"key": value})
    assert text.isascii()
    assert text.count("\n") == 1
    assert not text[4:].startswith(" ")  # Java would drop it
    assert unescape(text[len("key=") : -1]) == value


def test_separators_in_a_key_are_escaped() -> None:
    assert render_properties({"a:b=c d": "e=f"}) == "a\\:b\\=c\\ d=e=f\n"


def test_comments_are_no_properties() -> None:
    assert parse_properties("#\n#Sat Nov 21\nnode.id=1\n\ncluster.id=abc\n") == {
        "node.id": "1",
        "cluster.id": "abc",
    }


def addresses(count: int) -> list[NodeAddress]:
    return [
        NodeAddress(node_id, {"PLAINTEXT": 100 + node_id, "CONTROLLER": 200 + node_id, "SASL": 300 + node_id})
        for node_id in range(1, count + 1)
    ]


def test_three_brokers_replicate_also_internal_topics() -> None:
    nodes = addresses(3)
    properties = server_properties(
        nodes[1], nodes, Path("/data"), {"SASL": "SASL_PLAINTEXT"}, {"num.io.threads": "9"}
    )
    assert properties["controller.quorum.voters"] == "1@127.0.0.1:201,2@127.0.0.1:202,3@127.0.0.1:203"
    assert properties["listeners"] == (
        "CONTROLLER://127.0.0.1:202,PLAINTEXT://127.0.0.1:102,SASL://127.0.0.1:302"
    )
    assert properties["advertised.listeners"] == "PLAINTEXT://127.0.0.1:102,SASL://127.0.0.1:302"
    assert properties["listener.security.protocol.map"].endswith("SASL:SASL_PLAINTEXT")
    assert properties["num.io.threads"] == "9"
    for key in ("default", "offsets.topic", "transaction.state.log", "share.coordinator.state.topic"):
        assert properties[f"{key}.replication.factor"] == "3"
    assert properties["min.insync.replicas"] == properties["transaction.state.log.min.isr"] == "2"
    assert properties["auto.create.topics.enable"] == "false"


def test_one_broker_replicates_nothing() -> None:
    properties = server_properties(addresses(1)[0], addresses(1), Path("/data"), {}, {})
    assert properties["offsets.topic.replication.factor"] == properties["min.insync.replicas"] == "1"


@pytest.mark.parametrize("unit", ["hours", "minutes"])
def test_records_are_kept_whatever_their_age_unless_a_retention_is_given(unit: str) -> None:
    given = {f"log.retention.{unit}": "1"}
    assert server_properties(addresses(1)[0], addresses(1), Path("/data"), {}, {})["log.retention.ms"] == "-1"
    properties = server_properties(addresses(1)[0], addresses(1), Path("/data"), {}, given)
    assert properties.items() >= given.items()
    assert "log.retention.ms" not in properties, "Kafka takes it before the other units"


def test_what_holds_the_cluster_together_is_refused() -> None:
    with pytest.raises(DevBrokerError, match=r"listeners, node\.id") as caught:
        DevCluster(properties={"node.id": "7", "listeners": "X", "num.io.threads": "1"})
    assert caught.value.facts["properties"] == ["listeners", "node.id"]


def test_two_brokers_are_refused() -> None:
    with pytest.raises(DevBrokerError, match="1 or 3 brokers, not 2"):
        DevCluster(2)


def test_a_folder_that_kafka_would_split_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DevBrokerError, match="comma"):
        DevCluster(data_dir=tmp_path / "a,b")


def test_a_cluster_that_was_not_started_says_so() -> None:
    with pytest.raises(DevBrokerError, match="does not run"):
        _ = DevCluster().bootstrap_servers
    with pytest.raises(DevBrokerError, match="does not run"):
        DevCluster().kill()
    DevCluster().stop()  # may be called at any time


def test_formatted_storage_names_its_cluster(tmp_path: Path) -> None:
    assert cluster_id_of(tmp_path) is None
    format_storage(tmp_path, cluster_id="abc", node_id=3, bootstrap=b"levels")
    assert cluster_id_of(tmp_path) == "abc"
    assert (tmp_path / "bootstrap.checkpoint").read_bytes() == b"levels"
    meta = parse_properties((tmp_path / "meta.properties").read_text())
    assert (meta["node.id"], meta["version"], len(meta["directory.id"])) == ("3", "1", 22)


def test_a_foreign_folder_is_no_data_folder(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("something=else\n")
    with pytest.raises(DevBrokerError, match="not a data folder of Kafka"):
        cluster_id_of(tmp_path)


def test_ids_look_like_kafkas() -> None:
    ids = {random_kafka_uuid() for _ in range(300)}
    assert len(ids) == 300
    assert {len(text) for text in ids} == {22}
    assert not any(text.startswith("-") for text in ids)


def metadata_answer(cluster_id: bytes | None, node_ids: list[int], correlation_id: int) -> bytes:
    brokers = b"".join(struct.pack(">ih9sih2s", node, 9, b"127.0.0.1", 9092, 2, b"r1") for node in node_ids)
    cluster = struct.pack(">h", -1) if cluster_id is None else struct.pack(">h", len(cluster_id)) + cluster_id
    return (
        struct.pack(">iii", correlation_id, 0, len(node_ids)) + brokers + cluster + struct.pack(">ii", 1, 0)
    )


def sent_correlation_id() -> int:
    return int(struct.unpack_from(">i", metadata_request(), 8)[0])


def test_metadata_answers_are_read() -> None:
    answer = parse_metadata_response(metadata_answer(b"abc", [1, 2], sent_correlation_id()))
    assert (answer.cluster_id, answer.controller_id, answer.node_ids) == ("abc", 1, frozenset({1, 2}))
    assert parse_metadata_response(metadata_answer(None, [], sent_correlation_id())).cluster_id is None


def test_an_answer_to_another_request_does_not_count() -> None:
    with pytest.raises(ValueError, match="not an answer"):
        parse_metadata_response(metadata_answer(b"abc", [1], sent_correlation_id() + 1))


@given(st.integers(0, 60), st.binary(max_size=20))
def test_broken_answers_never_count(cut: int, junk: bytes) -> None:
    whole = metadata_answer(b"abc", [1, 2], sent_correlation_id())
    broken = whole[: min(cut, len(whole) - 5)] + junk[:4]
    try:
        answer = parse_metadata_response(broken)
    except (ValueError, struct.error):
        return
    assert answer.cluster_id != "abc"


def test_ports_are_free_and_different() -> None:
    ports = free_ports(50)
    assert len(set(ports)) == 50
    assert all(is_free(port) for port in ports)


def test_a_log_excerpt_shows_first_error_and_end(tmp_path: Path) -> None:
    log = tmp_path / "broker.log"
    lines = [f"[t] INFO line {number}" for number in range(200)]
    lines[50] = "[t] ERROR the cause"
    log.write_text("\n".join(lines))
    excerpt = log_excerpt(log).splitlines()
    assert excerpt[0] == "[t] ERROR the cause"
    assert excerpt[-1] == "[t] INFO line 199"
    assert len(excerpt) < 50
    log.write_text("one\ntwo\n")
    assert log_excerpt(log) == "one\ntwo"
    assert "no log" in log_excerpt(tmp_path / "absent")


def test_settings_with_secrets_are_for_the_owner_alone(tmp_path: Path) -> None:
    node = BrokerNode(1, tmp_path / "node", is_temporary=True)
    node.prepare(addresses(1)[0], {"sasl.jaas.config": "secret"})
    settings = tmp_path / "node" / "server.properties"
    assert settings.stat().st_mode & 0o077 == 0
    assert parse_properties(settings.read_text()) == {"sasl.jaas.config": "secret"}
