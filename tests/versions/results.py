"""What came of the cases on each PySpark: tests/data/versions.json, and the table of docs/spark-versions.md.

Invariant: the page holds the table between two comments, and each whole run writes it.
`python -m tests.versions.results` writes the table alone.
"""

from __future__ import annotations

import datetime
import json
import subprocess
from pathlib import Path
from typing import NamedTuple

from tests.versions.environments import ROOT
from tests.versions.run import Found

FILE = ROOT / "tests" / "data" / "versions.json"
PAGE = ROOT / "docs" / "spark-versions.md"
BEGIN, END = "<!-- cases: python -m tests.versions -->\n", "<!-- end of cases -->\n"
_HEAD = "| PySpark | kind | Kafka | Python | cases right | date | commit |\n|---|---|---|---|---|---|---|\n"


class Key(NamedTuple):
    """Where the cases ran."""

    pyspark: str
    kind: str
    kafka: str


def keep(key: Key, found: Found, python: Path) -> None:
    """Write what came of a whole run into the file and the page."""
    lines = json.loads(FILE.read_text()) if FILE.exists() else {}
    version = _output(str(python), "-c", "import platform; print(platform.python_version())")
    lines[" ".join((*key, version.rpartition(".")[0]))] = {
        **key._asdict(),
        "python": version,
        "right": found.right,
        "of": found.right + len(found.wrong),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": _output("git", "-C", str(ROOT), "rev-parse", "--short=7", "HEAD"),
    }
    FILE.write_text(json.dumps(dict(sorted(lines.items())), indent=1) + "\n")
    write()


def write() -> None:
    """Write the table into the page."""
    PAGE.write_text(page())


def page() -> str:
    """Return the page with the table of the file."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    assert end, f"{PAGE} has no room for the table: {BEGIN}{END}"
    return f"{before}{BEGIN}{_table()}{END}{after}"


def _table() -> str:
    lines = json.loads(FILE.read_text()).values()
    return _HEAD + "".join(
        f"| {each['pyspark']} | {each['kind']} | {each['kafka']} | {each['python']} "
        f"| {each['right']} of {each['of']} | {each['date']} | {each['commit']} |\n"
        for each in lines
    )


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    write()
