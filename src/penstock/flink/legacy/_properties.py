"""Translate the properties of Flink's older consumers and producers into Kafka's names of today.

Runs in the user's program. Pure, except for the log. Invariant: a property that penstock does not need is
named in one line of the log; every other property reaches penstock's own check, under its name of today.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from penstock.errors import MissingOptionError, OptionError
from penstock.options.warn import warn_once

_log = logging.getLogger("penstock.older")

BOOTSTRAP = "bootstrap.servers"
RESET = "auto.offset.reset"
DISCOVERY = "flink.partition-discovery.interval-millis"

CONSUMER_NAMES = {
    "socket.timeout.ms": "request.timeout.ms",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
}
"""Properties of Kafka 0.8's consumer and their names today."""
PRODUCER_NAMES = {"metadata.broker.list": BOOTSTRAP, "request.required.acks": "acks"}
"""Properties of Kafka 0.8's producer and their names today."""
RESETS = {"smallest": "earliest", "largest": "latest"}
"""Values of `auto.offset.reset` in Kafka 0.8 and their names today."""

NOT_NEEDED_PREFIXES = ("zookeeper.", "rebalance.", "offsets.channel.")
NOT_NEEDED = frozenset(
    {
        "auto.commit.enable",
        "auto.commit.interval.ms",
        "consumer.id",
        "consumer.timeout.ms",
        "dual.commit.enabled",
        "enable.auto.commit",
        "flink.disable-metrics",
        "flink.get-partitions.retry",
        "flink.poll-timeout",
        "flink.simple-consumer-reconnectLimit",
        "key.deserializer",
        "num.consumer.fetchers",
        "offsets.commit.max.retries",
        "offsets.storage",
        "queued.max.message.chunks",
        "refresh.leader.backoff.ms",
        "value.deserializer",
    }
)
"""Of consumers. Flink ignores some of them too: deserializers, and auto-commit with checkpoints."""
NOT_NEEDED_TO_WRITE = frozenset(
    {"flink.disable-metrics", "key.serializer", "producer.type", "serializer.class", "value.serializer"}
)
"""Of producers."""


def consumer_properties(given: Mapping[str, Any]) -> dict[str, str]:
    """Return the properties of a consumer under their names of today.

    Raises:
        MissingOptionError: `bootstrap.servers` is missing.
        OptionError: two names of the same property have different values.
    """
    found = _translated(given, CONSUMER_NAMES, NOT_NEEDED)
    if RESET in found:
        text = found[RESET].strip().lower()
        found[RESET] = RESETS.get(text, text)
    return found


def producer_properties(given: Mapping[str, Any]) -> dict[str, str]:
    """Return the properties of a producer under their names of today; see `consumer_properties`."""
    return _translated(given, PRODUCER_NAMES, NOT_NEEDED_TO_WRITE)


def _translated(
    given: Mapping[str, Any], names: Mapping[str, str], not_needed: Iterable[str]
) -> dict[str, str]:
    found: dict[str, str] = {}
    useless = []
    for name, value in given.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if name in not_needed or name.startswith(NOT_NEEDED_PREFIXES):
            useless.append(name)
            continue
        today = names.get(name, name)
        if found.setdefault(today, text) != text:
            raise OptionError(
                f"Property {name} is the older name of {today}, and both are set to different values. Leave "
                f"{name} out.",
                option=name,
            )
    if useless:
        warn_once(
            _log,
            f"Properties {', '.join(sorted(useless))} are not needed and have no effect: penstock uses "
            "neither ZooKeeper nor a Java client, and Spark's checkpoint keeps the position.",
        )
    if not found.get(BOOTSTRAP):
        raise MissingOptionError(f"Property {BOOTSTRAP} is required but not provided.", option=BOOTSTRAP)
    return found


def discovery_interval_ms(text: str | None) -> int:
    """Return how often to look for new topic partitions, in milliseconds; -1 means never, the default.

    Raises:
        OptionError: the text is not a number, or it is negative.
    """
    if text is None:
        return -1
    try:
        interval_ms = int(text)
    except ValueError:
        interval_ms = -1
    if interval_ms < 0:
        raise OptionError(
            f"Property {DISCOVERY} cannot be {text!r}. Allowed: a number of milliseconds, at least 0. Leave "
            "it out to turn discovery off.",
            option=DISCOVERY,
            value=text,
        )
    return max(1, interval_ms)  # 0 means without a pause in Flink, but never in penstock's options
