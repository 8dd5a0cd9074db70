"""Names and options to formats: Flink's spelling, prefixes, and errors that help."""

from __future__ import annotations

import subprocess
import sys

import pytest

from penstock.errors import OptionError
from penstock.formats import format_names
from penstock.formats.base import excerpt
from penstock.formats.json.format import JsonFormat
from tests.table_specs import format_for
from tests.waiting import PATIENCE_S


@pytest.mark.parametrize("prefix", ["", "key.", "value."])
def test_options_are_read_under_their_prefix_only(prefix: str) -> None:
    options = {
        f"{prefix}JSON.Ignore-Parse-Errors": "TRUE",
        "topic": "t",
        "json": "no option of the format",
        "other.json.fail-on-missing-field": "true",
        "csv.anything": "left to csv",
    }
    assert format_for("Json", options, prefix) == JsonFormat(ignore_parse_errors=True)
    other = "key." if prefix != "key." else "value."
    assert format_for("json", options, other) == JsonFormat()


def test_an_unknown_format_is_refused_with_the_nearest() -> None:
    with pytest.raises(OptionError, match=r"'value.format' cannot be 'jsn'. Did you mean 'json'"):
        format_for("jsn", {}, "value.")


def test_an_unknown_option_is_refused_with_the_nearest() -> None:
    with pytest.raises(OptionError, match=r"Did you mean 'key.json.ignore-parse-errors'") as caught:
        format_for("json", {"key.json.ignore-parse-error": "true"}, "key.")
    assert caught.value.facts["option"] == "key.json.ignore-parse-error"


def test_formats_are_imported_when_they_are_asked_for() -> None:
    code = (
        "import sys; from penstock.options.table_spec import FormatSpec as S; import penstock.formats as f;"
        "f.format_of(S('raw'));"
        "bad = {'penstock.formats.json.format', 'kafka', 'pyspark', 'fastavro', 'google.protobuf'}"
        "& set(sys.modules);"
        "assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE_S)
    assert {"raw", "json"} <= set(format_names())


_NEW_FORMAT = """
import sys, types
import penstock.options.formats as formats
from penstock.options.declare import Dialect, Option, Side
from penstock.options.values import POSITIVE_INT

class XmlFormat:
    name = "xml"
    options = (Option("xml.depth", Dialect.FLINK, Side.BOTH, POSITIVE_INT, "How deep."),)

    @classmethod
    def from_spec(cls, spec):
        from penstock.formats.format_options import options_of
        return options_of(cls.options, spec).value(cls.options[0])

home = types.ModuleType("somewhere.xml")
home.XmlFormat = XmlFormat
sys.modules["somewhere.xml"] = home
formats.FORMATS += (formats.FormatEntry("xml", "somewhere.xml", "XmlFormat"),)

from penstock.formats import format_names, format_of
from penstock.options.parse import parse_read
from tests.options_page import render
assert format_names()[-1] == "xml"
options = {"format": "xml", "xml.depth": "3", "topic": "t", "properties.bootstrap.servers": "b:1"}
spec = parse_read(options, streaming=True).table
assert format_of(spec.value_format) == 3
assert "`xml.depth`" in render() and "debezium-avro-confluent, xml" in render()
"""


def test_a_format_needs_one_entry_in_one_list() -> None:
    subprocess.run([sys.executable, "-c", _NEW_FORMAT], check=True, timeout=PATIENCE_S)


def test_an_excerpt_is_short_printable_and_one_line() -> None:
    text = excerpt(b"\x1b[31mred\n\xff\xe2\x80\xae" + b"x" * 10_000)
    assert text.isprintable()
    assert len(text) < 140
    assert text.endswith("(10013 bytes)")
    assert excerpt(b"abc") == "abc"
