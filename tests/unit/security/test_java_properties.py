"""Java's properties files, as `java.util.Properties` reads them."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.security.java_properties import parse_properties

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
ESCAPES = {
    "\\": "\\\\",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\f": "\\f",
    "=": "\\=",
    ":": "\\:",
    "#": "\\#",
}


def stored(text: str, *, is_key: bool) -> str:
    """A text as `Properties.store` writes it: with escapes, and as halves of UTF-16 where it is not ASCII."""
    written = []
    for index, character in enumerate(text):
        if character == " " and (is_key or index == 0):
            written.append("\\ ")
        elif character in ESCAPES or character == "!":
            written.append(ESCAPES.get(character, "\\!"))
        elif character.isascii() and character.isprintable():
            written.append(character)
        else:
            units = character.encode("utf-16-be")
            written += [f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2)]
    return "".join(written)


@given(st.dictionaries(TEXT.filter(bool), TEXT), st.sampled_from(["=", ":", " = ", "\t:", " "]))
def test_what_java_stores_is_read(wanted: dict[str, str], sign: str) -> None:
    lines = (f"{stored(key, is_key=True)}{sign}{stored(text, is_key=False)}" for key, text in wanted.items())
    assert parse_properties("#Sun Nov 22\n" + "\n".join(lines)) == wanted


@given(st.text())
def test_any_text_is_read_or_refused_without_being_shown(text: str) -> None:
    found = shown(f"password=correct-horse\n{text}")
    assert found is None or ("hexadecimal" in found and "horse" not in found)


def shown(text: str) -> str | None:
    """What the reader says of a text, None where it reads it."""
    try:
        parse_properties(text)
    except ValueError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", {}),
        ("# a=1\n  ! b=2\n\n \t\n", {}),
        ("a=1\r\nb = 2\rc:3\nd 4", {"a": "1", "b": "2", "c": "3", "d": "4"}),
        ("a", {"a": ""}),
        ("a=b=c", {"a": "b=c"}),
        ("a==b", {"a": "=b"}),
        ("a \t= \tb ", {"a": "b "}),
        ("a=1,\\\n   2,\\\r\n\t3", {"a": "1,2,3"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\\n# not a comment", {"a": "1# not a comment"}),
        ("\\ a\\=b\\:=c", {" a=b:": "c"}),
        ("a=\\q\\u0041\\ud83d\\ude00", {"a": "qA\U0001f600"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=x\x85y\x0bz\u2028", {"a": "x\x85y\x0bz\u2028"}),
        ("a=1\\", {"a": "1"}),
        ("=x", {"": "x"}),
    ],
)
def test_the_grammar_is_javas(text: str, wanted: dict[str, str]) -> None:
    assert parse_properties(text) == wanted


@pytest.mark.parametrize("line", ["a\\\n", "\\\\\\\n"])
def test_a_line_of_many_parts_is_read_in_time(line: str) -> None:
    start = time.monotonic()
    assert len(parse_properties(line * 1_000_000)) == 1
    assert time.monotonic() - start < 15


def test_a_damaged_escape_is_refused() -> None:
    with pytest.raises(ValueError, match="without four hexadecimal digits"):
        parse_properties("password=\\u12")
