from collections.abc import Iterator
from typing import NamedTuple, final

class ScannedBatches(NamedTuple):
    """A summary of the headers of a response. `next_offset` is None when there is no whole batch."""

    next_offset: int | None
    leader_epoch: int
    """Leader epoch of the last whole batch; -1 where the format has none."""
    whole_bytes: int
    """Size of the whole batches."""

def scan_batches(data: bytes | bytearray | memoryview, topic: str, partition: int) -> ScannedBatches:
    """Walk over the batch headers of a response without the GIL; a partial batch at the end is ignored.

    Args:
        data: the records of one topic partition of a Fetch response.
        topic: of the records, for errors.
        partition: of the records, for errors.

    Raises:
        CorruptBatchError: a length, an offset or a format version cannot be right.
    """

@final
class BatchHeader:
    """The header of one whole batch. Old formats have no producer fields: -1."""

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
        """Return whether the batch is a marker of a transaction and holds no data."""
    @property
    def control_type(self) -> int | None:
        """Return the type in a control batch's record: 0 abort, 1 commit.

        None: the batch is not a control batch, or its record is not well-formed.
        """

@final
class BatchHeaders(Iterator[BatchHeader]):
    """The headers of the whole batches in the records of a Fetch response, in their order.

    Args:
        data: the records of one topic partition; this object keeps a reference to them.
        topic: of the records, for errors.
        partition: of the records, for errors.

    Raises:
        CorruptBatchError: after the good batches, when a length, an offset or a format version is invalid.
    """

    def __init__(self, data: bytes | bytearray | memoryview, topic: str, partition: int) -> None: ...
    def __next__(self) -> BatchHeader: ...
