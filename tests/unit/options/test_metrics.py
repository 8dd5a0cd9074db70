"""The options of metrics, in both dialects."""

from __future__ import annotations

import pytest

from penstock.errors import MissingOptionError, OptionError
from penstock.options.config import MetricsSettings
from penstock.options.parse import parse_read

FLINK = {"properties.bootstrap.servers": "broker:9092", "topic": "orders"}
SPARK = {"kafka.bootstrap.servers": "broker:9092", "subscribe": "orders"}


@pytest.mark.parametrize("options", [FLINK, SPARK])
def test_metrics_are_off_by_default_and_on_with_a_port(options: dict[str, str]) -> None:
    assert parse_read(options, streaming=True).source.metrics is None
    on = {**options, "metrics.http.port": "0"}
    assert parse_read(on, streaming=True).source.metrics == MetricsSettings(
        0, "127.0.0.1", "127.0.0.1", 1_000, ()
    )
    more = {
        "metrics.http.host": "0.0.0.0",  # noqa: S104 - only parsed
        "metrics.tasks.host": "10.0.0.7",
        "metrics.topic-partitions.max": "5",
        "metrics.aliases": "flink, kafka-lag-exporter",
        "metrics.stalled-after": "15 min",
        "metrics.blocked-after": "0",
    }
    parsed = parse_read({**on, **more}, streaming=True).source.metrics
    assert parsed == MetricsSettings(
        0,
        "0.0.0.0",  # noqa: S104 - only parsed
        "10.0.0.7",
        5,
        ("flink", "kafka-lag-exporter"),
        stalled_after_ms=900_000,
        blocked_after_ms=0,
    )


def test_an_option_without_the_port_would_do_nothing() -> None:
    with pytest.raises(MissingOptionError, match=r"'metrics.aliases' needs 'metrics.http.port'"):
        parse_read({**FLINK, "metrics.aliases": "flink"}, streaming=True)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("metrics.http.port", "65536"),
        ("metrics.http.port", "auto"),
        ("metrics.aliases", "burrow"),
        ("metrics.tasks.host", "0.0.0.0"),  # noqa: S104 - refused
        ("metrics.tasks.host", "::"),
        ("metrics.topic-partitions.max", "0"),
        ("metrics.stalled-after", "-1 s"),
    ],
)
def test_another_value_is_refused(key: str, value: str) -> None:
    with pytest.raises(OptionError, match=f"'{key}'"):
        parse_read({**FLINK, "metrics.http.port": "0", key: value}, streaming=True)
