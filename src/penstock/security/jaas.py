r"""The value of `sasl.jaas.config`: which login module, with which options.

Pure. The grammar is Java's `module flag name="value" ...;` with `//` and `/* */` comments and C
escapes in quotes. Also read is the form of Flink's SQL documents, where each quote has a backslash
(`username=\"alice\"`). Invariant: an error never shows any part of the text, because it holds passwords.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from penstock.errors import OptionError

KEY = "sasl.jaas.config"
_CONTROL_FLAGS = ("required", "requisite", "sufficient", "optional")
PLAIN_LINE = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="..." password="...";'
SCRAM_LINE = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="..." password="...";'
_TOKEN = re.compile(
    r"""
    (?P<space> \s+ | //[^\r\n]* | /\*.*?\*/ )
  | (?P<quoted> "(?:[^"\\\r\n]|\\[^\r\n])*" | '(?:[^'\\\r\n]|\\[^\r\n])*' )
  | (?P<word> [A-Za-z_$\u00a0-\U0010ffff][A-Za-z0-9_$.\-\u00a0-\U0010ffff]* )
  | (?P<sign> [=;] )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_NAMED_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@dataclass(frozen=True)
class LoginModule:
    """One entry of a JAAS configuration."""

    class_name: str
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def simple_name(self) -> str:
        """Return the class name without its package, which shading changes."""
        return self.class_name.rpartition(".")[2]

    def option(self, name: str) -> str | None:
        return dict(self.options).get(name)


def parse_jaas_config(text: str, *, shown_as: str = KEY) -> LoginModule:
    """Parse the one login module that a client's configuration holds.

    Args:
        text: the value of the option.
        shown_as: the option's key as the user writes it, for errors.

    Raises:
        OptionError: the text does not follow the grammar, or has another number of modules.
    """
    try:
        return _parsed(text)
    except ValueError as error:
        raise OptionError(
            f"Option '{shown_as}' {error}. It is written like this: {PLAIN_LINE}", option=shown_as
        ) from None


def _parsed(text: str) -> LoginModule:
    tokens = list(_tokens(_without_outer_backslashes(text)))
    if not tokens or tokens[-1] != ("sign", ";"):
        raise ValueError("does not end with a semicolon")
    if tokens.count(("sign", ";")) > 1:
        raise ValueError("holds more than one login module")
    (kind, class_name), *rest = tokens[:-1] or [("sign", "")]
    if kind != "word":
        raise ValueError("does not begin with the class of a login module")
    if not rest or rest[0][0] != "word" or rest[0][1].lower() not in _CONTROL_FLAGS:
        raise ValueError(f"has none of {', '.join(_CONTROL_FLAGS)} after the login module")
    return LoginModule(class_name, tuple(_options(rest[1:])))


def _options(tokens: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    names: set[str] = set()
    for start in range(0, len(tokens), 3):
        entry = tokens[start : start + 3]
        if len(entry) < 3 or entry[0][0] == "sign" or entry[1] != ("sign", "=") or entry[2][0] == "sign":
            raise ValueError('has an option that is not name="value"')
        name = entry[0][1]
        if name in names:
            raise ValueError("gives one option twice")
        names.add(name)
        yield name, entry[2][1]


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError("has a character outside of quotes that does not belong there, or an open quote")
        position = match.end()
        if match.lastgroup == "quoted":
            yield "quoted", _ESCAPE.sub(_unescape, match.group()[1:-1])
        elif match.lastgroup != "space":
            yield str(match.lastgroup), match.group()


def _unescape(match: re.Match[str]) -> str:
    escaped = match[1]
    if escaped[0] in "01234567":
        return chr(int(escaped, 8))
    return _NAMED_ESCAPES.get(escaped, escaped)


def _without_outer_backslashes(text: str) -> str:
    first_quote = re.search(r"[\"']", text)
    if first_quote is not None and text.endswith('\\"', 0, first_quote.end()):
        return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)
    return text
