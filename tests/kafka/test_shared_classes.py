"""Brokers start from an archive of Kafka's classes, and also from a damaged one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.devbroker import DevCluster
from penstock.devbroker.jars import kafka_jars
from penstock.devbroker.java import find_java
from penstock.devbroker.shared_classes import archive_key, find_archive
from penstock.devbroker.training_run import make_archive


@pytest.mark.long
def test_an_archive_is_made_once_and_used_and_a_damaged_one_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_cluster: Callable[..., DevCluster]
) -> None:
    folder = tmp_path / "jars" / "kafka"
    folder.mkdir(parents=True)
    for jar in kafka_jars():
        (folder / jar.name).symlink_to(jar)
    own = [folder / jar.name for jar in kafka_jars()]
    for module in ("training_run", "cluster"):
        monkeypatch.setattr(f"penstock.devbroker.{module}.kafka_jars", lambda _progress: own)
    said: list[str] = []
    assert make_archive(said.append)
    assert not make_archive(said.append)
    assert len(said) == 1
    archive = find_archive(folder, archive_key(find_java(), own))
    assert archive is not None

    cluster = make_cluster()
    if sys.platform == "linux":
        assert str(archive) in Path(f"/proc/{cluster.pid()}/maps").read_text()
    cluster.stop()
    with archive.open("r+b") as stream:  # Java would die of it
        stream.truncate(100_000)
    find_archive.cache_clear()
    cluster.start()
