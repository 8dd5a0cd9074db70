"""Jars: pinned, checked at each use, fetched again when damaged; and the Java that runs them."""

from __future__ import annotations

import hashlib
import threading
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from penstock.devbroker import ivy, jars
from penstock.devbroker.ivy import Coordinate, Progress
from penstock.devbroker.jars import JarSet, ensure_jars, find_damage
from penstock.devbroker.java import find_java, java_major_version
from penstock.devbroker.paths import cache_folder, locked
from penstock.errors import DevBrokerError
from tests.jars import SPARKS_CONNECTORS, connector
from tests.waiting import PATIENCE_S

CONTENTS = {"a-1.jar": b"first", "b-2.jar": b"second" * 1000}


class FakeRepository:
    """Stands in for Ivy: puts files where it is told to."""

    def __init__(self) -> None:
        self.contents = dict(CONTENTS)
        self.fetch_count = 0
        self.before_each: Callable[[], object] = lambda: None

    def fetch(self, coordinates: Sequence[Coordinate], target: Path, work: Path, progress: Progress) -> None:
        self.fetch_count += 1
        self.before_each()
        for name, content in self.contents.items():
            (target / name).write_bytes(content)


@pytest.fixture
def jar_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JarSet:
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path / "cache"))
    pins = tmp_path / "pins.sha256"
    pins.write_text(
        "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in CONTENTS.items())
    )
    return JarSet("things-1", "Things 1", (Coordinate("org", "things", "1"),), str(pins))


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch) -> FakeRepository:
    repository = FakeRepository()
    monkeypatch.setattr(ivy, "fetch", repository.fetch)
    return repository


@pytest.fixture(autouse=True)
def _fresh_process() -> None:
    """A process checks a set once; each test is to be a new process."""
    jars._ensured.cache_clear()


def ignore(_message: str) -> None:
    pass


def test_jars_are_fetched_once_and_then_reused(jar_set: JarSet, repository: FakeRepository) -> None:
    messages: list[str] = []
    first = ensure_jars(jar_set, messages.append)
    assert [jar.name for jar in first] == ["a-1.jar", "b-2.jar"]
    assert [jar.read_bytes() for jar in first] == list(CONTENTS.values())
    assert "Things 1" in messages[0]
    jars._ensured.cache_clear()
    assert ensure_jars(jar_set, messages.append) == first
    assert repository.fetch_count == 1
    assert sorted(path.name for path in (cache_folder() / "jars").iterdir()) == ["things-1", "things-1.lock"]


@pytest.mark.parametrize("damage", ["changed", "truncated", "removed"])
def test_a_damaged_jar_is_named_and_fetched_again(
    jar_set: JarSet, repository: FakeRepository, damage: str
) -> None:
    jar = ensure_jars(jar_set, ignore)[1]
    if damage == "changed":
        jar.write_bytes(CONTENTS["b-2.jar"][:-1] + b"!")
    elif damage == "truncated":
        jar.write_bytes(CONTENTS["b-2.jar"][:-1])
    else:
        jar.unlink()
    jars._ensured.cache_clear()
    messages: list[str] = []
    ensure_jars(jar_set, messages.append)
    assert "damaged" in messages[0]
    assert str(jar) in messages[0]
    assert jar.read_bytes() == CONTENTS["b-2.jar"]
    assert repository.fetch_count == 2


def test_a_wrong_download_is_an_error_and_nothing_is_kept(
    jar_set: JarSet, repository: FakeRepository
) -> None:
    repository.contents["a-1.jar"] = b"other"
    with pytest.raises(DevBrokerError, match=r"a-1\.jar has SHA-256"):
        ensure_jars(jar_set, ignore)
    assert [path.name for path in (cache_folder() / "jars").iterdir()] == ["things-1.lock"]


def test_a_failed_repair_keeps_no_half_and_says_why(jar_set: JarSet, repository: FakeRepository) -> None:
    jar = ensure_jars(jar_set, ignore)[0]
    jar.write_bytes(b"broken")
    jars._ensured.cache_clear()

    def fail() -> None:
        raise DevBrokerError("no network")

    repository.before_each = fail
    messages: list[str] = []
    with pytest.raises(DevBrokerError, match="no network"):
        ensure_jars(jar_set, messages.append)
    assert str(jar) in messages[0]
    assert find_damage(jar.parent, jar_set.pins()) is not None


def test_unknown_jars_do_not_reach_the_class_path(jar_set: JarSet, repository: FakeRepository) -> None:
    repository.contents["stowaway.jar"] = b"?"
    folder = ensure_jars(jar_set, ignore)[0].parent
    assert sorted(path.name for path in folder.iterdir()) == list(CONTENTS)


def test_two_at_once_fetch_once(jar_set: JarSet, repository: FakeRepository) -> None:
    is_fetching, may_go_on = threading.Event(), threading.Event()

    def hold() -> None:
        is_fetching.set()
        assert may_go_on.wait(PATIENCE_S)

    repository.before_each = hold
    results: list[list[Path]] = []
    threads = [
        threading.Thread(target=lambda: results.append(ensure_jars(jar_set, ignore))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    assert is_fetching.wait(PATIENCE_S)
    may_go_on.set()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert len(results) == 3
    assert repository.fetch_count == 1


def test_a_lock_that_is_held_on_and_on_is_an_error(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with (
        locked(lock, timeout_s=0, purpose="holding"),
        pytest.raises(DevBrokerError, match="fetching jars"),
        locked(lock, timeout_s=0.2, purpose="fetching jars"),
    ):
        pytest.fail("two hold one lock")
    with locked(lock, timeout_s=0, purpose="holding"):
        assert lock.exists()


def test_the_pins_are_those_of_a_whole_kafka() -> None:
    pins = jars.KAFKA_JARS.pins()
    assert len(pins) == 46
    assert {f"kafka_2.13-{jars.KAFKA_VERSION}.jar", f"kafka-clients-{jars.KAFKA_VERSION}.jar"} <= set(pins)
    for spark, version in SPARKS_CONNECTORS.items():
        sparks = connector(spark).pins()
        assert len(sparks) == 4
        assert f"spark-sql-kafka-0-10_2.13-{version}.jar" in sparks
        pins |= sparks
    for digest in pins.values():
        assert len(bytes.fromhex(digest)) == 32


def test_kafka_home_is_used_instead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path))
    with pytest.raises(DevBrokerError, match="no jars in its libs"):
        jars.kafka_jars()
    (tmp_path / "libs").mkdir()
    (tmp_path / "libs" / "kafka.jar").touch()
    (tmp_path / "libs" / "notes.txt").touch()
    assert jars.kafka_jars() == [tmp_path / "libs" / "kafka.jar"]


def test_the_cache_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENSTOCK_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_folder() == tmp_path / "home" / ".cache" / "penstock"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "penstock"
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"


def test_ivys_file_is_xml_that_says_it_all() -> None:
    text = ivy.ivy_file([Coordinate("o&rg", "art", "1", is_transitive=True), Coordinate("org", "b", "2")])
    found = [dict(element.attrib) for element in ET.fromstring(text).iter("dependency")]  # noqa: S314 - our own
    assert [(entry["org"], entry["name"], entry["rev"], entry["transitive"]) for entry in found] == [
        ("o&rg", "art", "1", "true"),
        ("org", "b", "2", "false"),
    ]


def fake_java(folder: Path, script: str) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return java


def test_ivys_failure_shows_its_last_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(
        tmp_path,
        'case "$1" in -version) echo "openjdk version \\"17.0.1\\"" >&2; exit 0;; esac\n'
        'echo "resolving dependencies"; echo "...."; echo "downloading https://host/x/a-1.jar ..."\n'
        'echo "server not found"; exit 1',
    )
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    messages: list[str] = []
    with pytest.raises(DevBrokerError, match="server not found") as caught:
        ivy.fetch([Coordinate("org", "a", "1")], tmp_path, tmp_path, messages.append)
    assert "org:a:1" in str(caught.value)
    assert "PENSTOCK_IVY_SETTINGS" in str(caught.value)
    assert messages[-1] == "downloading jar 1: a-1.jar"


def test_a_pyspark_without_ivy_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(DevBrokerError, match="KAFKA_HOME"):
        ivy.find_ivy()


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_401"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ('openjdk version "21-ea"', 21),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
    ],
)
def test_java_versions(output: str, version: int | None) -> None:
    assert java_major_version(output) == version


def test_an_old_java_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, "echo 'java version \"11.0.2\"' >&2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(DevBrokerError, match="is Java 11, but Kafka needs 17 or newer"):
        find_java()


def test_a_java_that_does_not_run_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, "echo 'Unable to locate a Java Runtime.' >&2; exit 1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(DevBrokerError, match="Unable to locate a Java Runtime"):
        find_java()


def test_a_missing_java_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    with pytest.raises(DevBrokerError, match="JAVA_HOME is"):
        find_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DevBrokerError, match="no java is on PATH"):
        find_java()
