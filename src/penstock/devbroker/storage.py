"""Formats the data folder of a KRaft broker without starting a JVM for it each time.

Runs where the cluster is started. Invariant: a new cluster has the feature levels of Kafka's own StorageTool.
The tool writes two files. `bootstrap.checkpoint` holds only feature levels and is the same for every node and
cluster of one Kafka version, so it is made once and kept beside the jars. `meta.properties` names cluster and
node and is written here.
"""

from __future__ import annotations

import base64
import os
import subprocess
import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path

from penstock.devbroker.properties import parse_properties, render_properties
from penstock.errors import DevBrokerError

_BOOTSTRAP = "bootstrap.checkpoint"
_META = "meta.properties"
_TIMEOUT_S = 60


def random_kafka_uuid() -> str:
    """Return a random id in Kafka's form: URL-safe base64 without a leading dash (like an option's)."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()).startswith("-"):
        pass
    return text


def cluster_id_of(log_dir: Path) -> str | None:
    """Return the cluster that a data folder belongs to; None when it is not formatted."""
    try:
        text = (log_dir / _META).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    cluster_id = parse_properties(text).get("cluster.id")
    if cluster_id is None:
        raise DevBrokerError(
            f"{log_dir / _META} names no cluster.id: not a data folder of Kafka. Give another one.",
            folder=str(log_dir),
        )
    return cluster_id


def format_storage(log_dir: Path, *, cluster_id: str, node_id: int, bootstrap: bytes) -> None:
    """Make `log_dir` the empty data folder of one node."""
    log_dir.mkdir(parents=True, exist_ok=True)
    (log_dir / _BOOTSTRAP).write_bytes(bootstrap)
    meta = {
        "version": "1",
        "cluster.id": cluster_id,
        "node.id": str(node_id),
        "directory.id": random_kafka_uuid(),
    }
    (log_dir / _META).write_text(render_properties(meta), encoding="ascii")  # last: it says "formatted"


def bootstrap_checkpoint(java_command: Sequence[str], kept_in: Path | None) -> bytes:
    """Return the bootstrap.checkpoint that StorageTool writes.

    Args:
        java_command: Java with Kafka's class path, without a main class.
        kept_in: Folder to keep it in for the next time; None to keep nothing.
    """
    kept = kept_in / _BOOTSTRAP if kept_in else None
    if kept is not None and kept.is_file():
        return kept.read_bytes()
    with tempfile.TemporaryDirectory(prefix="penstock-format-") as work_name:
        made = _run_storage_tool(java_command, Path(work_name))
    if kept is not None:
        # Atomic, and safe when two processes do it at once, because they write the same bytes.
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=kept.parent, prefix=f".{_BOOTSTRAP}-", delete=False) as stream:
            stream.write(made)
        os.replace(stream.name, kept)  # noqa: PTH105 - the name is a str
    return made


def _run_storage_tool(java_command: Sequence[str], work: Path) -> bytes:
    log_dir = work / "data"
    settings = work / "server.properties"
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": "1@127.0.0.1:1",
        "controller.listener.names": "CONTROLLER",
        "listeners": "PLAINTEXT://127.0.0.1:2,CONTROLLER://127.0.0.1:1",
        "log.dirs": str(log_dir),
    }
    settings.write_text(render_properties(properties), encoding="ascii")
    command = [
        *java_command,
        "kafka.tools.StorageTool",
        "format",
        "-t",
        random_kafka_uuid(),
        "-c",
        str(settings),
    ]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DevBrokerError(f"Kafka's StorageTool did not run: {error}") from error
    made = log_dir / _BOOTSTRAP
    if answer.returncode != 0 or not made.is_file():
        raise DevBrokerError(
            f"Kafka's StorageTool failed (exit status {answer.returncode}):\n{answer.stdout}{answer.stderr}"
        )
    return made.read_bytes()
