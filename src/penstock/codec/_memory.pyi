class Block:
    """Memory of `size` bytes, writable through the buffer protocol; its first content is undefined.

    The memory of a large block is used again after the last reference to it is gone.
    """

    @property
    def size(self) -> int: ...
    def __init__(self, size: int) -> None: ...
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

def kept_bytes() -> int:
    """Return the bytes of all free blocks that this process keeps, 32 MiB at most."""

def live_bytes() -> int:
    """Return the bytes of all blocks in use in this process, including what each has beyond its size."""
