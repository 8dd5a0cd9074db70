"""Seals: they say which runs have written the versions of before, so that old claims can be deleted.

    runs/seal-<epoch, 16 digits>-<random, 8 digits>.json

Each run of a query adds a claim to the folder `runs` (`lineage.py`). A run that finds many writes a seal: the
versions before its first batch, each with the run that has committed it. A run after that deletes the older
claims. It is another run, because a task that lists the folder while files are deleted must already see the
seal.

Runs on executors, and in `penstock state`. Invariant: a seal never changes, and all that it says was true
before its run began. So of several seals any of the newest run will do.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.state.files import Files
from penstock.state.identity import FORMAT, other_format
from penstock.state.manifest import checked_line, line_with_checksum

SEAL_NAME = re.compile(r"seal-([0-9a-f]{16})-([0-9a-f]{8})\.json")


@dataclass(frozen=True)
class Seal:
    """What a run found when it began.

    Attributes:
        epoch: of the run.
        run_hash: of the run.
        first_batch: of the run. It says nothing of this batch and later ones.
        runs: each version before it with the hash of the run that has committed it.
    """

    epoch: int
    run_hash: str
    first_batch: int
    runs: frozenset[tuple[int, str]]

    def refuses(self, version: int, epoch: int, run_hash: str) -> bool:
        """Return whether a run before this one has written a version and not committed it."""
        is_before = version < self.first_batch and epoch < self.epoch
        return is_before and (version, run_hash) not in self.runs

    def to_json(self) -> bytes:
        """Return the contents of the file: one line, and one for its checksum."""
        read = {
            "format": FORMAT,
            "epoch": self.epoch,
            "run_hash": self.run_hash,
            "first_batch": self.first_batch,
            "runs": sorted(self.runs),
        }
        return line_with_checksum(read)


def parse_seal(contents: bytes, where: str) -> Seal:
    """Return the seal in a file.

    Raises:
        StateError: the file is damaged, or of a newer version of penstock.
    """
    read = json.loads(checked_line(contents, "file", where))
    if read["format"] != FORMAT:
        raise other_format(where, read["format"])
    runs = frozenset((int(version), str(run_hash)) for version, run_hash in read["runs"])
    return Seal(read["epoch"], read["run_hash"], read["first_batch"], runs)


def newest_seal(files: Files, folder: str, names: Iterable[str]) -> Seal | None:
    """Return the seal of the newest run among the files of a folder; None without one.

    Raises:
        FileNotFoundError: a newer run has deleted it in the meantime.
        StateError: it is damaged.
    """
    name = max((name for name in names if SEAL_NAME.fullmatch(name)), default=None)
    if name is None:
        return None
    path = f"{folder}/{name}"
    return parse_seal(files.read(path).to_pybytes(), f"{files.root}/{path}")


def write_seal(files: Files, folder: str, seal: Seal) -> None:
    """Write a seal. Several tasks of a run may do it at once."""
    with files.create(f"{folder}/seal-{seal.epoch:016x}-{uuid.uuid4().hex[:8]}.json") as sink:
        sink.write(seal.to_json())
