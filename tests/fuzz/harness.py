"""What a harness is, how inputs change, and the loop that looks for new ways through the compiled code.

Runs in the processes that fuzz. Invariant: an input is bytes, and what a harness does with it depends on
these bytes and on the harness's seed alone, so a finding can be tried again.
"""

from __future__ import annotations

import ctypes
import random
import struct
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

ODD_NUMBERS = (-(2**31), -2, -1, 0, 1, 7, 127, 128, 2**15, 2**24, 2**31 - 1)
CORPUS_MAX = 4_000
INPUT_MAX = 4_096


class Harness(Protocol):
    """Checks one part of the compiled code."""

    @property
    def covers(self) -> tuple[str, ...]:
        """The files under src/penstock that it is there for."""

    def seeds(self) -> Sequence[bytes]:
        """Return the first inputs."""

    def mutated(self, chance: random.Random, data: bytes, other: bytes) -> bytes:
        """Change an input. `other` is another one."""

    def check(self, data: bytes) -> None:
        """Raise whatever, or let the process end, if the code does something wrong with an input."""


def mutated(chance: random.Random, data: bytes, other: bytes, words: Sequence[bytes] = ()) -> bytes:
    """Change an input in one to four places."""
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4))):
        _change(chance, changed, other, words)
    return bytes(changed[:INPUT_MAX])


def _change(chance: random.Random, data: bytearray, other: bytes, words: Sequence[bytes]) -> None:
    at = chance.randrange(len(data) + 1)
    kind = chance.randrange(9)
    if kind == 0 and at < len(data):
        data[at] ^= 1 << chance.randrange(8)
    elif kind == 1 and at < len(data):
        data[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
    elif kind == 2:
        data[at : at + 4] = struct.pack(chance.choice(("<i", ">i")), chance.choice(ODD_NUMBERS))
    elif kind == 3:
        del data[at : at + chance.choice((1, 1, 2, 8, 64))]
    elif kind == 4:
        del data[at:]
    elif kind == 5:
        data[at:at] = chance.randbytes(chance.randrange(1, 12))
    elif kind == 6 and other:
        start = chance.randrange(len(other))
        data[at : at + chance.choice((0, 0, 8))] = other[start : start + chance.randrange(1, 40)]
    elif kind == 7:
        data[at:at] = data[chance.randrange(len(data) + 1) :][: chance.randrange(1, 40)]
    elif words:
        data[at : at + chance.choice((0, 0, 1, 4))] = chance.choice(words)


class Inputs:
    """The inputs that took a new way, in a file from run to run."""

    def __init__(self, file: Path, first: Sequence[bytes]) -> None:
        self._file = file
        kept = file.read_text().split() if file.exists() else []
        self.all = list(dict.fromkeys([*first, *map(bytes.fromhex, kept)]))
        self.first_count = len(first)

    def add(self, data: bytes, chance: random.Random) -> None:
        """Keep an input. If there are too many, it takes the place of another."""
        if len(self.all) < CORPUS_MAX:
            self.all.append(data)
        else:
            self.all[chance.randrange(self.first_count, len(self.all))] = data

    def save(self) -> None:
        """Write the inputs for the next run."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_text("\n".join(one.hex() for one in self.all[self.first_count :]))


def new_ways() -> Callable[[], int]:
    """Return the counter of coverage.c, or one that finds nothing new if it is not loaded."""
    counter = getattr(ctypes.CDLL(None), "penstock_new_ways", None)
    if counter is None:
        return lambda: 0
    counter.restype = ctypes.c_int64
    return lambda: int(counter())


Tell = Callable[[bytes], None]
"""Gets each input before it is tried, because a sanitizer ends the process."""


def run(harness: Harness, inputs: Inputs, seconds: float, seed: str, tell: Tell) -> tuple[int, int]:
    """Try inputs for so much processor time. Return how many, and how many took a new way."""
    chance, count, found, end = random.Random(seed), 0, 0, time.process_time() + seconds
    ways = new_ways()
    for data in list(inputs.all):
        tell(data)
        harness.check(data)
        count += 1
        ways()
    while time.process_time() < end:
        data = harness.mutated(chance, chance.choice(inputs.all), chance.choice(inputs.all))
        tell(data)
        harness.check(data)
        count += 1
        if ways():
            inputs.add(data, chance)
            found += 1
    return count, found
