"""Each finding of the doctor, from facts."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock.client.cluster.rights import Operation
from penstock.doctor.facts import (
    BrokerFacts,
    ClockFacts,
    ContinuousFacts,
    Facts,
    GroupFacts,
    PrefixFacts,
    PythonFacts,
    SparkFacts,
    TlsFacts,
    TopicFacts,
)
from penstock.doctor.findings import Level, as_json, bad, exit_code, good, note, warning
from penstock.doctor.judge import judge

NOW = datetime(2026, 5, 1, tzinfo=UTC)
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE
ALL = frozenset({READ, WRITE, DESCRIBE})
CONFIG = {
    "min.insync.replicas": "2",
    "unclean.leader.election.enable": "false",
    "cleanup.policy": "delete",
    "retention.ms": "604800000",
}
TIMEOUTS = {"transaction.max.timeout.ms": "900000", "transactional.id.expiration.ms": "604800000"}
BROKERS = tuple(
    BrokerFacts(number, f"b{number}:9092", kafka_version="4.3", config=TIMEOUTS) for number in (1, 2, 3)
)
TOPIC = TopicFacts("orders", partition_count=6, replicas=3, rights=ALL, config=CONFIG)
LOG = TopicFacts("p-decisions", partition_count=1, replicas=3, rights=ALL, config=CONFIG)
PREFIX = PrefixFacts("p", "p-decisions", has_log=True, log_rights=ALL, log=LOG)
GROUP = GroupFacts("g", may_describe=True, may_read=True)
HERE = PythonFacts("here", "3.11.4", {"pyspark-penstock": "0.1.0", "pyspark": "4.2.0", "pyarrow": "20.0.0"})
HEALTHY = Facts(
    now=NOW,
    servers="b1:9092",
    login="User:alice",
    brokers=BROKERS,
    topics=(TOPIC,),
    group=GROUP,
    prefix=PREFIX,
    clock=ClockFacts(3, 2),
    driver=HERE,
    spark=SparkFacts("4.3.0 in /opt/pyspark"),
    workers=(replace(HERE, where="w1"),),
)
NO_RIGHTS = frozenset({DESCRIBE})


def test_a_healthy_cluster_is_good_in_every_line() -> None:
    findings = judge(HEALTHY)
    assert [str(each) for each in findings if each.level is not Level.GOOD] == []
    assert exit_code(findings) == 0
    assert any("User:alice" in each.text for each in findings)


def topic(**changes: Any) -> Facts:
    return replace(HEALTHY, topics=(replace(TOPIC, **changes),))


def topic_config(**changes: str) -> Facts:
    return topic(config=CONFIG | {name.replace("_", "."): value for name, value in changes.items()})


def broker(**changes: Any) -> Facts:
    return replace(HEALTHY, brokers=(replace(BROKERS[0], **changes), *BROKERS[1:]))


def prefix(**changes: Any) -> Facts:
    return replace(HEALTHY, prefix=replace(PREFIX, **changes))


def timeouts(**changes: str) -> Facts:
    return broker(config=TIMEOUTS | {name.replace("_", "."): value for name, value in changes.items()})


def worker(**changes: Any) -> Facts:
    return replace(HEALTHY, workers=(replace(HERE, where="w1", **changes),))


ONE_BROKER = replace(HEALTHY, brokers=BROKERS[:1])
SOON, PAST = NOW + timedelta(days=3), NOW - timedelta(days=3)
BAD, WARNING, NOTE = Level.BAD, Level.WARNING, Level.NOTE

WRONG: dict[str, tuple[Facts, Level, str]] = {
    "an older PySpark": (
        replace(HEALTHY, spark=SparkFacts("4.1.4 in /opt/pyspark", ("No limits.",))),
        NOTE,
        "4.1.4 in /opt/pyspark. With it: No limits.",
    ),
    "no PySpark": (replace(HEALTHY, spark=SparkFacts(error="none here")), WARNING, "none here"),
    "no connection": (
        Facts(NOW, "b1", "x", connect_error="No Kafka broker answered."),
        BAD,
        "No Kafka broker",
    ),
    "our certificate is over": (replace(HEALTHY, certificate_expires_at=PAST), BAD, "expired on 2026-04-28"),
    "our certificate ends soon": (replace(HEALTHY, certificate_expires_at=SOON), WARNING, "expires on"),
    "address": (broker(error="refused"), BAD, "advertised address: refused"),
    "login of one broker": (broker(error="denied", is_login_refused=True), BAD, "denied"),
    "TLS": (broker(tls=TlsFacts(error="certificate has expired")), BAD, "has expired"),
    "TLS soon": (broker(tls=TlsFacts("TLSv1.3", SOON)), WARNING, "expires on 2026-05-04"),
    "missing topic": (topic(is_missing=True), BAD, "does not exist"),
    "topic error": (topic(error="no answer"), BAD, "no answer"),
    "no leader": (topic(leaderless=(1, 4)), BAD, "partitions 1, 4 have no leader"),
    "rights not told": (topic(rights=None), WARNING, "does not tell"),
    "no READ on a source": (topic(rights=NO_RIGHTS | {WRITE}), BAD, "lacks the right READ"),
    "no WRITE on a target": (topic(rights=NO_RIGHTS | {READ}), BAD, "lacks the right WRITE"),
    "no READ on any topic": (
        replace(topic(rights=NO_RIGHTS | {WRITE}), group=None, prefix=None),
        WARNING,
        "lacks the right READ",
    ),
    "no right on any topic": (replace(topic(rights=NO_RIGHTS), group=None, prefix=None), BAD, "WRITE"),
    "one replica": (topic(replicas=1, config=CONFIG | {"min.insync.replicas": "1"}), BAD, "one replica"),
    "one replica of one broker": (
        replace(
            ONE_BROKER, topics=(replace(TOPIC, replicas=1, config=CONFIG | {"min.insync.replicas": "1"}),)
        ),
        NOTE,
        "cluster of one broker",
    ),
    "settings not told": (topic(config=None), WARNING, "DESCRIBE_CONFIGS"),
    "min.insync 1": (topic_config(min_insync_replicas="1"), BAD, "min.insync.replicas is 1"),
    "min.insync all": (topic_config(min_insync_replicas="3"), WARNING, "stops all writes"),
    "min.insync too many": (topic_config(min_insync_replicas="4"), BAD, "no write succeeds"),
    "unclean": (topic_config(unclean_leader_election_enable="true"), BAD, "unclean.leader.election.enable"),
    "diskless": (
        topic_config(diskless_enable="true"),
        BAD,
        "diskless.enable=true, so it has no transactions",
    ),
    "retention": (topic_config(retention_ms="60000"), WARNING, "retention.ms is 60000"),
    "group in use": (replace(HEALTHY, group=replace(GROUP, member_count=2)), BAD, "in use by 2 consumers"),
    "group error": (replace(HEALTHY, group=replace(GROUP, error="no coordinator")), BAD, "no coordinator"),
    "group right": (replace(HEALTHY, group=replace(GROUP, may_read=False)), BAD, "lacks the right READ"),
    "prefix error": (prefix(error="no answer"), BAD, "no answer"),
    "prefix right": (prefix(write_error="denied"), BAD, "Grant WRITE on the transactional ids"),
    "prefix in use": (prefix(open_since_ms=(int(NOW.timestamp() * 1000) - 7_000,)), BAD, "oldest for 7 s"),
    "log problem": (prefix(log_problem="The log was deleted."), BAD, "The log was deleted."),
    "log right": (prefix(log_rights=NO_RIGHTS | {READ}), BAD, "lacks the right WRITE"),
    "log to create": (prefix(has_log=False, log=None, may_create_log=False), BAD, "may not create"),
    "log of one replica": (prefix(log=replace(LOG, replicas=1)), BAD, "one replica"),
    "time-outs not told": (broker(config=None), WARNING, "could not be read"),
    "time-out too long": (replace(HEALTHY, wanted_timeout_ms=900_001), BAD, "allow 900000 at most"),
    "time-out short": (timeouts(transaction_max_timeout_ms="60000"), WARNING, "longer than 60000 ms"),
    "ids forgotten": (timeouts(transactional_id_expiration_ms="3600000"), WARNING, "after 3600000 ms"),
    "clock not told": (replace(HEALTHY, clock=ClockFacts(error="No.")), WARNING, "could not be compared"),
    "clock ahead": (replace(HEALTHY, clock=ClockFacts(6_000, 10)), WARNING, "6000 ms ahead of"),
    "clock far behind": (replace(HEALTHY, clock=ClockFacts(-400_000, 10)), BAD, "400000 ms behind"),
    "worker without penstock": (worker(packages={}), BAD, "not installed"),
    "worker's Python": (worker(python="3.12.1"), BAD, "Python 3.12.1, here 3.11.4"),
    "worker's pyarrow": (
        worker(packages=dict(HERE.packages) | {"pyarrow": "19"}),
        BAD,
        "pyarrow 19, here 20",
    ),
    "failed job": (replace(HEALTHY, workers_error="No module."), BAD, "failed: No module."),
    "no worker": (replace(HEALTHY, workers=()), WARNING, "none answered"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_with_what_to_do(name: str) -> None:
    facts, level, text = WRONG[name]
    findings = [each for each in judge(facts) if each.level is not Level.GOOD]
    said = [each for each in findings if text in str(each)]
    assert [each.level for each in said[:1]] == [level], "\n".join(map(str, findings))
    assert exit_code(findings) == {BAD: 2, WARNING: 1, NOTE: 0}[level]
    unsaid = {"log problem", "group error"}
    assert name in unsaid or said[0].advice


@pytest.mark.parametrize(
    ("difference_ms", "precision_ms", "level"),
    [(4_999, 0, Level.GOOD), (5_000, 0, WARNING), (7_000, 2_001, Level.GOOD), (300_000, 0, BAD)],
)
def test_a_slow_answer_is_no_wrong_clock(difference_ms: int, precision_ms: int, level: Level) -> None:
    facts = replace(HEALTHY, clock=ClockFacts(difference_ms, precision_ms))
    assert [each.level for each in judge(facts) if each.subject == "clock"] == [level]


def test_a_patch_release_of_python_may_differ() -> None:
    assert exit_code(judge(worker(python="3.11.9"))) == 0


def test_a_diskless_topic_may_be_read() -> None:
    assert exit_code(judge(replace(topic_config(diskless_enable="true"), prefix=None))) == 0


def test_a_prefix_that_was_never_used_needs_no_log() -> None:
    assert exit_code(judge(prefix(has_log=False, log=None))) == 0


def test_json_and_exit_code_count_the_levels() -> None:
    findings = [
        good("a", "fine."),
        note("d", "so so.", "Mind."),
        warning("b", "hm.", "Look."),
        bad("c", "no.", "Stop."),
    ]
    assert as_json(findings) == {
        "exit_code": 2,
        "counts": {"good": 1, "note": 1, "warning": 1, "bad": 1},
        "findings": [
            {"level": "good", "subject": "a", "text": "fine.", "advice": ""},
            {"level": "note", "subject": "d", "text": "so so.", "advice": "Mind."},
            {"level": "warning", "subject": "b", "text": "hm.", "advice": "Look."},
            {"level": "bad", "subject": "c", "text": "no.", "advice": "Stop."},
        ],
    }
    assert exit_code(findings[:3]) == 1
    assert exit_code(findings[:2]) == 0
    assert exit_code([]) == 0
    assert str(findings[2]) == "warning  b: hm. Look."


# ----- a continuous query

CONTINUOUS_CONFIG = {
    "add.partitions.to.txn.retry.backoff.ms": "20",
    "transaction.partition.verification.enable": "true",
    "transaction.max.timeout.ms": "900000",
    "offsets.retention.minutes": "10080",
}
STATE = replace(TOPIC, topic="__transaction_state")
OFFSETS = replace(TOPIC, topic="__consumer_offsets")
CONTINUOUS = ContinuousFacts("p", GROUP, (STATE, OFFSETS), 10_000, is_protocol_2=True)
OLD = {"is_protocol_2": False, "refuses_late_writes": True}
UNVERIFIED = {"transaction.partition.verification.enable": "false"}
ONE_REPLICA = {
    "internal_topics": (replace(STATE, replicas=1, config={**CONFIG, "min.insync.replicas": "1"}), OFFSETS)
}
ABSENT = {"internal_topics": (STATE, TopicFacts("__consumer_offsets", is_missing=True))}
BACKOFF = "add.partitions.to.txn.retry.backoff.ms"
RETENTION = "offsets.retention.minutes"


def judged(changes: dict[str, Any], configs: dict[str, str]) -> list[tuple[Level, str, str]]:
    """Return what is not good of a continuous query on a healthy cluster with these changes."""
    of_query = dict(changes)
    facts = replace(
        HEALTHY,
        brokers=tuple(replace(each, config=CONTINUOUS_CONFIG | configs) for each in BROKERS),
        prefix=None,
        targets=of_query.pop("targets", (replace(TOPIC, topic="copy"),)),
        continuous=replace(CONTINUOUS, **of_query),
    )
    found = [(each.level, each.subject, f"{each.text} {each.advice}") for each in judge(facts)]
    return [each for each in found if each[0] is not Level.GOOD]


@pytest.mark.parametrize(
    ("changes", "configs", "level", "subject", "words"),
    [
        ({"group": replace(GROUP, may_read=False)}, {}, Level.BAD, "consumer group g", "can neither join"),
        ({"group": replace(GROUP, member_count=2)}, {}, Level.BAD, "consumer group g", "by 2 consumers"),
        ({"is_running": True}, {}, Level.WARNING, "consumer group g", "the newest start wins"),
        ({"has_offsets_of_stream": True}, {}, Level.BAD, "consumer group g", "take over"),
        ({"offsets_error": "silence."}, {}, Level.BAD, "consumer group g", "could not be read: silence"),
        ({"write_error": "no."}, {}, Level.BAD, "transactional ids p-continuous-*", "Grant WRITE"),
        ({"ids_error": "silence."}, {}, Level.BAD, "transactional ids p-continuous-*", "not be checked"),
        ({"is_protocol_2": False}, {}, Level.BAD, "transaction protocol", "older than Kafka 3.6"),
        ({"protocol_error": "no."}, {}, Level.BAD, "transaction protocol", "no."),
        (OLD, UNVERIFIED, Level.BAD, "transaction protocol", "could be doubled"),
        (ONE_REPLICA, {}, Level.BAD, "topic __transaction_state", "lost with one broker"),
        (ABSENT, {}, Level.NOTE, "topic __consumer_offsets", "does not exist yet"),
        ({"targets": (TopicFacts("copy", is_missing=True),)}, {}, Level.BAD, "topic copy", "not exist"),
        ({}, {"transaction.max.timeout.ms": "5000"}, Level.BAD, "transaction time-outs", "allow 5000"),
        ({}, {BACKOFF: "100"}, Level.WARNING, BACKOFF, "it is 100"),
        ({}, {RETENTION: "60"}, Level.WARNING, RETENTION, "begins as a new one"),
    ],
)
def test_each_finding_of_a_continuous_query(
    changes: dict[str, Any], configs: dict[str, str], level: Level, subject: str, words: str
) -> None:
    assert judged({}, {}) == []
    [(found_level, found_subject, text)] = judged(changes, configs)
    assert (found_level, found_subject) == (level, subject)
    assert words in text


def test_protocol_1_is_good_if_the_brokers_refuse_late_writes() -> None:
    assert judged(OLD, {}) == []


BUGS = "bugs of the brokers"


@pytest.mark.parametrize(
    ("versions", "level", "named", "unnamed"),
    [
        (("4.0",), Level.WARNING, ("19367", "19999", "20090", "20785", "20310", "20357"), ()),
        (("4.3", "4.1"), Level.WARNING, ("19999", "20090", "20785", "20310"), ("19367",)),
        (("4.2",), Level.WARNING, ("20090",), ("19367", "19999")),
        (("4.3",), Level.GOOD, ("20785", "20310", "20357"), ("19367", "19999", "20090")),
    ],
)
def test_known_bugs_of_the_oldest_broker_are_named(
    versions: tuple[str, ...], level: Level, named: tuple[str, ...], unnamed: tuple[str, ...]
) -> None:
    brokers = tuple(BrokerFacts(at, f"b{at}:9092", kafka_version=each) for at, each in enumerate(versions))
    (found,) = (each for each in judge(replace(HEALTHY, brokers=brokers)) if each.subject == BUGS)
    assert found.level is level
    assert all(f"KAFKA-{each}" in found.text for each in named)
    assert not any(each in found.text for each in unnamed)


@pytest.mark.parametrize(
    "facts",
    [
        replace(HEALTHY, prefix=None),
        replace(HEALTHY, brokers=(BrokerFacts(1, "b1:9092", kafka_version="3.9"),)),
        replace(HEALTHY, brokers=(BrokerFacts(1, "b1:9092", kafka_version=None),)),
        replace(HEALTHY, brokers=(BrokerFacts(1, "b1:9092", error="refused", kafka_version="4.0"),)),
        replace(HEALTHY, brokers=(BrokerFacts(1, "b1:9092", kafka_version="unknown"),)),
    ],
)
def test_no_bug_of_protocol_2_is_named_without_such_transactions(facts: Facts) -> None:
    assert BUGS not in {each.subject for each in judge(facts)}
