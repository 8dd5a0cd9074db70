"""Make the page docs/options.md from the declarations.

Run `make docs` after you change an option; a test compares the page
with the code. Invariant: the page and the parsers agree, because both read the declarations.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

from penstock.options._spark import SPARK_ADDED_OPTIONS, SPARK_OPTIONS
from penstock.options.declare import Dialect, Option, Side, Status
from penstock.options.flink import FLINK_OPTIONS, TOPIC
from penstock.options.properties import GROUPS, Handling, Property
from tests.api_pages import linked

_HEAD = """\
# Options

<!-- Made by `make docs`: change the declarations, not this. -->

Set options with `.option(key, value)`, or in SQL as `OPTIONS` of a temporary view. Keys may be in any case.
There are two dialects, and a reader or writer uses one of them ([some names](#beside-sparks-names) are the
same in both):

- **Flink's**: the names of Flink's Kafka SQL connector, and penstock's own options in the same style. You
  need this dialect for what Spark's cannot say: bounded streams, group offsets, event time, limits in bytes.
- **Spark's own**: the names of Spark's Kafka source and sink. Change `.format("kafka")` to
  `.format("penstock")`, and nothing else.

These are errors before a record is read or written: a value that is not allowed, a required option that is
missing, two options that exclude each other, and options of both dialects together. An option that Flink or
Spark has and penstock does not support is an error too; penstock never ignores it. An error of a stream
comes from `load()`, or after `start()` has returned, when the query runs. Before a mistake in an option of
the sink is found, Spark has written the starting point of batch 0 into the checkpoint. The corrected query
begins there. To begin elsewhere, take a new checkpoint.

Unknown keys:

- In Flink's dialect an unknown key is an error, as in Flink. The message names the nearest known key.
- In Spark's dialect a key that differs from a known one in one or two letters is an error. Any other unknown
  key is a warning (logger `penstock.options`), because Spark's own source ignores it too.
- `properties.*` and `kafka.*`: a name that differs from a property of Kafka's Java clients in one or two
  letters is an error. Any other unknown name is a warning, as in Java. For names of librdkafka
  (confluent-kafka) and kafka-python the warning says what to write instead.

Words such as `exactly-once` or `read_committed` may be in any case, with `-` or `_`.

A source ignores options of sinks, and a sink ignores options of sources, because one table can serve reads
and writes.
"""

_SHARED = """\
### Beside Spark's names

These names are the same in both dialects, so you can use them together with Spark's names. The tables above
say what they mean: `topic` (of a sink), {keys}, and the options of [formats](#formats).
"""

_FORMATS_HEAD = """\
## Formats

With `format` or `value.format` penstock decodes and encodes rows: see [formats.md](formats.md). The name of
an option of a format depends on the option that chose the format: `json.ignore-parse-errors` for `format` =
`json`, `key.json.ignore-parse-errors` for `key.format`, `value.json.ignore-parse-errors` for `value.format`.
An option that the format does not have is an error. So is an option of a format that is not in use.
"""

_PROPERTIES_HEAD = """\
## Kafka properties

Set every property of Kafka's Java clients as `properties.<name>` (Flink's dialect) or `kafka.<name>`
(Spark's). What penstock does with it:

- **translated**: penstock gives it to the connection layer or OpenSSL, under their name; the meaning is the
  same.
- **honoured**: penstock reads it itself; the meaning is the same.
- **no effect**: penstock accepts it and does nothing with it; the text says why.
- **error**: refused, because ignoring it would change the result; the text says what to do.

A default in brackets is Java's, if penstock's differs. Secrets appear in no message, log or `repr`.

`key.deserializer`, `value.deserializer`, `key.serializer`, `value.serializer`, `auto.offset.reset` and
`enable.auto.commit` are errors in Spark's dialect, as they are in Spark.
"""


def render() -> str:
    """Return the page as Markdown."""
    parts = [_HEAD]
    for dialect, title, options in (
        (Dialect.FLINK, "Flink's dialect", FLINK_OPTIONS),
        (Dialect.SPARK, "Spark's dialect", SPARK_OPTIONS),
    ):
        parts.append(f"## {title}\n")
        for side, subtitle in (
            (Side.BOTH, "Source and sink"),
            (Side.SOURCE, "Source"),
            (Side.SINK, "Sink"),
        ):
            parts.extend(_options_section(subtitle, [option for option in options if option.side is side]))
        if dialect is Dialect.SPARK:
            parts.append(_shared_section())
        parts.extend(_not_supported_section(dialect.value, options))
    parts.append("## Added by Spark\n")
    parts.append(_table(("option", "meaning"), ((_code(o.key), o.doc) for o in SPARK_ADDED_OPTIONS)))
    parts.append(_FORMATS_HEAD)
    parts.extend(_format_sections())
    parts.append(_PROPERTIES_HEAD)
    for title, properties in GROUPS.items():
        parts.append(f"### {title}\n")
        parts.append(_properties_table(properties))
    return linked("\n".join(parts), "")


def _merged(rows: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Join neighbouring rows that differ in their first cell only."""
    groups = groupby(rows, key=lambda row: row[1:])
    return [(", ".join(row[0] for row in group), *rest) for rest, group in groups]


def _options_section(title: str, options: Iterable[Option[Any]]) -> list[str]:
    rows = [
        (
            _code(option.key),
            option.type.name,
            option.type.allowed,
            shown_default(option),
            _option_text(option),
        )
        for option in options
        if option.status in (Status.SUPPORTED, Status.NO_EFFECT)
    ]
    if not rows:
        return []
    return [f"### {title}\n", _table(("option", "type", "allowed", "default", "meaning"), _merged(rows))]


def shown_default(option: Option[Any]) -> str:
    return option.default_text if option.default is None else option.type.render(option.default)


def _format_sections() -> list[str]:
    """Return the sections of formats. Only the making of this page imports formats, a room above this one."""
    formats: Any = importlib.import_module("penstock.formats.registry")
    parts, known = [], []
    for name in formats.format_names():
        options = formats.format_class(name).options
        parts.extend(_options_section(f"`{name}`", options))
        known.extend(options)
    return [*parts, *_not_supported_section("formats", known)]


def _option_text(option: Option[Any]) -> str:
    return f"Accepted, no effect. {option.doc}" if option.status is Status.NO_EFFECT else option.doc


def _shared_section() -> str:
    shared = [option for option in FLINK_OPTIONS if option.dialect is Dialect.SHARED and option is not TOPIC]
    keys = ", ".join(_code(option.key) for option in shared if not option.key.endswith("*"))
    return _SHARED.format(keys=keys)


def _not_supported_section(whose: str, options: Iterable[Option[Any]]) -> list[str]:
    rows = [
        (_code(option.key), option.status.value, option.doc)
        for option in options
        if option.status is Status.REFUSED
    ]
    if not rows:
        return []
    return [
        f"### Known and not supported ({whose})\n",
        _table(("option", "", "what to do, or what it is for"), _merged(rows)),
    ]


def _properties_table(properties: Iterable[Property]) -> str:
    rows = (
        (
            _code(declared.name),
            declared.handling.value,
            declared.type.allowed if declared.handling is not Handling.UNSUPPORTED else "",
            _default(declared),
            _property_text(declared),
        )
        for declared in properties
    )
    return _table(("property", "", "allowed", "default", "meaning"), _merged(rows))


def _default(declared: Property) -> str:
    if declared.handling in (Handling.UNSUPPORTED, Handling.NO_EFFECT):
        return ""
    text = "" if declared.default is None else declared.type.render(declared.default)
    default = _code(text) if text else ""
    return f"{default} ({_code(declared.java_default)})".strip() if declared.java_default else default


def _property_text(declared: Property) -> str:
    values_of: dict[str, list[str]] = {}
    for value, instead in declared.unsupported_values.items():
        values_of.setdefault(instead, []).append(_code(value))
    refused = (f" {' and '.join(values)} is refused: {instead}." for instead, values in values_of.items())
    return declared.doc + "".join(refused)


def _code(text: str) -> str:
    return f"`{text}`"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


if __name__ == "__main__":
    Path((sys.argv[1:] or ["docs/options.md"])[0]).write_text(render(), encoding="utf-8")
