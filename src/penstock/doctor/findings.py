"""What the doctor says: findings, their text and JSON, and the exit code.

Pure.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Level(Enum):
    """How serious a finding is."""

    GOOD = "good"
    NOTE = "note"
    WARNING = "warning"
    BAD = "bad"


_EXIT_CODES = {Level.GOOD: 0, Level.NOTE: 0, Level.WARNING: 1, Level.BAD: 2}


@dataclass(frozen=True)
class Finding:
    """One line: what was looked at, what was found, and what to do if it is not good."""

    level: Level
    subject: str
    text: str
    advice: str = ""

    def __str__(self) -> str:
        advice = f" {self.advice}" if self.advice else ""
        return f"{self.level.value:<8} {self.subject}: {self.text}{advice}"

    def as_json(self) -> dict[str, str]:
        """Return the finding for JSON."""
        return {
            "level": self.level.value,
            "subject": self.subject,
            "text": self.text,
            "advice": self.advice,
        }


def good(subject: str, text: str) -> Finding:
    return Finding(Level.GOOD, subject, text)


def note(subject: str, text: str, advice: str) -> Finding:
    """Return a finding that is right for development, and would not be for production."""
    return Finding(Level.NOTE, subject, text, advice)


def warning(subject: str, text: str, advice: str) -> Finding:
    """Return a finding that may endanger data, or something that could not be checked."""
    return Finding(Level.WARNING, subject, text, advice)


def bad(subject: str, text: str, advice: str) -> Finding:
    """Return a finding that stops queries or endangers data."""
    return Finding(Level.BAD, subject, text, advice)


def exit_code(findings: Collection[Finding]) -> int:
    """Return 0 if all is good (notes are), 1 if there are warnings, 2 if something is bad."""
    return max((_EXIT_CODES[each.level] for each in findings), default=0)


def as_json(findings: Collection[Finding]) -> dict[str, Any]:
    """Return all findings for JSON, with how many there are of each level."""
    counts = {level.value: sum(each.level is level for each in findings) for level in Level}
    return {
        "exit_code": exit_code(findings),
        "counts": counts,
        "findings": [each.as_json() for each in findings],
    }
