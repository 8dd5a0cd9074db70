"""Rows that go from a group that was forgotten: they do nothing, as in Flink.

Runs on executors. Invariant: of a group that is not known, only those rows of a batch count that are there
after it. If a batch inserts and deletes a row of an unknown group, both are ignored: their order is not
known.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.changelog.row_kinds import ROW_KIND
from penstock.state.columns import Hashes, Integers, Mask, hash_values


def rows_that_count(batch: pa.Table, signs: Integers, keys: Hashes, known: Hashes) -> Mask:
    """Return the rows of a batch that change a group.

    Args:
        batch: the rows, with their kinds or without.
        signs: +1 for each row that comes, -1 for each that goes.
        keys: the hash of the group of each row.
        known: the hashes of the groups that were kept.
    """
    counts = np.ones(len(signs), bool)
    if not np.any(signs < 0):
        return counts
    at = np.flatnonzero(~keys.among(known))
    if not np.any(signs[at] < 0):
        return counts
    names = [name for name in batch.column_names if name != ROW_KIND]
    contents = hash_values(batch.select(names).take(pa.array(at)))
    order = contents.order()
    starts = contents.take(order).starts()
    net = np.add.reduceat(signs[at][order], np.flatnonzero(starts))
    # Of rows with one content, those that come are first, and as many of them count as are left.
    order = order[np.lexsort((-signs[at][order], np.cumsum(starts)))]
    firsts = np.flatnonzero(starts)
    within = np.arange(len(order)) - np.repeat(firsts, np.diff(np.append(firsts, len(order))))
    counts[at[order]] = within < np.repeat(np.maximum(net, 0), np.diff(np.append(firsts, len(order))))
    return counts
