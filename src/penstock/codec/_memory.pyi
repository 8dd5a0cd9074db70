class Block:
    """Memory of `size` bytes, writable through the buffer protocol; what stands in it at first is undefined.

    Large ones are used again once nothing refers to them any more.
    """

    @property
    def size(self) -> int: ...
    def __init__(self, size: int) -> None: ...
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

def kept_bytes() -> int:
    """Bytes of all blocks that are kept free in this process, 32 MiB at most."""

def live_bytes() -> int:
    """Bytes of all blocks in use in this process, with what each has beyond its size."""
