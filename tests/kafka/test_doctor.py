"""`penstock doctor` on real brokers: a healthy one, and each trouble by itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from typer.testing import CliRunner

from penstock.cli.app import app
from penstock.client.cluster.log_offsets import CHECKPOINT_NOTE, commit_offsets
from penstock.client.cluster.membership import OnlyMember
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import ConnectionSettings
from penstock.devbroker import DevCluster
from penstock.doctor import gather
from penstock.types import TopicPartition
from tests import judge
from tests.fix_broker import MakeTopic
from tests.guarded_broker import DATA, DEAD_ADDRESS, JAAS, LIMITED_PASSWORD
from tests.waiting import PATIENCE_S, wait_until

TOPIC, USER = "doctored", "patient"


class Report:
    """What the doctor has said."""

    def __init__(self, exit_code: int, text: str) -> None:
        self.exit_code = exit_code
        self.told: dict[str, Any] = json.loads(text)

    def of(self, level: str) -> dict[str, str]:
        found: dict[str, str] = {}
        for each in self.told["findings"]:
            if each["level"] == level:
                found[each["subject"]] = f"{found.get(each['subject'], '')} {each['text']} {each['advice']}"
        return found

    @property
    def bad(self) -> dict[str, str]:
        return self.of("bad")


def doctor(bootstrap: str, *arguments: str) -> Report:
    result = CliRunner().invoke(app, ["doctor", "--json", "-b", bootstrap, *arguments])
    assert result.exit_code in (0, 1, 2), result.output
    report = Report(result.exit_code, result.stdout)
    assert report.told["exit_code"] == report.exit_code
    return report


@pytest.mark.promise
def test_a_development_broker_is_healthy_but_for_its_one_replica(
    bootstrap: str, make_topic: MakeTopic, topic_name: str
) -> None:
    topic = make_topic(3)
    report = doctor(bootstrap, "--topic", topic, "--group", topic_name, "--prefix", topic_name)
    assert report.bad == {}
    assert report.of("warning") == {}
    assert "development only" in report.of("note")[f"topic {topic}"]
    assert report.exit_code == 0, "a script goes on with a development broker"
    good = report.of("good")
    assert "it has 3 partitions, and 1 replica of each." in good[f"topic {topic}"]
    assert {"connection", "clock", "transaction time-outs", f"prefix {topic_name}"} <= set(good)
    assert any("Kafka 4" in text for subject, text in good.items() if subject.startswith("broker 1"))
    described = judge.admin(bootstrap).list_topics(timeout=PATIENCE_S).topics
    assert f"{topic_name}-decisions" not in described, "the doctor changes nothing"


def test_text_has_a_line_for_each_finding(bootstrap: str) -> None:
    result = CliRunner().invoke(app, ["doctor", "-b", bootstrap])
    assert result.exit_code == 0, result.output
    assert all(line.startswith("good     ") for line in result.stdout.splitlines())


def test_a_missing_topic(
    bootstrap: str, topic_name: str, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gather, "_TIMEOUT_MS", 1_000)  # so long it waits for a topic to appear
    there = make_topic(suffix="-there")
    for others in ((), ("--topic", there), ("--target", there)):
        report = doctor(bootstrap, "--topic", topic_name, *others)
        assert "does not exist" in report.bad[f"topic {topic_name}"]
        about = {each["subject"] for each in report.told["findings"]}
        assert (f"topic {there}" in about) == bool(others)
        assert report.exit_code == 2


def test_a_group_with_members(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic})
    consumer.subscribe([topic])
    try:
        wait_until(lambda: consumer.poll(0.1) or consumer.assignment(), "the consumer to be a member")
        report = doctor(bootstrap, "--topic", topic, "--group", topic)
    finally:
        consumer.close()
    assert "in use by 1 consumers" in report.bad[f"consumer group {topic}"]


def test_a_prefix_with_an_open_transaction(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    producer = judge.transactional_producer(bootstrap, f"{topic}-0-0")
    producer.begin_transaction()
    judge.send(producer, topic, [b"x"])
    judge.flush(producer)
    try:
        report = doctor(bootstrap, "--topic", topic, "--prefix", topic)
    finally:
        producer.abort_transaction(PATIENCE_S)
    assert "it is in use: 1 transactions are open" in report.bad[f"prefix {topic}"]


def test_settings_that_endanger_data(cluster3: DevCluster) -> None:
    bootstrap = cluster3.bootstrap_servers
    judge.create_topic(bootstrap, "single", replication=1, config={"min.insync.replicas": "1"})
    weak = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true", "retention.ms": "60000"}
    judge.create_topic(bootstrap, "weak", config=weak)
    judge.create_topic(bootstrap, "strong")
    assert "lost with one broker" in doctor(bootstrap, "--topic", "single").bad["topic single"]
    report = doctor(bootstrap, "--topic", "weak")
    assert "min.insync.replicas is 1" in report.bad["topic weak"]
    assert "unclean.leader.election.enable is true" in report.bad["topic weak"]
    assert "retention.ms is 60000" in report.of("warning")["topic weak"]
    assert doctor(bootstrap, "--topic", "strong").exit_code == 0


# ----- a broker with troubled listeners


@pytest.fixture(scope="module")
def troubled(guarded: DevCluster) -> DevCluster:
    """A broker with ACLs, a listener with an expired certificate, and one that advertises a dead port."""
    judge.create_topic(guarded.bootstrap_servers, TOPIC)
    grant(guarded, ResourceType.TRANSACTIONAL_ID, "q-", AclOperation.WRITE)
    grant(guarded, ResourceType.TOPIC, "q-decisions", AclOperation.WRITE)
    grant(guarded, ResourceType.TOPIC, TOPIC, AclOperation.READ)
    patient = AdminClient(
        {
            "bootstrap.servers": guarded.bootstrap_servers_of("SASL"),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": USER,
            "sasl.password": LIMITED_PASSWORD,
        }
    )
    wait_until(lambda: TOPIC in patient.list_topics(timeout=PATIENCE_S).topics, "the broker to know the ACL")
    return guarded


def grant(cluster: DevCluster, resource: ResourceType, name: str, operation: AclOperation) -> None:
    is_prefixed = resource is ResourceType.TRANSACTIONAL_ID
    pattern = ResourcePatternType.PREFIXED if is_prefixed else ResourcePatternType.LITERAL
    acl = AclBinding(resource, name, pattern, f"User:{USER}", "*", operation, AclPermissionType.ALLOW)
    admin = judge.admin(cluster.bootstrap_servers)
    for future in admin.create_acls([acl], request_timeout=PATIENCE_S).values():
        future.result(timeout=PATIENCE_S)


def properties_file(folder: Path, **properties: str) -> str:
    path = folder / "client.properties"
    lines = [f"{name.replace('_', '.')}={value}" for name, value in properties.items()]
    path.write_text("\n".join(lines).replace("\\", "\\\\"))
    return str(path)


def login_file(folder: Path, password: str) -> str:
    jaas = f'{JAAS["PLAIN"]} required username="{USER}" password="{password}";'
    return properties_file(
        folder, security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_jaas_config=jaas
    )


def test_an_advertised_address_that_cannot_be_reached(troubled: DevCluster) -> None:
    report = doctor(troubled.bootstrap_servers_of("LOST"))
    assert f"broker 1 ({DEAD_ADDRESS})" in report.bad
    said = report.bad[f"broker 1 ({DEAD_ADDRESS})"]
    assert "cannot be reached at its advertised address" in said
    assert "advertised.listeners" in said


def test_a_wrong_password(troubled: DevCluster, tmp_path: Path) -> None:
    config = login_file(tmp_path, "battery")
    report = doctor(troubled.bootstrap_servers_of("SASL"), "--properties", config, "--topic", TOPIC)
    assert "SaslAuthenticationFailedError" in report.bad["connection"]
    assert "battery" not in json.dumps(report.told)
    assert report.exit_code == 2


def test_an_expired_certificate(troubled: DevCluster, tmp_path: Path) -> None:
    trust = str(DATA / "ca.pem")
    config = properties_file(
        tmp_path, security_protocol="SSL", ssl_truststore_type="PEM", ssl_truststore_location=trust
    )
    report = doctor(troubled.bootstrap_servers_of("EXPIRED"), "--properties", config)
    assert "certificate has expired" in report.bad["connection"]


def test_missing_rights(troubled: DevCluster, tmp_path: Path) -> None:
    config = login_file(tmp_path, LIMITED_PASSWORD)
    arguments = ["--properties", config, "--topic", TOPIC, "--group", "g", "--prefix", "p"]
    report = doctor(troubled.bootstrap_servers_of("SASL"), *arguments)
    assert f"User:{USER}" in report.of("good")["connection"]
    assert "lacks the right WRITE" in report.bad[f"topic {TOPIC}"]
    assert "lacks the right READ" in report.bad["consumer group g"]
    assert "Grant WRITE on the transactional ids that begin with 'p-'" in report.bad["prefix p"]
    source = doctor(troubled.bootstrap_servers_of("SASL"), *arguments, "--target", "other")
    assert "WRITE" not in str(source.bad.get(f"topic {TOPIC}")), "it is only read"
    unknown = report.of("warning")
    assert "DESCRIBE_CONFIGS" in unknown["transaction time-outs"]
    assert "DESCRIBE on the cluster" in unknown["clock"]
    assert report.exit_code == 2


def test_a_decision_log_that_may_not_be_created(troubled: DevCluster, tmp_path: Path) -> None:
    config = login_file(tmp_path, LIMITED_PASSWORD)
    report = doctor(troubled.bootstrap_servers_of("SASL"), "--properties", config, "--prefix", "q")
    assert "may write with its transactional ids" in report.of("good")["prefix q"]
    assert "the user may not create it" in report.bad["decision log q-decisions"]


def test_a_mistake_in_the_properties_is_bad(tmp_path: Path) -> None:
    config = properties_file(tmp_path, security_protocol="SASL_SSL")
    report = doctor("unused:1", "--properties", config)
    assert "sasl.mechanism" in report.bad["options"]
    assert report.exit_code == 2


# ----- a continuous query


def test_what_a_continuous_query_needs_on_a_development_broker(
    bootstrap: str, make_topic: MakeTopic, topic_name: str
) -> None:
    source, target = make_topic(2), make_topic(suffix="-out")
    report = doctor(bootstrap, "--continuous", "--topic", source, "--group", topic_name, "--target", target)
    assert report.bad == {}
    assert report.of("warning") == {}
    good = report.of("good")
    assert "transaction.version is 2" in good["transaction protocol"]
    assert "may READ it" in good[f"topic {source}"]
    assert "WRITE" not in good[f"topic {source}"]
    assert "may WRITE it" in good[f"topic {target}"]
    assert "may write" in good[f"transactional ids {topic_name}-continuous-*"]
    assert "it is 20" in good["add.partitions.to.txn.retry.backoff.ms"]
    assert "wait at most 10000 ms" in good["transaction time-outs"]
    notes = report.of("note")
    assert {"topic __transaction_state", "topic __consumer_offsets", f"topic {target}"} <= set(notes)


def test_a_group_with_a_continuous_query_or_with_offsets_of_a_stream(
    bootstrap: str, make_topic: MakeTopic, topic_name: str
) -> None:
    source = make_topic(2)
    place = TopicPartition(source, 1)
    connections = KafkaConnections(ConnectionSettings((bootstrap,), "test"))
    arguments = ("--continuous", "--topic", source, "--group", topic_name)
    subject = f"consumer group {topic_name}"
    member = OnlyMember(connections, topic_name, session_timeout_ms=30_000)
    try:
        member.renew()
        assert "a continuous query is its member" in doctor(bootstrap, *arguments).of("warning")[subject]
        member.leave()
        assert subject in doctor(bootstrap, *arguments).of("good")
        notes = {source: CHECKPOINT_NOTE}
        assert commit_offsets(connections, topic_name, {place: 0}, notes=notes) == {}
        assert "take over" in doctor(bootstrap, *arguments).bad[subject]
    finally:
        connections.close()


def test_rights_that_a_continuous_query_lacks(troubled: DevCluster, tmp_path: Path) -> None:
    login = login_file(tmp_path, LIMITED_PASSWORD)
    report = doctor(
        troubled.bootstrap_servers_of("SASL"), "--command-config", login,
        "--continuous", "--topic", TOPIC, "--group", "other", "--target", TOPIC,
    )  # fmt: skip
    assert "lacks the right READ on it" in report.bad["consumer group other"]
    assert "lacks the right WRITE on it" in report.bad[f"topic {TOPIC}"]
    assert "Grant WRITE" in report.bad["transactional ids other-continuous-*"]
    warnings = report.of("warning")
    assert "lacks DESCRIBE_CONFIGS" in warnings["broker settings"]


def test_options_that_need_each_other(bootstrap: str) -> None:
    assert "needs --group" in doctor(bootstrap, "--continuous").bad["options"]
    log = ("--continuous", "--group", "g", "--log-topic", "t")
    assert "no decision log" in doctor(bootstrap, *log).bad["options"]
