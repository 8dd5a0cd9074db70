"""The archive of Kafka's classes is used only with the Java and the jars that it was made with."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.devbroker import training_run
from penstock.devbroker.shared_classes import archive_key, find_archive, flags_to_use, keep
from penstock.errors import DevBrokerError

SCRIPT = "#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n"


@pytest.fixture
def make_java(tmp_path: Path) -> Callable[[str], Path]:
    """Makes a program that says that it is this version of Java."""

    def make(version: str) -> Path:
        java = tmp_path / version / "java"
        java.parent.mkdir()
        java.write_text(SCRIPT.format(version=version))
        java.chmod(0o700)
        return java

    return make


@pytest.fixture
def jars(tmp_path: Path) -> list[Path]:
    folder = tmp_path / "jars"
    folder.mkdir()
    found = [folder / name for name in ("a.jar", "b.jar")]
    for jar in found:
        jar.write_bytes(b"classes")
    return found


def test_each_java_and_each_change_of_a_jar_has_its_own_archive(
    make_java: Callable[[str], Path], jars: list[Path]
) -> None:
    java = make_java("17.0.1")
    first = archive_key(java, jars)
    assert archive_key(java, jars) == first
    assert archive_key(make_java("17.0.2"), jars) != first
    assert archive_key(java, jars[:1]) != first
    os.utime(jars[1], (1, 1))
    assert archive_key(java, jars) != first


def test_a_broker_is_told_only_of_a_whole_archive(tmp_path: Path) -> None:
    folder, made = tmp_path / "folder", tmp_path / "made.jsa"
    folder.mkdir()
    made.write_bytes(b"an archive")
    assert flags_to_use(find_archive(folder, "classes-1")) == []
    archive = keep(made, folder, "classes-1")
    assert find_archive(folder, "classes-1") == archive
    assert f"-XX:SharedArchiveFile={archive}" in flags_to_use(archive)
    assert find_archive(folder, "classes-2") is None
    archive.write_bytes(b"an archi")
    find_archive.cache_clear()
    assert find_archive(folder, "classes-1") is None
    assert [keep(made, folder, "classes-2")] == list(folder.iterdir())


def test_what_hinders_the_training_run_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_progress: object) -> list[Path]:
        raise DevBrokerError("no network")

    monkeypatch.delenv("KAFKA_HOME", raising=False)
    monkeypatch.setattr(training_run, "kafka_jars", fail)
    assert not training_run.make_archive()


def test_nothing_is_written_into_a_kafka_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_HOME", "/somewhere")
    monkeypatch.setattr(training_run, "kafka_jars", lambda _progress: pytest.fail("the jars were asked for"))
    assert not training_run.make_archive()
