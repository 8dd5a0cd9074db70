"""The options of a write, in either dialect, as one `SinkConfig`.

Runs on the driver. Invariant: a delivery guarantee that the rest of the options contradict is never
taken on.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.errors import UnsupportedOptionError
from penstock.options import flink, spark
from penstock.options.config import DeliveryGuarantee, SinkConfig
from penstock.options.declare import Reader
from penstock.options.properties.promise import produce_promise
from penstock.options.recognise import GivenOptions, raise_not_allowed, recognise
from penstock.options.values import check_topic_name


def parse_sink_options(options: Mapping[str, str]) -> SinkConfig:
    """Parse the options of a write.

    Args:
        options: as Spark hands them over; keys in any case.

    Raises:
        OptionError: naming the option, what it was, and what is allowed.
    """
    given = recognise(options, Reader.SINK)
    given.value(flink.CONNECTOR)
    _check_partitioner(given)
    guarantee = _delivery_guarantee(given)
    produce_promise(given.properties, guarantee)
    return SinkConfig(
        properties=given.properties,
        topic=_topic(given),
        delivery_guarantee=guarantee,
        checkpoint_location=given.text(spark.CHECKPOINT_LOCATION),
    )


def _topic(given: GivenOptions) -> str | None:
    text = given.text(flink.TOPIC)
    if text is None:
        return None
    try:
        return check_topic_name(text.strip())
    except ValueError as error:
        raise_not_allowed(flink.TOPIC.key, text, f"one topic to write to; {error}")


def _delivery_guarantee(given: GivenOptions) -> DeliveryGuarantee:
    word = given.value(flink.DELIVERY_GUARANTEE)
    guarantee = DeliveryGuarantee.AT_LEAST_ONCE if word is None else DeliveryGuarantee(word)
    if guarantee is DeliveryGuarantee.EXACTLY_ONCE:
        raise UnsupportedOptionError(
            f"Option '{flink.DELIVERY_GUARANTEE.key}' cannot be 'exactly-once': this version of penstock "
            "does not support it yet. Use at-least-once (the default), under which a task that fails and "
            "runs again may double records.",
            option=flink.DELIVERY_GUARANTEE.key,
        )
    return guarantee


def _check_partitioner(given: GivenOptions) -> None:
    partitioner = given.value(flink.PARTITIONER)
    if partitioner not in (None, "default"):
        raise UnsupportedOptionError(
            f"Option '{flink.PARTITIONER.key}' cannot be '{partitioner}': this version of penstock does not "
            "support it yet. Use default, or a `partition` column.",
            option=flink.PARTITIONER.key,
        )
