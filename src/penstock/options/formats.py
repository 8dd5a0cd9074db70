"""Every format of keys and values: its name and the class that reads and writes it.

Runs on the driver. To add a format, write its module in penstock/formats/ and add one line to FORMATS. The
names that options may have, the look-up in penstock/formats/registry.py and docs/options.md follow from it.
Invariant: a format is named here and in its own module only, and nothing here imports it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FormatEntry:
    """One format.

    Attributes:
        name: what the user writes, e.g. `json`.
        module: where its class is, e.g. `penstock.formats.json.format`. It is imported when the name is used.
        class_name: the class, e.g. `JsonFormat`. See `FormatClass` in penstock/formats/base.py.
    """

    name: str
    module: str
    class_name: str


FORMATS = (
    FormatEntry("raw", "penstock.formats.raw", "RawFormat"),
    FormatEntry("json", "penstock.formats.json.format", "JsonFormat"),
    FormatEntry("csv", "penstock.formats.csv", "CsvFormat"),
    FormatEntry("avro", "penstock.formats.avro.format", "AvroFormat"),
    FormatEntry("protobuf", "penstock.formats.protobuf.format", "ProtobufFormat"),
    FormatEntry("avro-confluent", "penstock.formats.avro.confluent", "AvroConfluentFormat"),
    FormatEntry("json-confluent", "penstock.formats.json.confluent", "JsonConfluentFormat"),
    FormatEntry("protobuf-confluent", "penstock.formats.protobuf.confluent", "ProtobufConfluentFormat"),
)

PLAIN_FORMAT_OF_CHANGELOG = {
    "debezium-json": "json",
    "debezium-avro-confluent": "avro-confluent",
    "canal-json": "json",
    "maxwell-json": "json",
    "ogg-json": "json",
}
"""Flink's changelog (CDC) formats. None is here yet; the plain format reads their records as they are."""

FORMAT_PREFIXES = ("", "key.", "value.")
"""Where a format's own options stand: for `format`, `key.format` and `value.format`."""
