"""What the page is told: options without secrets, and what weakens the guarantee."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from penstock.observe.serve.page.data import HIDDEN, page_file, promise, resolved_options, warnings
from penstock.observe.sink_reports import SinkState
from penstock.options.config import (
    DeliveryGuarantee,
    IsolationLevel,
    KafkaProperties,
    OffsetsSpec,
    SourceConfig,
    TopicList,
)
from penstock.options.properties import PROPERTIES
from penstock.types import LogEnd

SECRETS = [name for name, declared in PROPERTIES.items() if declared.is_secret]
CLEAN = SourceConfig(KafkaProperties(), TopicList(("a", "b")), isolation_level=IsolationLevel.READ_COMMITTED)


def test_no_secret_is_shown() -> None:
    assert {"sasl.jaas.config", "ssl.key.password"} <= set(SECRETS)
    items = [(name, "hunter2") for name in [*SECRETS, "unknown.to.us"]]
    shown = resolved_options(replace(CLEAN, properties=KafkaProperties((*items, ("client.id", "seen")))))
    assert "hunter2" not in json.dumps(shown)
    assert {dict(shown)[name] for name, _ in items} == {HIDDEN}
    assert dict(shown)["client.id"] == "seen"


def test_options_are_shown_in_words() -> None:
    starting, chosen = OffsetsSpec(LogEnd.EARLIEST), OffsetsSpec(initializer="gASVsecret")
    shown = dict(resolved_options(replace(CLEAN, starting=starting, stopping=chosen)))
    assert shown["starting"] == "earliest"
    assert shown["stopping"] == "chosen by an object of the user"
    assert shown["subscription"] == "a, b"
    assert shown["fail on data loss"] == "yes"
    assert shown["discovery"].startswith("every ")


@pytest.mark.parametrize(
    ("guarantees", "words"),
    [
        ([], "the promise ends there"),
        (["exactly-once"], "Exactly once from end to end"),
        (["exactly-once", "at-least-once"], "At least once from end to end"),
        (["none", "exactly-once"], "None from end to end"),
    ],
)
def test_the_weakest_sink_decides(guarantees: list[str], words: str) -> None:
    sinks = {str(number): SinkState(guarantee) for number, guarantee in enumerate(guarantees)}
    assert words in promise(sinks)
    weak = [each for each in guarantees if each != DeliveryGuarantee.EXACTLY_ONCE.value]
    assert len(warnings(CLEAN, sinks)) == len(weak)


def test_options_that_weaken_the_guarantee_are_named() -> None:
    grouped = replace(CLEAN, properties=KafkaProperties((("group.id", "g"),)))
    for config, words in [
        (replace(CLEAN, isolation_level=IsolationLevel.READ_UNCOMMITTED), "aborted transactions"),
        (replace(CLEAN, fail_on_data_loss=False), "records were deleted"),
        (grouped, "not committed to group g"),
    ]:
        (warning,) = warnings(config, {})
        assert words in warning
    assert warnings(replace(grouped, commits_offsets=True), {}) == []


@pytest.mark.parametrize(
    "path", ["/../files.py", "/files.py", "/__init__.py", "/..%2f", "//etc/passwd", "/x"]
)
def test_only_files_of_the_page_are_served(path: str) -> None:
    assert page_file(path) is None
    assert page_file("/") == page_file("/index.html")
