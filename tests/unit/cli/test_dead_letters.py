"""`penstock dead-letters` as a command, on the fake Kafka."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

from penstock.cli.app import app
from penstock.codec import HEADERS_TYPE
from penstock.errors import OptionError, UnknownTopicOrPartitionError
from penstock.options.config import KafkaProperties, SinkConfig
from penstock.sink.dead_letters.found import HEADER_PREFIX
from penstock.sink.writer import write_rows
from penstock.testing import FakeKafka
from tests import judge

_AT_MS = 1_795_000_000_000  # 2026-11-18T11:06:40Z
_KEPT = {"retention.ms": "-1"}
_VALUES = [b"12,50", b"x", b"7,00"]


@dataclass(frozen=True)
class Scene:
    """Three dead letters of `orders`, a second apart."""

    servers: str
    orders: str
    bad: str

    def run(self, command: str, *arguments: str) -> Result:
        """Run a command that succeeds."""
        whole = ["dead-letters", command, self.bad, *arguments, "-b", self.servers]
        result = CliRunner().invoke(app, whole, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result

    def values(self, topic: str | None = None) -> list[bytes | None]:
        """Return what the topic of the records has now."""
        found = judge.consume_all(self.servers, topic or self.orders)
        return sorted((each.value for each in found), key=lambda each: each or b"")


@pytest.fixture
def scene(fake_kafka: FakeKafka, unique_topic: Callable[..., str]) -> Scene:
    made = Scene(fake_kafka.bootstrap_servers, unique_topic("orders"), unique_topic("orders-bad"))
    for topic in (made.orders, made.bad):
        fake_kafka.create_topic(topic, config=_KEPT)
    headers = [
        {
            "topic": made.orders,
            "partition": 0,
            "offset": number,
            "timestamp": _AT_MS + 1000 * number,
            "error": "value: field 'amount'" if b"," in value else "value: no JSON",
        }
        for number, value in enumerate(_VALUES)
    ]
    told = [
        [{"key": HEADER_PREFIX + name, "value": str(fact).encode()} for name, fact in each.items()]
        for each in headers
    ]
    rows = pa.record_batch(
        {
            "key": pa.array([b"k%d" % each for each in range(3)], pa.binary()),
            "value": pa.array(_VALUES, pa.binary()),
            "headers": pa.array(told, HEADERS_TYPE),
        }
    )
    write_rows(SinkConfig(KafkaProperties((("bootstrap.servers", made.servers),)), made.bad), [rows])
    return made


def test_dead_letters_are_shown_with_their_records_and_reasons(scene: Scene) -> None:
    result = scene.run("show")
    first, second, _ = result.stdout.splitlines()
    assert first == (
        f"{scene.bad}-0 offset 0: record {scene.orders}-0 offset 0, key k0: value: field 'amount'"
    )
    assert second.endswith("value: no JSON")
    assert "Dead letters: 3." in result.stderr


@pytest.mark.parametrize(
    ("chosen", "numbers"),
    [
        (["--reason", "amount"], [0, 2]),
        (["--since", "2026-11-18T11:06:41Z"], [1, 2]),
        (["--until", "2026-11-18T11:06:41Z"], [0]),
        (["--of-topic", "another"], []),
        (["--reason", "amount", "--since", "2026-11-18T11:06:41Z"], [2]),
    ],
)
def test_they_are_chosen(scene: Scene, chosen: list[str], numbers: list[int]) -> None:
    shown = scene.run("show", *chosen).stdout.splitlines()
    assert [line.split()[2] for line in shown] == [f"{number}:" for number in numbers]
    scene.run("requeue", *chosen, "--yes")
    assert scene.values() == sorted(_VALUES[number] for number in numbers)


def test_without_yes_nothing_is_changed(scene: Scene) -> None:
    result = scene.run("requeue")
    assert result.stdout.count(f"would go to {scene.orders}-0: ") == 3
    assert "would be put back: 3. Nothing was changed. Add --yes." in result.stderr
    assert scene.values() == []
    assert scene.run("show").stdout.count("is back") == 0


def test_they_go_back_once_and_that_is_shown(scene: Scene) -> None:
    assert "that are back now: 2." in scene.run("requeue", "--reason", "amount", "--yes").stderr
    assert [line.endswith("(is back)") for line in scene.run("show").stdout.splitlines()] == [
        True,
        False,
        True,
    ]
    assert scene.run("requeue").stdout.count("would go to") == 1
    assert scene.run("requeue", "--yes").stdout.count("back in") == 1
    assert "that are back now: 0." in scene.run("requeue", "--yes").stderr
    assert scene.values() == sorted(_VALUES)


def test_an_edit_is_shown_before_and_done_then(scene: Scene, tmp_path: Path) -> None:
    edit = tmp_path / "repair.py"
    edit.write_text("def edit(value: bytes) -> bytes:\n    return value.replace(b',', b'.')\n")
    asked = ("requeue", "--edit", str(edit), "--reason", "amount")
    assert "  value 12,50\n  new   12.50\n" in scene.run(*asked).stdout
    scene.run(*asked, "--yes")
    assert scene.values() == [b"12.50", b"7.00"]


def test_they_go_into_another_topic(
    scene: Scene, fake_kafka: FakeKafka, unique_topic: Callable[..., str]
) -> None:
    other = unique_topic("other")
    fake_kafka.create_topic(other, 3, config=_KEPT)
    assert scene.run("requeue", "--into", other, "--yes").stdout.count(f"back in {other}: ") == 3
    assert (scene.values(), scene.values(other)) == ([], sorted(_VALUES))


def test_what_was_put_into_another_topic_is_left_out_and_named(
    scene: Scene, fake_kafka: FakeKafka, unique_topic: Callable[..., str]
) -> None:
    other = unique_topic("other")
    fake_kafka.create_topic(other, config=_KEPT)
    assert "Left out" not in scene.run("requeue", "--reason", "amount", "--into", other, "--yes").stderr
    shown = scene.run("show").stdout.splitlines()
    assert [line.endswith(f" (is in {other}, and not back in {scene.orders})") for line in shown] == [
        True,
        False,
        True,
    ]
    told = (
        f"Left out: 2 dead letters, whose records were put into {other} before. requeue puts "
        f"each record back once, so it does not put these into {scene.orders} too. "
    )
    assert told in scene.run("requeue").stderr
    assert told in scene.run("requeue", "--yes").stderr
    assert scene.values() == [b"x"]
    again = scene.run("requeue", "--reason", "amount", "--into", other, "--yes").stderr
    assert f"2 dead letters, whose records were put into {other} before.\n" in again
    assert len(scene.values(other)) == 2


def test_a_compacted_topic_of_dead_letters_is_named(scene: Scene, fake_kafka: FakeKafka) -> None:
    assert "compact" not in scene.run("show").stderr
    fake_kafka.create_topic("compacted-bad", config={"cleanup.policy": "compact"})
    for command in ("show", "requeue"):
        arguments = ["dead-letters", command, "compacted-bad", "-b", scene.servers]
        result = CliRunner().invoke(app, arguments, catch_exceptions=False)
        assert (
            "topic compacted-bad has cleanup.policy=compact, so Kafka keeps only the newest" in result.stderr
        )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [(["--since", "noon"], "--since, got 'noon'"), (["--until", "noon"], "--until, got 'noon'")],
)
def test_a_wrong_time_names_its_option(scene: Scene, arguments: list[str], told: str) -> None:
    with pytest.raises(OptionError, match=told):
        scene.run("show", *arguments)


def test_a_topic_that_does_not_exist_is_named(scene: Scene) -> None:
    for command in ("show", "requeue"):
        arguments = ["dead-letters", command, "nothing-here", "-b", scene.servers]
        with pytest.raises(UnknownTopicOrPartitionError, match="nothing-here"):
            CliRunner().invoke(app, arguments, catch_exceptions=False)
