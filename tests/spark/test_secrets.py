"""A secret by reference is in nothing that a job prints or keeps: plans, event log, checkpoint, errors."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.devbroker import DevCluster
from tests import judge
from tests.fix_broker import MakeTopic
from tests.spark.secrets_job import LOG_TOPIC

DATA = Path(__file__).parents[1] / "data"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SECRETS = {
    "TEST_PASSWORD": "correct-horse-battery",
    "TEST_WRONG_PASSWORD": "wrong-staple-battery",
    "TEST_STORE_PASSWORD": "store-horse",
}
PATIENCE_S = 300


@pytest.fixture(scope="module")
def guarded() -> Iterator[DevCluster]:
    start = "listener.name.secure."
    pem = {name: (DATA / "tls" / f"{name}.pem").read_text() for name in ("broker", "broker-key")}
    properties = {
        f"{start}ssl.keystore.type": "PEM",
        f"{start}ssl.keystore.key": pem["broker-key"],
        f"{start}ssl.keystore.certificate.chain": pem["broker"],
        f"{start}sasl.enabled.mechanisms": "PLAIN",
        f"{start}plain.sasl.jaas.config": f'{MODULE} required user_alice="{SECRETS["TEST_PASSWORD"]}";',
    }
    with DevCluster(properties=properties, listeners={"SECURE": "SASL_SSL"}) as cluster:
        yield cluster


def forms_of(secret: str) -> Iterator[bytes]:
    """A secret as itself, in UTF-16, and in base64 at each of its three places."""
    yield secret.encode()
    yield secret.encode("utf-16-be")
    for skipped in range(3):
        yield base64.b64encode(b"\0" * skipped + secret.encode())[4 if skipped else 0 : -4]


def test_a_secret_is_found_in_each_form() -> None:
    for skipped in range(3):
        text = base64.b64encode(b"x" * skipped + b"correct-horse-battery" + b"x")
        assert any(form in text for form in forms_of("correct-horse-battery"))


def test_nothing_that_a_job_prints_or_keeps_holds_a_secret(
    guarded: DevCluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic, target = (make_topic(cluster=guarded, suffix=suffix) for suffix in ("", "-copy"))
    judge.produce(guarded.bootstrap_servers, topic, *(b"%d" % number for number in range(10)))
    environment = {
        **os.environ,
        **SECRETS,
        "TEST_SERVERS": guarded.bootstrap_servers_of("SECURE"),
        "TEST_TRUST": str(DATA / "stores" / "trust.jks"),
        "TEST_TOPIC": topic,
        "TEST_COPY": target,
        "PENSTOCK_LOG_LEVEL": "DEBUG",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    command = [sys.executable, "-W", "ignore", "-m", "tests.spark.secrets_job", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, env=environment, timeout=PATIENCE_S, check=False)
    shown = done.stdout + done.stderr
    assert done.returncode == 0, shown.decode(errors="replace")
    assert done.stdout.count(b"failed as it must") == 2
    assert b"${env:TEST_NOT_SET}" in shown or b"'TEST_NOT_SET'" in shown
    stored = judge.consume_all(guarded.bootstrap_servers, target)
    assert sorted(each.value or b"" for each in stored) == [b"%d" % number for number in range(10)]

    kept = {str(path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert any("checkpoint" in name for name in kept)
    assert any(b"TEST_PASSWORD" in data for name, data in kept.items() if "events" in name), "it is searched"
    kept |= {"what was printed": shown}
    decisions = judge.consume_all(guarded.bootstrap_servers, LOG_TOPIC)
    assert decisions
    kept |= {"the decision log": repr(decisions).encode()}
    for variable, secret in SECRETS.items():
        found = [name for name, data in kept.items() if any(form in data for form in forms_of(secret))]
        assert found == [], variable
