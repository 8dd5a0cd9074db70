"""The manifest of one version of one partition: it names the runs, oldest first.

Runs on executors, and in `penstock state`. Invariant: a version exists if and only if a complete manifest
names it; a manifest that its checksum does not confirm is an error and never ignored, because to ignore it
would be to go back in time.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass

from penstock.errors import StateError
from penstock.state.files import TEMPORARY, Files
from penstock.state.identity import FORMAT, other_format
from penstock.state.run import RunFile

_NAME = re.compile(r"(\d+)-([0-9a-f]+)\.(json|arrow)(?P<rest>.*)")


@dataclass(frozen=True)
class InputDigest:
    """The number of rows that a batch gave to a partition, and the sums of their hashes, in any order."""

    row_count: int = 0
    high_sum: int = 0
    low_sum: int = 0


@dataclass(frozen=True)
class Manifest:
    """One version of one partition, or the mark of one batch, which has no runs.

    Attributes:
        version: Spark's batch id.
        query_id: of Spark's streaming query.
        run_id: of one run of the query, from its start to its stop.
        identity: the fingerprint of the state's identity.
        input: what the batch gave to this partition.
        runs: oldest first.
        epoch: of the run of the query; later runs have higher ones.
        plan_id: of the DataFrame that the operator was called with.
    """

    version: int
    query_id: str
    run_id: str
    identity: str
    input: InputDigest
    runs: tuple[RunFile, ...]
    epoch: int = 0
    plan_id: str = ""

    def to_json(self) -> bytes:
        """Return the contents of the file: one line for the manifest, one for its checksum."""
        return line_with_checksum({"format": FORMAT, **asdict(self)})


@dataclass(frozen=True)
class FileName:
    """A file of a partition: its version, and whether it is a complete manifest."""

    name: str
    version: int
    is_manifest: bool
    attempt: str = ""


def parse_name(name: str) -> FileName | None:
    """Return what a name says; None for a file that the state did not write."""
    found = _NAME.fullmatch(name)
    if found is None or not (found["rest"] == "" or found["rest"].startswith(TEMPORARY)):
        return None
    is_manifest = not found["rest"] and found[3] == "json"
    return FileName(name, int(found[1]), is_manifest, found[2])


def list_files(files: Files, folder: str) -> list[FileName]:
    return [parsed for name in files.names(folder) if (parsed := parse_name(name)) is not None]


def line_with_checksum(read: object) -> bytes:
    """Return a value as the contents of a file: one line of JSON, and one for its checksum."""
    line = json.dumps(read).encode()
    return b"%s\n%08x\n" % (line, zlib.crc32(line))


def checked_line(contents: bytes, what: str, where: str) -> bytes:
    """Return the line of JSON in a file. Raises StateError if the line does not match its checksum."""
    line, _, checksum = contents.partition(b"\n")
    if checksum != b"%08x\n" % zlib.crc32(line):
        raise StateError(
            f"The state is damaged: the {what} {where} does not match its checksum. Nothing was written. "
            "Restore the folder together with the checkpoint of the same time.",
            path=where,
        )
    return line


def parse_manifest(contents: bytes, where: str) -> Manifest:
    """Return the manifest in a file.

    Raises:
        StateError: the file is damaged, or of a newer version of penstock.
    """
    read = json.loads(checked_line(contents, "manifest", where))
    if (form := read.pop("format")) != FORMAT:
        raise other_format(f"The manifest {where}", form)
    runs = tuple(RunFile(**run) for run in read.pop("runs"))
    return Manifest(**{**read, "input": InputDigest(**read["input"])}, runs=runs)


def read_manifest(files: Files, folder: str, name: str) -> Manifest | None:
    """Return a manifest; None if it was deleted in the meantime.

    Raises:
        StateError: the file is damaged, or of another batch than its name says, or of a newer penstock.
    """
    path = f"{folder}/{name}"
    try:
        contents = files.read(path)
    except FileNotFoundError:
        return None
    manifest = parse_manifest(contents.to_pybytes(), f"{files.root}/{path}")
    if not name.startswith(f"{manifest.version}-"):
        raise StateError(
            f"The state is damaged: the manifest {files.root}/{path} is of batch {manifest.version}. Nothing "
            "was written. Restore the folder together with the checkpoint of the same time.",
            path=f"{files.root}/{path}",
        )
    return manifest


def one_with_runs(found: Sequence[Manifest], names: Collection[str]) -> Manifest:
    """Return one of several manifests of a version whose runs are all among the names of files.

    Attempts with the same input wrote the same state. An attempt that was believed dead may have written its
    manifest after the runs that it names were merged and deleted; then another attempt has its runs. If none
    has them, return the last one, which cannot be opened.
    """
    complete = (each for each in found if all(run.name in names for run in each.runs))
    return next(complete, found[-1])


def write_manifest(files: Files, folder: str, name: str, manifest: Manifest) -> None:
    """Write a manifest. From here on the version exists."""
    with files.create(f"{folder}/{name}") as sink:
        sink.write(manifest.to_json())
