"""Compute xxHash32 of a few bytes: the check of an lz4 frame header.

Runs on executors, only for messages that Kafka 0.8 or 0.9 wrote. Invariant: exact for fewer than 16 bytes;
a header has no more.
"""

from __future__ import annotations

_PRIME_1, _PRIME_2, _PRIME_3, _PRIME_4, _PRIME_5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
_MASK = 0xFFFFFFFF


def xxh32(data: bytes) -> int:
    """Return xxHash32 with seed 0 of fewer than 16 bytes."""
    if len(data) >= 16:
        raise ValueError(f"{len(data)} bytes are more than an lz4 header has")
    sum_ = _PRIME_5 + len(data)
    words = len(data) // 4 * 4
    for start in range(0, words, 4):
        word = int.from_bytes(data[start : start + 4], "little")
        sum_ = _rotate((sum_ + word * _PRIME_3) & _MASK, 17) * _PRIME_4 & _MASK
    for byte in data[words:]:
        sum_ = _rotate((sum_ + byte * _PRIME_5) & _MASK, 11) * _PRIME_1 & _MASK
    sum_ = (sum_ ^ sum_ >> 15) * _PRIME_2 & _MASK
    sum_ = (sum_ ^ sum_ >> 13) * _PRIME_3 & _MASK
    return sum_ ^ sum_ >> 16


def _rotate(word: int, bits: int) -> int:
    return (word << bits | word >> (32 - bits)) & _MASK
