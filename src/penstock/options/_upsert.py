"""Parse the options of upsert tables (`connector` = `upsert-kafka`), and refuse those that contradict them.

Runs on the driver. Invariant: an upsert table has a primary key, which is the key of its records, and every
read begins at the first record. The table would lack rows otherwise.
"""

from __future__ import annotations

from penstock.errors import MissingOptionError, OptionError
from penstock.options import flink
from penstock.options._recognise import GivenOptions
from penstock.options.config import DEFAULT_PARTITIONER, DeliveryGuarantee
from penstock.options.properties.delivery_properties import delivery_properties
from penstock.options.table import DESERIALIZER, FORMAT, KEY_FIELDS, KEY_FORMAT, PRIMARY_KEY, VALUE_FORMAT
from penstock.options.table_spec import Connector, UpsertSpec
from penstock.options.values import as_word

_IS_UPSERT = f"'{flink.CONNECTOR.key}' = '{Connector.UPSERT_KAFKA.value}'"
_BUFFER = (flink.BUFFER_FLUSH_MAX_ROWS, flink.BUFFER_FLUSH_INTERVAL)
_START = "scan.startup."


def is_upsert(given: GivenOptions) -> bool:
    return given.value(flink.CONNECTOR) == Connector.UPSERT_KAFKA.value


def check_upsert(given: GivenOptions) -> None:
    """Check that the options of an upsert table are complete, and that no other table has them.

    Raises:
        OptionError: an option contradicts the connector.
        MissingOptionError: an upsert table has no primary key, or no format for keys or values.
    """
    check_upsert_names(given)
    if not is_upsert(given):
        return
    if not given.has(PRIMARY_KEY):
        raise MissingOptionError(
            f"Option '{PRIMARY_KEY.key}' is required with {_IS_UPSERT}: the columns that the key of each "
            "record holds, separated by ';'. A record updates the row with its key, and a record without a "
            "value deletes it.",
            option=PRIMARY_KEY.key,
        )
    has_value_format = given.has(VALUE_FORMAT) or given.has(FORMAT)
    for key, is_set in ((KEY_FORMAT.key, given.has(KEY_FORMAT)), (VALUE_FORMAT.key, has_value_format)):
        if not is_set:
            raise MissingOptionError(
                f"Option '{key}' is required with {_IS_UPSERT}, e.g. 'json'.", option=key
            )


def check_upsert_names(given: GivenOptions) -> None:
    """Check that no option is set that is not for the connector.

    Raises:
        OptionError: the option is for upsert tables only, or not for them.
    """
    if not is_upsert(given):
        for option in (PRIMARY_KEY, *_BUFFER):
            if given.has(option):
                raise OptionError(
                    f"Option '{option.key}' needs {_IS_UPSERT}. In other tables each record is a "
                    "new row. Leave it out, or set the connector.",
                    option=option.key,
                )
        return
    _refuse(given)


def check_upsert_write(given: GivenOptions) -> None:
    """Check that the producer of an upsert table keeps the order of records.

    Raises:
        OptionError: it may change the order, so that an old row would stay in the table, or a batch that
            is repeated would write other records.
    """
    guarantee = DeliveryGuarantee(given.value_or_default(flink.DELIVERY_GUARANTEE))
    if guarantee is DeliveryGuarantee.EXACTLY_ONCE and given.value_or_default(flink.BUFFER_FLUSH_MAX_ROWS):
        raise OptionError(
            f"Option '{flink.BUFFER_FLUSH_MAX_ROWS.key}' cannot be set with '{flink.DELIVERY_GUARANTEE.key}' "
            f"= '{guarantee.value}'. Spark may repeat a batch with its rows in another order, and the buffer "
            f"would write other records then. Leave out '{flink.BUFFER_FLUSH_MAX_ROWS.key}' and "
            f"'{flink.BUFFER_FLUSH_INTERVAL.key}'.",
            option=flink.BUFFER_FLUSH_MAX_ROWS.key,
        )
    delivery = delivery_properties(given.properties, guarantee)
    if delivery.enable_idempotence or delivery.max_in_flight == 1:
        return
    key = given.properties.spelled
    raise OptionError(
        f"A write with {_IS_UPSERT} needs a producer that keeps the order of records. Without idempotence "
        "Kafka may store two updates of one row in the wrong order, and the old row would stay. Set "
        f"'{key('enable.idempotence')}' = 'true', or leave '{flink.DELIVERY_GUARANTEE.key}' out.",
        option=key("enable.idempotence"),
    )


def upsert_spec(given: GivenOptions) -> UpsertSpec | None:
    """Return what an upsert table adds to a table; None for other tables.

    Raises:
        OptionError: only one option of the buffer is set.
    """
    if not is_upsert(given):
        return None
    max_rows, interval_ms = (given.value_or_default(option) for option in _BUFFER)
    if bool(max_rows) != bool(interval_ms):
        raise OptionError(
            f"Options '{_BUFFER[0].key}' and '{_BUFFER[1].key}' turn the buffer on together: set both "
            f"greater than 0, or none. Got {max_rows} rows and {interval_ms} ms.",
            option=(_BUFFER[1] if max_rows else _BUFFER[0]).key,
        )
    return UpsertSpec(max_rows)


def _refuse(given: GivenOptions) -> None:
    if given.has(KEY_FIELDS):
        raise OptionError(
            f"Option '{KEY_FIELDS.key}' cannot be set with {_IS_UPSERT}: the key holds the columns of "
            f"'{PRIMARY_KEY.key}'. Leave it out.",
            option=KEY_FIELDS.key,
        )
    if given.has(DESERIALIZER):
        raise OptionError(
            f"Option '{DESERIALIZER.key}' cannot be set with {_IS_UPSERT}, which reads keys and values with "
            f"'{KEY_FORMAT.key}' and '{VALUE_FORMAT.key}'. Leave it out.",
            option=DESERIALIZER.key,
        )
    partitioner = given.text(flink.PARTITIONER)
    if partitioner is not None and as_word(partitioner) != DEFAULT_PARTITIONER:
        raise OptionError(
            f"Option '{flink.PARTITIONER.key}' cannot be set with {_IS_UPSERT}: the key chooses the "
            "partition, so that all records of a row stay in order. Leave it out.",
            option=flink.PARTITIONER.key,
        )
    _refuse_start(given)


def _refuse_start(given: GivenOptions) -> None:
    """Refuse a start after the first record. Flink has no option for the start of these tables."""
    for key, text in given.texts.items():
        is_earliest = key == flink.STARTUP_MODE.key and as_word(text) == "earliest-offset"
        if key.startswith(_START) and not is_earliest:
            raise OptionError(
                f"Option '{key}' cannot be set with {_IS_UPSERT}: a read begins at the first record, because "
                "the table would lack rows otherwise. Leave it out. (A query with a checkpoint continues "
                "where it stopped.)",
                option=key,
            )
