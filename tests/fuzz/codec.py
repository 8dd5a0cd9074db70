"""Harnesses of record batches, and of Protobuf's plans. tests/parity has what they check.

Runs in the processes that fuzz.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence
from pathlib import Path

import cramjam

from tests.fuzz.harness import mutated
from tests.parity import codec_fuzz, protobuf_fuzz

RECORDED = Path(__file__).parents[1] / "data" / "batches.txt"
"""Batches as Java's client and a broker wrote them, one a line."""


class Batches:
    """The decoder of record batches, the reader of their headers, and the encoder."""

    covers = (
        *(
            "codec/_decode.pyx",
            "codec/_headers.pyx",
            "codec/_rows.pyx",
            "codec/_columns.pyx",
            "codec/_memory.pyx",
        ),
        *("codec/_encode.pyx", "codec/_record_columns.pyx", "codec/native/crc32c.c"),
    )

    def __init__(self, seed: int) -> None:
        self._made = codec_fuzz.Fuzz(seed)

    def seeds(self) -> Sequence[bytes]:
        recorded = RECORDED.read_text().split() if RECORDED.exists() else []
        return [*self._made.seeds, *map(bytes.fromhex, recorded)]

    def mutated(self, chance: random.Random, data: bytes, other: bytes) -> bytes:
        """Change what is below the compression, or any byte. Now and then put another batch behind it."""
        self._made.chance = chance
        try:
            changed = self._made._mutated(data)
        except (cramjam.DecompressionError, LookupError):  # an input that is damaged already
            changed = mutated(chance, data, other)
        return changed + other if chance.random() < 0.1 and len(changed + other) < 20_000 else changed

    def check(self, data: bytes) -> None:
        self._made.chance = random.Random(zlib.crc32(data))
        self._made._check_headers(data)
        message = self._made._decode(data)
        assert message is None or "t-3" in message, f"an error that does not say where: {message}"
        if self._made.chance.random() < 0.05:
            self._made.round_trip()


class ProtobufTypes:
    """Random message types, values and rows, each beside Google's package."""

    covers = ("formats/native/protobuf_decode.c", "formats/native/protobuf_encode.c")

    def __init__(self, seed: int) -> None:
        del seed

    def seeds(self) -> Sequence[bytes]:
        return (b"1",)

    def mutated(self, chance: random.Random, data: bytes, other: bytes) -> bytes:
        del data, other
        return chance.randbytes(8)

    def check(self, data: bytes) -> None:
        protobuf_fuzz.Fuzz(int.from_bytes(data, "big")).run_once()
