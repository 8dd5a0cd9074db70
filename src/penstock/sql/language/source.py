"""The text of a script, and errors that show a line and column of it.

Runs on the driver. Invariant: a message names line and column, and shows the line with a caret below it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.errors import SqlError, SqlFailedError

_SHOWN_WIDTH = 100
_WORDS = (
    r"(?:passw(?:or)?d|passphrase|jaas|secret|token|credential|basic[._-]?auth|keystore\.key"
    r"|(?:api|account|access|private)[._-]?key)"
)
_BETWEEN = r"(?:\s|=|/\*(?:(?!\*/).)*\*/|--[^\n]*\n)*"
_BARE = rf"(?<![\w.-])[\w.-]{{0,80}}{_WORDS}[\w.-]{{0,80}}"
_SECRETS = tuple(
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        rf"('[^']*{_WORDS}[^']*'{_BETWEEN}')((?:[^']|'')*)",  # an option
        rf"([\"'][^\"'\n]*{_WORDS}[^\"'\n]*[\"']\s*=\s*)([^\s\"'=,;()][^\s\"',;)]*)",  # no quotes
        rf"({_BARE}[\"'`]?{_BETWEEN}=\s*\")((?:[^\"\\]|\\.)*)",
        rf"({_BARE}{_BETWEEN}=\s*')((?:[^']|'')*)",  # nor here
        rf"({_BARE}=)((?:[^\s\"',;)&]|&(?![\w.-]+=))+)",
        rf"(\bSET\s+[\w.-]*{_WORDS}[\w.-]*\s*=\s*)([^\s;']+)",  # a setting without quotes
        r"(://[^/\s:@']+:)([^@/\s']+)(?=@)",  # the password in an address
        r"(jdbc:oracle:\w+:[^/:@']*/)([^@\s']+)(?=@)",
        rf"([?&;][\w.-]{{0,40}}{_WORDS}[\w.-]{{0,40}}=)([^&;\s']+)",  # and as a parameter of it
    )
)
"""What stands before a secret, and the secret."""


@dataclass(frozen=True)
class Source:
    """The whole text that the user gave."""

    text: str

    def line_and_column(self, offset: int) -> tuple[int, int]:
        """Return line and column of a character; both begin at 1."""
        before = self.text[:offset]
        return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1

    def error(self, message: str, offset: int, **facts: str) -> SqlError:
        """Return the error for an offset in this text.

        Args:
            message: what happened, and what to do.
            offset: of the first character that is wrong; the end of the text at most.
            facts: values for programs, beside line and column.
        """
        text, line, column = self._shown(message, offset)
        return SqlError(text, line=line, column=column, **facts)

    def failure(self, message: str, offset: int) -> SqlFailedError:
        """Return the error for a statement that failed while it ran; see `error`."""
        text, line, column = self._shown(message, offset)
        return SqlFailedError(text, line=line, column=column)

    def _shown(self, message: str, offset: int) -> tuple[str, int, int]:
        """Return a message with line and column, and these two."""
        offset = max(0, min(offset, len(self.text)))
        line, column = self.line_and_column(offset)
        shown = self._line_with_caret(line, column)
        return f"Line {line}, column {column}: {message}\n{shown}", line, column

    def _line_with_caret(self, line: int, column: int) -> str:
        text = without_secrets(self.text).split("\n")[line - 1].rstrip("\r").replace("\t", " ")
        first = max(0, column - 1 - _SHOWN_WIDTH * 3 // 4)
        shown = "".join(c if c.isprintable() else " " for c in text[first : first + _SHOWN_WIDTH])
        return f"  {shown}\n  {' ' * (column - 1 - first)}^"


def without_secrets(text: str) -> str:
    """Return a script of the same length, with stars for secret options and passwords in addresses."""
    for pattern in _SECRETS:
        text = pattern.sub(lambda found: found[1] + re.sub(r"[^\n]", "*", found[2]), text)
    return text


def shown_value(key: str, value: str) -> str:
    """Return the value of an option with stars for its secrets."""
    return "******" if re.search(_WORDS, key, re.IGNORECASE) else without_secrets(value)


def nearest(word: str, known: Iterable[str]) -> str:
    """Return ` Did you mean 'x'?` for the known word that is most like `word`; "" if none is like it."""
    by_lower = {each.lower(): each for each in known}
    near = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.7)
    return f" Did you mean '{by_lower[near[0]]}'?" if near else ""


class Offset(int):
    """An offset in a script, which it knows: a plan has parts of the scripts of views too."""

    script: Source

    @classmethod
    def of(cls, script: Source, offset: int) -> Offset:
        """Return an offset of a script."""
        found = cls(offset)
        found.script = script
        return found


def script_of(offset: int, script: Source) -> Source:
    """Return the script that an offset is of; `script` if it does not know one."""
    return offset.script if isinstance(offset, Offset) else script
