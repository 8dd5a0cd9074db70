"""What the releases have recorded: `tests/compat/<version>/`.

Invariant: nothing there changes after the release.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

HERE = Path(__file__).parent
RELEASES = sorted(
    (path.name for path in HERE.iterdir() if path.name[0].isdigit()),
    key=lambda name: tuple(map(int, name.split("."))),
)
NEWEST = RELEASES[-1]
HOW = (
    "What outlives a process has another form now than {} has recorded. A later version must read both. So "
    "give the new form a number of its own, and keep reading the old one. Then record the new form for "
    "the version that brings it: python -m tests.compat.record VERSION"
)
"""What a developer has to do if a form has changed."""
_RANDOM = re.compile(r"[0-9a-f]{8,}|\d+")
_TEXTS = {".json", ""}


def recorded(release: str, name: str) -> Any:
    """Return the contents of a JSON file of a release."""
    return json.loads((HERE / release / name).read_text())


def pack(folder: Path, file: Path) -> None:
    """Put all files of a folder into one. Spark's checksums and unfinished files stay out."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        for each in sorted(folder.rglob("*")):
            if each.is_file() and not each.name.startswith("."):
                packed.write(each, each.relative_to(folder))


def unpack(release: str, name: str, folder: Path) -> Path:
    """Return a folder with the files that a release has packed."""
    with zipfile.ZipFile(HERE / release / name) as packed:
        packed.extractall(folder)
    return folder


def layout(folder: Path) -> list[str]:
    """Return the form of each kind of file in a folder: its name without numbers, and its fields."""
    return sorted({form for file in folder.rglob("*") if file.is_file() for form in _forms(folder, file)})


def _forms(folder: Path, file: Path) -> Iterator[str]:
    name = _RANDOM.sub("N", str(file.relative_to(folder)))
    if file.suffix == ".arrow":
        with pa.OSFile(str(file)) as opened:
            yield f"{name}: {pa.ipc.open_file(opened).schema.remove_metadata()}"
        return
    if file.suffix not in _TEXTS or not file.stat().st_size:
        yield name
        return
    for line in file.read_text().splitlines() if file.suffix == "" else [_json_of(file.read_text())]:
        yield f"{name}: {_fields(line)}"


def _json_of(text: str) -> str:
    """Return the JSON of a file. A checksum may stand in a line behind it."""
    first, _, rest = text.partition("\n")
    return first if re.fullmatch(r"[0-9a-f]{8}\n", rest) else text


def _fields(text: str) -> str:
    """Return the names of the fields of an object, with the number of its format."""
    found = json.loads(text)
    number = "format" if "format" in found else "version"  # of a state, `version` is a batch
    return " ".join(f"{name}={found[name]}" if name == number else name for name in sorted(found))
