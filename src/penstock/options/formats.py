"""The list of all formats of keys and values.

Runs on the driver. To add a format, write its module in penstock/formats/ and add one line to FORMATS. The
option names, the look-up in penstock/formats/registry.py and docs/options.md read this list.
Invariant: the name of a format stands only here and in its own module, and nothing here imports that module.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FormatEntry:
    """One format.

    Attributes:
        name: as the user writes it, e.g. `json`.
        module: the module of its class, e.g. `penstock.formats.json.format`, imported when the format is
            used.
        class_name: of the class that reads and writes it, e.g. `JsonFormat`. See penstock/formats/base.py.
        is_changelog: whether its rows say how they change a table (the metadata `row-kind`).
    """

    name: str
    module: str
    class_name: str
    is_changelog: bool = False


FORMATS = (
    FormatEntry("raw", "penstock.formats.raw", "RawFormat"),
    FormatEntry("json", "penstock.formats.json.format", "JsonFormat"),
    FormatEntry("csv", "penstock.formats.csv", "CsvFormat"),
    FormatEntry("avro", "penstock.formats.avro.format", "AvroFormat"),
    FormatEntry("protobuf", "penstock.formats.protobuf.format", "ProtobufFormat"),
    FormatEntry("avro-confluent", "penstock.formats.avro.confluent", "AvroConfluentFormat"),
    FormatEntry("json-confluent", "penstock.formats.json.confluent", "JsonConfluentFormat"),
    FormatEntry("protobuf-confluent", "penstock.formats.protobuf.confluent", "ProtobufConfluentFormat"),
    FormatEntry(
        "debezium-json", "penstock.formats.changelog.debezium_json", "DebeziumJsonFormat", is_changelog=True
    ),
    FormatEntry("canal-json", "penstock.formats.changelog.canal_json", "CanalJsonFormat", is_changelog=True),
    FormatEntry(
        "maxwell-json", "penstock.formats.changelog.maxwell_json", "MaxwellJsonFormat", is_changelog=True
    ),
    FormatEntry("ogg-json", "penstock.formats.changelog.ogg_json", "OggJsonFormat", is_changelog=True),
    FormatEntry(
        "debezium-avro-confluent",
        "penstock.formats.changelog.debezium_avro",
        "DebeziumAvroConfluentFormat",
        is_changelog=True,
    ),
)

FORMAT_PREFIXES = ("", "key.", "value.")
"""The text before the options of a format, for `format`, `key.format` and `value.format`."""
