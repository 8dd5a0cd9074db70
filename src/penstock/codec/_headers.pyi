from collections.abc import Iterator
from typing import NamedTuple, final

class ScannedBatches(NamedTuple):
    """What the headers of a response say. `next_offset` is None when there is no whole batch."""

    next_offset: int | None
    leader_epoch: int
    """Leader epoch of the last whole batch; -1 where the format has none."""
    whole_bytes: int
    """Size of the whole batches."""

def scan_batches(data: bytes | bytearray | memoryview, topic: str, partition: int) -> ScannedBatches:
    """Walk over the batch headers of a response without the GIL; a partial batch at the end is ignored.

    Args:
        data: the records of one topic partition of a Fetch response.
        topic: where they come from, for errors.
        partition: the same.

    Raises:
        CorruptBatchError: a length, an offset or a format version cannot be right.
    """

@final
class BatchHeader:
    """What the header of one whole batch says. Old formats know no producers: -1."""

    @property
    def base_offset(self) -> int: ...
    @property
    def last_offset(self) -> int:
        """Offset of the last record that the batch had when it was written."""
    @property
    def producer_id(self) -> int: ...
    @property
    def producer_epoch(self) -> int: ...
    @property
    def base_sequence(self) -> int: ...
    @property
    def is_control(self) -> bool:
        """Whether it is a marker of a transaction and holds no data."""
    @property
    def control_type(self) -> int | None:
        """The type in a control batch's record: 0 abort, 1 commit.

        None: it is no control batch, or its record is not well-formed.
        """

@final
class BatchHeaders(Iterator[BatchHeader]):
    """The headers of the whole batches in the records of a Fetch response, in their order.

    Args:
        data: the records of one topic partition; they are held as long as this object lives.
        topic: where they come from, for errors.
        partition: the same.

    Raises:
        CorruptBatchError: in its place, when a length, an offset or a format version cannot be right.
    """

    def __init__(self, data: bytes | bytearray | memoryview, topic: str, partition: int) -> None: ...
    def __next__(self) -> BatchHeader: ...
