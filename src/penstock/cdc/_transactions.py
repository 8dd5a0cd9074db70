"""The transactions in the messages that a task has of one topic partition.

Runs on executors. Invariants: an exchange that these messages show is found here. Of their first and last
transaction, which may have more messages in other tasks and batches, the events are given to the driver. The
source of a message is read only there, and for the rows of a key that look like an exchange.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.cdc._exchanged import EVENTS, Events, ExchangeError, events_in, left_of, of_keys, offset_of_end
from penstock.cdc._messages import Changes
from penstock.cdc._old_rows import OldRows, has_two_values
from penstock.cdc._sources import Asked
from penstock.cdc.messages import MessageFormat
from penstock.changelog.row_kinds import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, kinds_of
from penstock.state.columns import hash_columns, hash_values

Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Transactions:
    """The transactions of the messages of one topic partition in one task.

    Attributes:
        format: of the messages.
        values: of the records.
        offsets: of the records.
        changes: the rows of the messages. None of their keys is null.
        keys: the primary key.
    """

    format: MessageFormat
    values: pa.Array
    offsets: Integers
    changes: Changes
    keys: Sequence[str]

    def check(self) -> None:
        """Raise ExchangeError if the last change of a key deletes a row that lives."""
        rows = self._rows_like_an_exchange()
        if not len(rows):
            return
        for _, of_key in of_keys(self._events(rows)):
            of_newest = of_key[of_key["transaction"] == of_key["transaction"][-1]]
            left = left_of([], events_in(of_newest))
            if left.has_ended and left.rows:
                raise ExchangeError(offset_of_end(of_key))

    def edges(self) -> Events:
        """Return the events of the first and of the last transaction, if they are known; see `EVENTS`."""
        if not len(self._messages):
            return np.empty(0, EVENTS)
        first, last = (self._sources.length(each) for each in (self._messages, self._messages[::-1]))
        if not first and not last:
            return np.empty(0, EVENTS)
        index = self._index
        stop = int(np.searchsorted(index, self._messages[first - 1], "right")) if first else 0
        start = int(np.searchsorted(index, self._messages[-last], "left")) if last else len(index)
        rows = np.concatenate([np.arange(stop), np.arange(max(stop, start), len(index))])
        return self._events(rows, stop)

    @cached_property
    def _index(self) -> npt.NDArray[np.int32]:
        found: npt.NDArray[np.int32] = self.changes.index.to_numpy(zero_copy_only=False)
        return found

    @cached_property
    def _messages(self) -> npt.NDArray[np.int32]:
        """The messages that have rows, ascending."""
        return np.unique(self._index)

    @cached_property
    def _kinds(self) -> npt.NDArray[np.int8]:
        return kinds_of(self.changes.kinds)

    @cached_property
    def _hashes(self) -> npt.NDArray[np.uint64]:
        return hash_columns(pa.Table.from_batches([self.changes.rows]), self.keys).high

    @cached_property
    def _sources(self) -> Asked:
        return Asked(self.format, self.values)

    def _rows_like_an_exchange(self) -> Integers:
        """Return the rows of keys that end, and perhaps not with the end of their newest row."""
        is_end, is_new = self._kinds == DELETE, np.isin(self._kinds, [INSERT, UPDATE_AFTER])
        if not is_end.any() or not is_new.any():
            return np.empty(0, np.int64)
        hashes = self._hashes
        order = np.argsort(hashes, kind="stable")
        starts = np.flatnonzero(np.append(True, hashes[order][1:] != hashes[order][:-1]))
        counts = np.diff(np.append(starts, len(order)))
        ends = np.repeat(is_end[order[starts + counts - 1]], counts)
        follows = np.ones(len(order), np.bool_)
        follows[starts] = False
        before, after = order[np.flatnonzero(follows & ends) - 1], order[np.flatnonzero(follows & ends)]
        is_pair = is_new[before] & (self._kinds[after] != UPDATE_AFTER)
        before, after = before[is_pair], after[is_pair]
        if not len(after):
            return np.empty(0, np.int64)
        is_again = self._kinds[after] == INSERT
        rows, places = self._compared(np.concatenate([before, after])), np.arange(len(after))
        of_rows = _hashed(rows)
        differs = of_rows[: len(before)] != of_rows[len(before) :]
        is_like = is_again | (differs & self._old_rows.is_whole(rows, places + len(before), places))
        return np.flatnonzero(np.isin(hashes, hashes[after[is_like]]))

    def _compared(self, rows: Integers) -> pa.Table:
        """Return all that tells rows of one key apart."""
        taken = pa.array(rows)
        batch, index = self.changes.rows.take(taken), self.changes.index.take(taken)
        chosen = Changes(batch, self.changes.kinds.take(taken), index)
        found = pa.Table.from_batches([self.format.compared(chosen, self.values)])
        return found.drop_columns(list(self.keys))

    def _is_whole(self, rows: Integers, compared: pa.Table) -> Mask:
        """Return which rows are old ones that the database has sent; see `OldRows`."""
        is_old, found = np.isin(self._kinds[rows], [DELETE, UPDATE_BEFORE]), np.zeros(len(rows), np.bool_)
        if is_old.any():
            hashes = self._hashes[rows]
            order = np.argsort(hashes, kind="stable")
            before = np.full(len(rows), -1)
            is_same = hashes[order][1:] == hashes[order][:-1]
            before[order[1:][is_same]] = order[:-1][is_same]
            found[is_old] = self._old_rows.is_whole(compared, np.flatnonzero(is_old), before[is_old])
        return found

    @cached_property
    def _old_rows(self) -> OldRows:
        rows, kinds, index = self.changes.rows.drop_columns(list(self.keys)), self._kinds, self._index
        has_old = np.isin(index, index[kinds == UPDATE_BEFORE])
        return OldRows(
            are_sent=bool((kinds == UPDATE_BEFORE).any())
            or has_two_values(rows.filter(pa.array(kinds == DELETE))),
            are_left_out=bool(((kinds == UPDATE_AFTER) & ~has_old).any()),
            with_defaults=self.format.with_defaults(self.values[int(self._messages[-1])].as_py()),
            rest=self.format.rest,
        )

    def _events(self, rows: Integers, first_count: int | None = None) -> Events:
        """Return the events of rows whose transaction is known.

        Args:
            rows: in their order.
            first_count: how many of them are of the first transaction; None if that does not matter.
        """
        messages = self._index[rows]
        sources = self._sources.of(messages)
        kinds, compared = self._kinds[rows], self._compared(rows)
        is_last = np.ones(len(rows), np.bool_)
        if first_count and (kinds[:first_count] == DELETE).any():
            is_last[:first_count] = ~np.isin(self._hashes[:first_count], self._hashes[first_count:])
        found = np.empty(len(rows), EVENTS)
        found["transaction"], found["position"] = sources.transactions, sources.positions
        found["key"], found["row"], found["kind"] = self._hashes[rows], _hashed(compared), kinds
        found["is_whole"], found["is_last"] = self._is_whole(rows, compared), is_last
        found["offset"] = self.offsets[messages]
        return found[sources.is_known]


def _hashed(rows: pa.Table) -> npt.NDArray[np.uint64]:
    return hash_values(rows).high if rows.num_columns else np.zeros(rows.num_rows, np.uint64)
