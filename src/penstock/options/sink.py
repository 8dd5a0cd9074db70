"""The options of a write, in either dialect, as one `SinkConfig`.

Runs on the driver. Invariant: a delivery guarantee that the rest of the options contradict is never
taken on.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.errors import MissingOptionError, UnsupportedOptionError
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
        transactional_id_prefix=_transactional_id_prefix(given, guarantee),
        commit_log_topic=_commit_log_topic(given, guarantee),
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


def _commit_log_topic(given: GivenOptions, guarantee: DeliveryGuarantee) -> str | None:
    text = given.text(flink.COMMIT_LOG_TOPIC)
    if text is None or guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
        return None
    try:
        return check_topic_name(text.strip())
    except ValueError as error:
        raise_not_allowed(flink.COMMIT_LOG_TOPIC.key, text, f"the name of one topic; {error}")


def _delivery_guarantee(given: GivenOptions) -> DeliveryGuarantee:
    word = given.value(flink.DELIVERY_GUARANTEE)
    return DeliveryGuarantee.AT_LEAST_ONCE if word is None else DeliveryGuarantee(word)


def _transactional_id_prefix(given: GivenOptions, guarantee: DeliveryGuarantee) -> str | None:
    if guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
        return None
    prefix = given.text(flink.TRANSACTIONAL_ID_PREFIX)
    if not prefix:
        raise MissingOptionError(
            f"Option '{flink.TRANSACTIONAL_ID_PREFIX.key}' is required with "
            f"'{flink.DELIVERY_GUARANTEE.key}' = 'exactly-once': a name of its own for each query, by which "
            "its transactions are found again after a failure. Choose one and keep it.",
            option=flink.TRANSACTIONAL_ID_PREFIX.key,
        )
    return prefix


def _check_partitioner(given: GivenOptions) -> None:
    partitioner = given.value(flink.PARTITIONER)
    if partitioner not in (None, "default"):
        raise UnsupportedOptionError(
            f"Option '{flink.PARTITIONER.key}' cannot be '{partitioner}': this version of penstock does not "
            "support it yet. Use default, or a `partition` column.",
            option=flink.PARTITIONER.key,
        )
