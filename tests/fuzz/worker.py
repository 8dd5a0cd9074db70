"""The process that fuzzes with one harness: `python -m tests.fuzz.worker NAME SECONDS SEED ROUND FOLDER`.

Its last line says how many inputs it tried. If it ends in any other way, the input is in `FOLDER/NAME.input`.
`python -m tests.fuzz.worker NAME --again SEED HEX` tries one input.
"""

from __future__ import annotations

import mmap
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from tests.fuzz.codec import Batches, ProtobufTypes
from tests.fuzz.formats import Avro, Confluent, Csv, Json, Protobuf
from tests.fuzz.harness import Harness, Inputs, run
from tests.fuzz.rows import Rows

HARNESSES: dict[str, Callable[[int], Harness]] = {
    "batches": Batches,
    "json": Json,
    "csv": Csv,
    "avro": Avro,
    "protobuf": Protobuf,
    "protobuf-types": ProtobufTypes,
    "confluent": Confluent,
    "rows": Rows,
}
FIRST_BYTES = 1 << 16
"""Of a note, which grows with its input."""


class Note:
    """The input that is being tried, in a file that outlives the process."""

    def __init__(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(bytes(FIRST_BYTES))
        with file.open("r+b") as opened:
            self._memory = mmap.mmap(opened.fileno(), FIRST_BYTES)

    def tell(self, data: bytes) -> None:
        if len(data) + 4 > len(self._memory):
            self._memory.resize(2 * len(data) + 4)
        self._memory[:4] = len(data).to_bytes(4, "little")
        self._memory[4 : 4 + len(data)] = data


def noted(file: Path) -> bytes:
    """Return the input that a process tried last."""
    content = file.read_bytes()
    return content[4 : 4 + int.from_bytes(content[:4], "little")]


def main(name: str, seconds: float, seed: int, number: int, folder: Path) -> int:
    """Fuzz for a while."""
    harness = HARNESSES[name](seed)
    inputs = Inputs(folder / f"{name}-{seed}.corpus", harness.seeds())
    try:
        count, found = run(harness, inputs, seconds, f"{seed}/{number}", Note(folder / f"{name}.input").tell)
    except Exception:  # noqa: BLE001 - whatever it is, it is a finding
        traceback.print_exc()
        return 1
    inputs.save()
    sys.stdout.write(f"{name}: {count} inputs, {found} took a new way, {len(inputs.all)} kept\n")
    return 0


if __name__ == "__main__":
    if sys.argv[2] == "--again":
        HARNESSES[sys.argv[1]](int(sys.argv[3])).check(bytes.fromhex(sys.argv[4]))
        sys.exit(0)
    sys.exit(main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5])))
