"""What came of each script when penstock last ran it: tests/data/sql/corpus/outcomes.json.

Invariant: an outcome belongs to the text of its script, like an answer of Flink. It is written as soon as
it is known, so an interruption loses only the scripts that were running.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

from tests.judges.sql.corpus import CORPUS, MODES, SCRIPTS, Script

ROOT = Path(__file__).parents[3]
FILE = CORPUS / "outcomes.json"
PROGRESS = ROOT / "build" / "judged_sql.json"
"""What this code has run: it stays on this machine."""


class Outcome(Enum):
    """What a comparison gave."""

    EQUAL = "equal"
    REFUSED_BY_BOTH = "refused by both"
    REFUSED = "refused by penstock"
    LISTED = "different, and listed"
    KINDER = "refused by Flink alone, and listed"
    DIFFERENT = "different"
    UNASKED = "not asked of Flink yet"


UNSETTLED = (Outcome.REFUSED, Outcome.DIFFERENT, Outcome.UNASKED)
"""What a change of penstock, or an answer of Flink, can make better."""

Asked = tuple[Script, str]
"""A script and a mode."""

Counts = tuple[int, ...]
"""The numbers of micro-batches that each stream runs in."""

Kept = dict[str, dict[str, dict[str, str]]]
"""By mode and script: `of`, the digest of the script; `outcome`; `message`, if it is not equal."""


def asked_of(beginnings: list[str]) -> list[Asked]:
    """Return scripts and modes: all, or those with some beginnings of names and modes."""
    modes = [each for each in MODES if each in beginnings] or list(MODES)
    names = tuple(each for each in beginnings if each not in MODES)
    return [
        (script, mode)
        for mode in modes
        for script in SCRIPTS.values()
        if mode in script.modes and (not names or script.name.startswith(names))
    ]


def kept() -> Kept:
    """Return all outcomes."""
    found: Kept = json.loads(FILE.read_text()) if FILE.exists() else {}
    return {mode: found.get(mode, {}) for mode in MODES}


def each_of(mode: str) -> Iterator[tuple[Script, Outcome, str]]:
    """Yield the scripts of a mode with their outcome and its message, without scripts that are gone."""
    for name, found in kept()[mode].items():
        if name in SCRIPTS:
            yield SCRIPTS[name], Outcome(found["outcome"]), found.get("message", "")


def is_missing(script: Script, mode: str) -> bool:
    """Return whether a script, as it is now, has no outcome in a mode."""
    return kept()[mode].get(script.name, {}).get("of") != script.asked


def is_unsettled(script: Script, mode: str) -> bool:
    """Return whether a script has no outcome, or one that may have become better."""
    found = kept()[mode].get(script.name)
    return found is None or is_missing(script, mode) or Outcome(found["outcome"]) in UNSETTLED


def keep(script: Script, mode: str, outcome: Outcome, message: str, counts: Counts) -> None:
    """Write an outcome into the file, and that this code has run the script in these micro-batches."""
    found = kept()
    found[mode][script.name] = {"of": script.asked, "outcome": outcome.value}
    if outcome is not Outcome.EQUAL:
        found[mode][script.name]["message"] = message
    parts = []
    for each in MODES:
        names = [name for name in sorted(found[each]) if name in SCRIPTS and each in SCRIPTS[name].modes]
        lines = [f"{json.dumps(name)}: {json.dumps(found[each][name], ensure_ascii=False)}" for name in names]
        parts.append(f"{json.dumps(each)}: {{\n" + ",\n".join(lines) + "\n}")
    _replace(FILE, "{\n" + ",\n".join(parts) + "\n}\n")
    _replace(PROGRESS, json.dumps([*sorted({*_done(), *_done_keys(script, mode, counts)})], indent=0))


def is_done(script: Script, mode: str, counts: Counts) -> bool:
    """Return whether the code as it is now has run a script, as it is now, on this machine."""
    return _done_keys(script, mode, counts) <= set(_done())


def _done() -> list[str]:
    found: list[str] = json.loads(PROGRESS.read_text()) if PROGRESS.exists() else []
    return [each for each in found if each.startswith(f"{CODE} ")]


def _done_keys(script: Script, mode: str, counts: Counts) -> set[str]:
    own = counts if mode == "streaming" else (1,)
    return {f"{CODE} {mode} {script.name} {script.asked} {count}" for count in own}


def _code() -> str:
    files = sorted((ROOT / "src").rglob("*.py*"))
    whole = hashlib.sha256()
    for file in files:
        if file.suffix in (".py", ".pyx"):
            whole.update(file.read_bytes())
    return whole.hexdigest()[:16]


CODE = _code()
"""A digest of penstock's code when this process began."""


def _replace(file: Path, text: str) -> None:
    file.parent.mkdir(exist_ok=True)
    new = file.with_suffix(".new")
    new.write_text(text)
    new.replace(file)
