"""The words that docs/CONTRIBUTING.md asks to avoid do not stand in code, tests or docs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXEMPT = {Path("docs/CONTRIBUTING.md"), Path("tests/unit/test_prose.py")}

AVOIDED = {
    "again; recreated; new": r"anew",
    "no one; name who": r"nobody",
    "name who": r"who(?:ever|soever)",
    "name what": r"what it takes|as the case may be",
    "has no": r"bears? no|ha(?:s|ve) not (?:the|a|an|any)\b",
    "is not": r"(?<!there )(?<!there's )\b(?:is|are|was|were) no (?!longer\b|more\b)[a-z]",
    "it does not matter": r"no matter",
    "suddenly": r"of a sudden",
    "if; until; where": r"(?:as|so) far as",
    "correct; complete": r"in good order",
    "because of it": r"for (?:its|their|his) sake",
    "permanently": r"for life\b",
    "is not one of": r"(?<!there )\b(?:is|are) (?-i:none)\b",
}
_WORDS = {instead: re.compile(rf"\b(?:{words})", re.IGNORECASE) for instead, words in AVOIDED.items()}
_ANY_OF_THEM = re.compile(rf"\b(?:{'|'.join(AVOIDED.values())})", re.IGNORECASE)
_SUFFIXES = {".py", ".pyi", ".pyx", ".pxd", ".c", ".h", ".md", ".toml", ".xml"}


def _texts() -> Iterator[Path]:
    for folder in ("src", "docs", "tests", "benchmarks", "build_backend"):
        yield from (path for path in sorted((ROOT / folder).rglob("*")) if path.suffix in _SUFFIXES)
    yield from (ROOT / name for name in ("README.md", "CHANGELOG.md", "Makefile"))


def _is_read(path: Path) -> bool:
    page = path.relative_to(ROOT)
    return page not in EXEMPT


def found_in(text: str) -> list[str]:
    """Return 'line: sentence part -> what to write instead' for each word to avoid."""
    if not _ANY_OF_THEM.search(text):  # ten times as fast as line by line
        return []
    return [
        f"{number}: {line.strip()[:100]!r} -> {instead}"
        for number, line in enumerate(text.splitlines(), 1)
        for instead, words in _WORDS.items()
        if words.search(line)
    ]


@pytest.mark.parametrize(
    "text", ["made anew", "Nobody has it", "the value is no integer", "no matter what", "those are no bytes"]
)
def test_a_word_to_avoid_is_found(text: str) -> None:
    assert found_in(text)


@pytest.mark.parametrize(
    "text", ["there is no topic", "it is no longer there", "is not a number", "a renewal", "known"]
)
def test_plain_words_are_left_alone(text: str) -> None:
    assert not found_in(text)


def test_no_word_to_avoid_is_used() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{each}"
        for path in _texts()
        if _is_read(path)
        for each in found_in(path.read_text())
    ]
    assert not found, "\n".join(found)
