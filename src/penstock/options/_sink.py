"""Parse the options of a write, in either dialect, into one `SinkConfig`.

Runs on the driver. Invariant: no other option contradicts the delivery guarantee.
"""

from __future__ import annotations

import logging
import re
from typing import Any

from penstock.errors import MissingOptionError, OptionError
from penstock.options import flink
from penstock.options._recognise import GivenOptions
from penstock.options._spark import CHECKPOINT_LOCATION
from penstock.options.config import (
    PARTITIONER_WORDS,
    ROUND_ROBIN_PARTITIONER,
    DeliveryGuarantee,
    SinkConfig,
)
from penstock.options.declare import Option, raise_not_allowed
from penstock.options.metrics import HTTP_PORT
from penstock.options.properties import property_value
from penstock.options.properties.delivery_properties import delivery_properties
from penstock.options.python_objects import PARTITIONER
from penstock.options.table import KEY_FIELDS
from penstock.options.values import as_word, check_topic_name
from penstock.options.warn import warn_once

_log = logging.getLogger("penstock.options")

_DOTTED_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")
_WRITE_ID = re.compile(r"[A-Za-z0-9._:+/=@-]{1,200}")
_QUERY_ID = re.compile(r"[A-Za-z0-9._-]{1,100}")


def sink_config(given: GivenOptions) -> SinkConfig:
    """Parse the options of a write, except those of its table; see `parse_write`.

    Raises:
        OptionError: the message names the option, its value, and the allowed values.
    """
    given.value(flink.CONNECTOR)
    guarantee = DeliveryGuarantee(given.value_or_default(flink.DELIVERY_GUARANTEE))
    delivery_properties(given.properties, guarantee)
    query_id, batch_id = _micro_batch(given)
    return SinkConfig(
        properties=given.properties,
        topic=_topic(given, flink.TOPIC, "one topic to write to"),
        delivery_guarantee=guarantee,
        transactional_id_prefix=_transactional_id_prefix(given, guarantee),
        commit_log_topic=(
            _topic(given, flink.COMMIT_LOG_TOPIC, "the name of one topic")
            if guarantee is DeliveryGuarantee.EXACTLY_ONCE
            else None
        ),
        partitioner=_partitioner(given),
        query_id=query_id,
        batch_id=batch_id,
        write_id=_write_id(given, guarantee),
        sibling_prefixes=frozenset((given.text(flink.SIBLING_PREFIXES) or "").split(",")) - {""},
        logs_failures=_logs_failures(given, guarantee),
        flushes_on_checkpoint=_flushes_on_checkpoint(given, guarantee),
        checkpoint_location=given.text(CHECKPOINT_LOCATION),
        metrics_port=_metrics_port(given),
        fails_on_new_query=_fails_on_new_query(given, guarantee),
    )


def _metrics_port(given: GivenOptions) -> int | None:
    port = given.value(HTTP_PORT)
    if port == 0:
        raise OptionError(
            f"Expected the port of a source of this query for option '{HTTP_PORT.key}' of a sink, got 0. "
            "Nothing was written. Set the same port on the source and on the sink.",
            option=HTTP_PORT.key,
            value=port,
        )
    return port


def _topic(given: GivenOptions, option: Option[Any], what: str) -> str | None:
    text = given.text(option)
    if text is None:
        return None
    try:
        return check_topic_name(text.strip())
    except ValueError as error:
        raise_not_allowed(option.key, text, f"{what}; {error}")


def _transactional_id_prefix(given: GivenOptions, guarantee: DeliveryGuarantee) -> str | None:
    if guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
        return None
    prefix = given.text(flink.TRANSACTIONAL_ID_PREFIX)
    if not prefix:
        raise MissingOptionError(
            f"Option '{flink.TRANSACTIONAL_ID_PREFIX.key}' is required with "
            f"'{flink.DELIVERY_GUARANTEE.key}' = 'exactly-once': a name for this query only, by which its "
            "transactions are found after a failure. Choose one and keep it.",
            option=flink.TRANSACTIONAL_ID_PREFIX.key,
        )
    return prefix


def _fails_on_new_query(given: GivenOptions, guarantee: DeliveryGuarantee) -> bool:
    fails = given.value_or_default(flink.ON_NEW_QUERY) == "fail"
    if fails and guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
        raise OptionError(
            f"Option '{flink.ON_NEW_QUERY.key}' = 'fail' needs '{flink.DELIVERY_GUARANTEE.key}' = "
            f"'exactly-once', got '{guarantee.value}': without transactions penstock does not know which "
            "queries have written. Nothing was written. Leave the option out, or set the guarantee.",
            option=flink.ON_NEW_QUERY.key,
            value="fail",
        )
    return fails


def _partitioner(given: GivenOptions) -> str:
    """Return one of the words, or the name or the text of a partitioner of the user. Load nothing."""
    text = given.value_or_default(flink.PARTITIONER).strip()
    if PARTITIONER.is_text(text):
        PARTITIONER.split(text, flink.PARTITIONER.key)
        return text
    word = as_word(text)
    if word == ROUND_ROBIN_PARTITIONER and given.text(KEY_FIELDS):
        raise OptionError(
            f"Option '{flink.PARTITIONER.key}' can be 'round-robin' only when option '{KEY_FIELDS.key}' is "
            "not set, because round-robin spreads equal keys over all partitions and their order is lost. "
            "Leave one of them out.",
            option=flink.PARTITIONER.key,
        )
    if word in PARTITIONER_WORDS:
        return word
    if not _DOTTED_NAME.fullmatch(text):
        raise_not_allowed(flink.PARTITIONER.key, text, flink.PARTITIONER.type.allowed)
    return text


def _logs_failures(given: GivenOptions, guarantee: DeliveryGuarantee) -> bool:
    if given.value_or_default(flink.ON_DELIVERY_FAILURE) == "fail":
        return False
    _check_may_lose(f"'{flink.ON_DELIVERY_FAILURE.key}' = 'log'", guarantee)
    if property_value(given.properties, "enable.idempotence"):
        key = given.properties.spelled("enable.idempotence")
        raise OptionError(
            f"Option '{key}' = 'true' contradicts '{flink.ON_DELIVERY_FAILURE.key}' = 'log': an idempotent "
            "producer cannot continue after a lost batch. Leave one of them out.",
            option=key,
        )
    warn_once(
        _log,
        f"'{flink.ON_DELIVERY_FAILURE.key}' = 'log': records that Kafka does not take are LOST. The query "
        "continues, and an error is logged for each lost batch.",
    )
    return True


def _flushes_on_checkpoint(given: GivenOptions, guarantee: DeliveryGuarantee) -> bool:
    if given.value_or_default(flink.FLUSH_ON_CHECKPOINT):
        return True
    _check_may_lose(f"'{flink.FLUSH_ON_CHECKPOINT.key}' = 'false'", guarantee)
    warn_once(
        _log,
        f"'{flink.FLUSH_ON_CHECKPOINT.key}' = 'false': a stream does not wait until Kafka has acknowledged "
        "its records, so records may be LOST when a worker process or a broker fails. Set it to 'true' for "
        "at-least-once (FlinkKafkaProducer08 to 010: set_flush_on_checkpoint(True)).",
    )
    return False


def _check_may_lose(what: str, guarantee: DeliveryGuarantee) -> None:
    if guarantee is not DeliveryGuarantee.NONE:
        raise OptionError(
            f"Option {what} may lose records, which contradicts '{flink.DELIVERY_GUARANTEE.key}' = "
            f"'{guarantee.value}'. Leave it out, or set '{flink.DELIVERY_GUARANTEE.key}' = 'none'.",
            option=flink.DELIVERY_GUARANTEE.key,
        )


def _micro_batch(given: GivenOptions) -> tuple[str | None, int | None]:
    """Return the query and the micro-batch that a batch write carries out; None without them."""
    query_id, batch_id = given.value(flink.QUERY_ID), given.value(flink.BATCH_ID)
    if (query_id is None) is not (batch_id is None):
        missing = flink.QUERY_ID if query_id is None else flink.BATCH_ID
        raise MissingOptionError(
            f"Option '{missing.key}' is missing: '{flink.QUERY_ID.key}' and '{flink.BATCH_ID.key}' have to "
            "be set together. penstock.write_batch sets both.",
            option=missing.key,
        )
    if query_id is not None and not _QUERY_ID.fullmatch(query_id):
        raise_not_allowed(flink.QUERY_ID.key, query_id, flink.QUERY_ID.type.allowed)
    return query_id, batch_id


def _write_id(given: GivenOptions, guarantee: DeliveryGuarantee) -> str | None:
    """Return the user's name for a batch write, after the checks."""
    write_id = given.value(flink.WRITE_ID)
    if write_id is None:
        return None
    if not _WRITE_ID.fullmatch(write_id):
        raise_not_allowed(flink.WRITE_ID.key, write_id, flink.WRITE_ID.type.allowed)
    if guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
        raise OptionError(
            f"Option '{flink.WRITE_ID.key}' needs '{flink.DELIVERY_GUARANTEE.key}' = 'exactly-once': with "
            f"'{guarantee.value}' a repeated write is not recognised, and its rows are written twice.",
            option=flink.WRITE_ID.key,
            value=write_id,
        )
    if given.value(flink.QUERY_ID) is not None:
        raise OptionError(
            f"Options '{flink.WRITE_ID.key}' and '{flink.QUERY_ID.key}' both identify this write. Leave "
            f"'{flink.WRITE_ID.key}' out in foreachBatch, because penstock.write_batch identifies the write.",
            option=flink.WRITE_ID.key,
            value=write_id,
        )
    return write_id
