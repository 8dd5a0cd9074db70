"""A secret is in nothing that a job prints or keeps: plans, event log, checkpoint, topics, errors, reprs."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

import pytest

from penstock.devbroker import DevCluster
from tests import judge
from tests.fix_broker import MakeTopic
from tests.guarded_broker import CLIENT_SECRET, CLOUD_USERS, IDENTITY, STORE_PASSWORD
from tests.registry_server import running_registry
from tests.spark.secrets_job import CHECKPOINT, DIRECT_CHECKPOINT, DIRECT_USER, FAILED, USER
from tests.token_server import running_token_server

REFERRED = {
    "TEST_PASSWORD": CLOUD_USERS[USER],
    "TEST_WRONG_PASSWORD": "wrong-staple-battery",
    "TEST_STORE_PASSWORD": STORE_PASSWORD,
    "TEST_KEY_PASSWORD": "key-battery",
    "TEST_CLIENT_SECRET": CLIENT_SECRET,
    "TEST_REGISTRY_PASSWORD": "registry-battery",
}
DIRECT = {"TEST_DIRECT": CLOUD_USERS[DIRECT_USER], "TEST_WRONG_DIRECT": "wrong-battery-written-down"}
PEM_KEY = IDENTITY["ssl.keystore.key"].splitlines()[1]
PATIENCE_S = 300


def forms_of(secret: str) -> Iterator[bytes]:
    """A secret as itself, in UTF-16, in a URL, in JSON, and in base64 at each of its three offsets."""
    yield secret.encode()
    yield secret.encode("utf-16-be")
    yield quote(secret, safe="").encode()
    yield json.dumps(secret)[1:-1].encode()
    for skipped in range(3):
        yield base64.b64encode(b"\0" * skipped + secret.encode())[4 if skipped else 0 : -4]


def has(data: bytes, secret: str) -> bool:
    return any(form in data for form in forms_of(secret))


def test_a_secret_is_found_in_each_form() -> None:
    secret = 'correct "horse" battery/staple'  # noqa: S105 - of this test
    for skipped in range(3):
        assert has(base64.b64encode(b"x" * skipped + secret.encode() + b"x"), secret)
    for shown in (quote(secret, safe=""), json.dumps({"a": secret}), f"({secret})"):
        assert has(shown.encode(), secret)
    assert not has(b"another battery", secret)


def run_job(folder: Path, environment: dict[str, str]) -> bytes:
    """Run the jobs in a process of their own; return what they printed."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.spark.secrets_job", str(folder)]
    python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    environment = {**os.environ, **python, **environment, "PENSTOCK_LOG_LEVEL": "DEBUG"}
    done = subprocess.run(command, capture_output=True, env=environment, timeout=PATIENCE_S, check=False)
    shown = done.stdout + done.stderr
    assert done.returncode == 0, shown.decode(errors="replace")
    return shown


def kept_in(folder: Path) -> dict[str, bytes]:
    """The files that the jobs left."""
    kept = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert any(name.startswith("checkpoint/") for name in kept)
    events = [name for name in kept if name.startswith("events/")]
    assert any(b"SparkListenerApplicationEnd" in kept[name] for name in events), "the event log can be read"
    assert any(b"physicalPlanDescription" in kept[name] for name in events), "it has plans"
    return kept


@pytest.mark.long
def test_nothing_that_a_job_prints_or_keeps_holds_a_secret(
    guarded: DevCluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topics = {
        f"TEST_{name}": make_topic(cluster=guarded, suffix=f"-{name}")
        for name in ("TOPIC", "COPY", "DEAD", "ROWS")
    }
    judge.produce(guarded.bootstrap_servers, topics["TEST_TOPIC"], *(b"%d" % number for number in range(10)))
    addresses = {f"TEST_{name}": guarded.bootstrap_servers_of(name) for name in ("BOTH", "MUTUAL")}
    with ExitStack() as servers:
        tokens = servers.enter_context(running_token_server())
        registry = servers.enter_context(running_registry())
        registry.user_info = f"reader:{REFERRED['TEST_REGISTRY_PASSWORD']}"
        addresses |= {"TEST_TOKENS": tokens.url, "TEST_REGISTRY": registry.url}
        shown = run_job(tmp_path, REFERRED | DIRECT | topics | addresses)

    said = shown.decode(errors="replace")
    assert said.count(FAILED) == 6, said
    assert "'TEST_NOT_SET', which is not set here" in said, said
    assert said.count("rows: 10") == 3, said
    assert "DEBUG penstock" in said, "the log is searched"
    stored = judge.consume_all(guarded.bootstrap_servers, topics["TEST_COPY"])
    assert sorted(each.value or b"" for each in stored) == sorted([b"%d" % n for n in range(10)] * 2)

    kept = kept_in(tmp_path) | {"what was printed": shown}
    logs = (f"log-of-{name}" for name in (CHECKPOINT, DIRECT_CHECKPOINT))
    for name in (*logs, *topics.values()):
        records = judge.consume_all(guarded.bootstrap_servers, name)
        assert records
        kept[f"topic {name}"] = repr(records).encode()
    secrets = {*REFERRED.values(), *tokens.tokens, *DIRECT.values(), PEM_KEY}
    assert {(name, secret) for name, data in kept.items() for secret in secrets if has(data, secret)} == set()
