"""The rows of a batch that may be among the first of their group: the others are never looked at again.

Runs on executors. Invariant: of the rows of each key that come first, none is missing. Rows that are equal in
the order stay together, because more of a row than its order decides between them.

Most of the work of an operator is to hash, compare and copy whole rows. Here only the keys and the order are
looked at.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.changelog.operators.base import check_collisions
from penstock.changelog.operators.ordering import (
    descending,
    groups_of,
    ranks_with_nulls,
    same_as_before,
    sort,
)
from penstock.state.columns import Integers, hash_columns


def candidates(
    rows: pa.Table, keys: Sequence[str], order_by: Sequence[tuple[str, bool]], count: int
) -> Integers:
    """Return the indices of the rows that may be among the first `count` of their group, ascending.

    Args:
        rows: of one batch.
        keys: the columns of the group.
        order_by: columns, and whether each is descending. Null is the lowest value.
        count: how many rows of a group are wanted.

    Raises:
        StateError: two different keys have one hash.
    """
    ranked = ranks_with_nulls(rows, [name for name, _ in order_by])
    ranked = [descending(each) if down else each for each, (_, down) in zip(ranked, order_by, strict=True)]
    groups, _ = groups_of(hash_columns(rows, keys))
    order = sort(groups, ranked)
    ordered = groups[order]
    is_same_group = same_as_before([ordered])
    # A row that is left out here meets no later comparison of keys.
    check_collisions(rows.select(list(keys)).take(pa.array(order)), keys, is_same_group)
    indices = np.arange(len(order))
    above = indices - np.maximum.accumulate(np.where(is_same_group, 0, indices))
    is_tied = same_as_before([ordered, *(each[order] for each in ranked)])
    first_tied = np.maximum.accumulate(np.where(is_tied, 0, indices))
    return np.sort(order[above[first_tied] < count])


def taken(rows: pa.Table, indices: Integers) -> pa.Table:
    """Return the rows with these indices, which ascend. All rows are not copied."""
    return rows if len(indices) == rows.num_rows else rows.take(pa.array(indices))


def joined(kept: pa.Table, new: pa.Table) -> pa.Table:
    """Return kept rows and then new ones. If there are none of one kind, nothing is copied later."""
    if not kept.num_rows:
        return new
    return kept if not new.num_rows else pa.concat_tables([kept, new])
