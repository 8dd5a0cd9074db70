"""Read and write DER: the parts of certificates and key stores that no library of Python's own shows.

Pure. Invariant: each step of a reader consumes bytes, so that any input ends in bounded time.
"""

from __future__ import annotations

from collections.abc import Iterator

SEQUENCE, SET, INTEGER, OCTETS, OID, EXPLICIT_0 = 0x30, 0x31, 0x02, 0x04, 0x06, 0xA0


class DerError(ValueError):
    """The bytes are not the DER that they should be."""


class DerReader:
    """The elements of one DER value, in order."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    @property
    def is_at_end(self) -> bool:
        return self._position >= len(self._data)

    def next_tag(self) -> int | None:
        return None if self.is_at_end else self._data[self._position]

    def any(self) -> tuple[int, bytes]:
        """Return tag and content of the next element."""
        data, position = self._data, self._position
        if position + 2 > len(data):
            raise DerError("ends too early")
        tag, length = data[position], data[position + 1]
        position += 2
        if length & 0x80:
            size = length & 0x7F
            if not 1 <= size <= 4:
                raise DerError("has a length that is not DER")
            length = int.from_bytes(data[position : position + size], "big")
            position += size
        end = position + length
        if end > len(data):
            raise DerError("ends too early")
        self._position = end
        return tag, data[position:end]

    def take(self, wanted: int) -> bytes:
        """Return the content of the next element, which has this tag."""
        tag, content = self.any()
        if tag != wanted:
            raise DerError("has another structure")
        return content

    def each(self, wanted: int) -> Iterator[bytes]:
        """Return the contents of all elements that are left; each has this tag."""
        while not self.is_at_end:
            yield self.take(wanted)


def der_of(tag: int, *contents: bytes) -> bytes:
    """Return an element with these contents, one after the other."""
    content = b"".join(contents)
    length = len(content)
    if length < 0x80:
        return bytes([tag, length]) + content
    size = (length.bit_length() + 7) // 8
    return bytes([tag, 0x80 | size]) + length.to_bytes(size, "big") + content
