import pyarrow as pa

def murmur2_partitions(keys: pa.Array, partition_count: int) -> pa.Int32Array:
    """Return the partition that Java's default partitioner gives each key; -1 where the key is null."""

def group_rows(group_of_row: pa.Int32Array, group_count: int) -> list[pa.Int32Array]:
    """Return the row indices of each group, in order. Every row must name a group in `[0, group_count)`."""
