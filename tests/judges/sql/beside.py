"""Outcomes on another PySpark, beside those that are kept: `python -m tests.judges.sql --beside FILE`.

Invariant: the outcomes that are kept, and the pages, do not change. FILE holds what has run, so that a run
can be continued with the same FILE.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from tests.judges.sql.corpus import MODES, SCRIPTS, Script
from tests.judges.sql.outcomes import Asked, Outcome, kept


class Beside:
    """The outcomes in one file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._found: dict[str, dict[str, list[str]]] = {mode: {} for mode in MODES}
        if file.exists():
            self._found |= json.loads(file.read_text())

    def has(self, asked: Asked) -> bool:
        """Return whether a script has run in a mode."""
        script, mode = asked
        return self._found[mode].get(script.name, [""])[0] == script.asked

    def keep(self, script: Script, mode: str, outcome: Outcome, message: str) -> None:
        """Write an outcome into the file."""
        self._found[mode][script.name] = [script.asked, outcome.value, message]
        new = self._file.with_suffix(".new")
        new.write_text(json.dumps(self._found, indent=0))
        new.replace(self._file)

    def text(self) -> str:
        """Return how many scripts have each outcome, and which have another one than is kept."""
        lines = []
        for mode in MODES:
            found = {name: each for name, each in self._found[mode].items() if name in SCRIPTS}
            counts = Counter(outcome for _, outcome, _ in found.values())
            parts = ", ".join(f"{counts[each.value]} {each.value}" for each in Outcome if counts[each.value])
            lines.append(f"{mode}: {len(found)} scripts: {parts or 'none'}")
            before = kept()[mode]
            for name, (_, outcome, message) in sorted(found.items()):
                known = before.get(name, {}).get("outcome", "not run")
                if outcome != known:
                    lines.append(f"  {name}: {outcome}, and kept is {known}: {message}")
        return "\n".join(lines) + "\n"
