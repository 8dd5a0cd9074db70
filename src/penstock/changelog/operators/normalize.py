"""`normalize`: make a correct changelog of upserts and deletes that may come twice, late or out of order.

Runs on executors; made on the driver. Invariants: for each key the output is +I, then any number of (-U, +U),
then perhaps -D, and so on again; each -U and -D is the row that was emitted before it, column by column.

It keeps, for each key: the row that it emitted last, the highest sort key (values of `order_by`) that it has
seen, whether the key is deleted, and a hash of the row that had the key before, if two rows exchange their
keys (`_moved.py`).
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.changelog.operators._moved import (
    FREE,
    INSERTED,
    KeyRows,
    Signs,
    ends_again,
    hash_of_kept,
    is_gone,
    moved_rows,
)
from penstock.changelog.operators.base import Find, Step, check_collisions, check_not_null, with_nullable
from penstock.changelog.operators.ordering import groups_of, groups_of_kept, ranks, same_as_before, sort
from penstock.changelog.row_kinds import (
    DELETE,
    INSERT,
    ROW_KIND,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    has_row_kind,
    kind_column,
    kinds_of,
)
from penstock.errors import RowError
from penstock.state.columns import (
    DELETED,
    Hashes,
    Integers,
    Mask,
    equal_columns,
    equal_to_before,
    hash_columns,
    keys_of,
    mask_of,
    one_array,
    state_rows,
)
from penstock.state.identity import NORMALIZE_FOLLOWS

_SEEN = "#seen "
"""Before the name of a column of `order_by`: its value in the highest sort key that was seen."""


@dataclass(frozen=True)
class Normalize:
    """The operator. docs/changelog-functions.md says what it does with each kind of row.

    Attributes:
        columns: of the input, without `row_kind`.
        keys: the primary key.
        order_by: says which of two rows of a key is newer. Never null, and different for different rows.
        collapse: whether a batch gives at most one change of each key.
        source: a column that is equal in all rows of a key, because `order_by` compares only such rows.
        emit_equal: whether a row that is equal to the one before gives -U and +U.
        version: 1, or 2 for columns that may change: a state of version 2 goes on with more columns and with
            wider ones, and an absent value is the same as null.
    """

    columns: pa.Schema
    keys: tuple[str, ...]
    order_by: tuple[str, ...]
    collapse: bool = False
    source: str | None = None
    emit_equal: bool = False
    name: str = "normalize"
    version: int = 1
    has_parts: bool = False
    remembers_deleted: bool = True

    @property
    def follows(self) -> bool:
        """Return whether the columns may change from batch to batch."""
        return self.version >= NORMALIZE_FOLLOWS

    @property
    def arguments(self) -> str:
        given = {"keys": self.keys, "order_by": self.order_by}
        return json.dumps(given if self.source is None else {**given, "source": self.source})

    @property
    def kept_columns(self) -> pa.Schema:
        seen = (self.columns.field(name).with_name(_SEEN + name) for name in self.order_by)
        return pa.schema([field.with_nullable(True) for field in (*self.columns, *seen)])

    @property
    def out_columns(self) -> pa.Schema:
        return self.columns.append(pa.field(ROW_KIND, pa.string(), nullable=False))

    def step(self, batch: pa.Table, find: Find, now_ms: int) -> Step:
        """Return the changes of one batch and the rows to keep."""
        check_not_null(batch, self.order_by, "in order_by")
        chains = self._chains(batch, find)
        content = self._content()
        before = np.arange(-1, len(chains.groups) - 1)
        before[:1] = 0
        equal = equal_to_before(chains.rows, content)
        is_new_group = ~same_as_before([chains.groups])
        was_alive = ~is_new_group & ~chains.deleted[before]
        arrived = ~chains.is_old
        inserted = arrived & ~chains.deleted & ~was_alive
        updated = arrived & ~chains.deleted & was_alive & ~equal
        removed = arrived & chains.deleted & was_alive
        # The row that downstream has: a row equal to it was not emitted.
        unchanged = arrived & ~chains.deleted & was_alive & equal
        if self.emit_equal:
            updated, unchanged = updated | unchanged, np.zeros(len(unchanged), bool)
        emitted = np.maximum.accumulate(np.where(unchanged, 0, np.arange(len(unchanged))))
        out = self._out(chains, emitted, inserted, updated, removed)
        return Step(out, self._kept(chains, emitted, now_ms))

    def _chains(self, batch: pa.Table, find: Find) -> _Chains:
        """Return for each key the row that was kept, followed by its newer rows of the batch, in order."""
        changes = self._changes(batch)
        rows, deleted, is_before = changes.rows, changes.deleted, changes.is_before
        new_groups, group_keys = groups_of(hash_columns(rows, self.keys))
        old = find(group_keys)
        seen = old.select([_SEEN + name for name in self.order_by]).rename_columns(list(self.order_by))
        sort_keys = pa.concat_tables([seen, rows.select(list(self.order_by))])
        groups = np.concatenate([groups_of_kept(keys_of(old), group_keys), new_groups])
        if self.source is not None:
            self._check_source(
                pa.concat_tables([old.select([self.source]), rows.select([self.source])]), groups
            )
        ranked = ranks(sort_keys, self.order_by)
        is_old = np.zeros(len(groups), bool)
        is_old[: old.num_rows] = True
        # A row with the sort key of the row that was kept comes before it, and is dropped with what is older.
        order = sort(groups, ranked, is_old)
        none = np.zeros(old.num_rows, np.int8)
        replaced = hash_of_kept(old, len(groups))
        chains = _Chains(
            pa.concat_tables([old.select(self.columns.names), rows]).take(pa.array(order)),
            sort_keys.take(pa.array(order)),
            group_keys,
            groups[order],
            is_old[order],
            np.concatenate([mask_of(old.column(DELETED)), deleted])[order],
            np.concatenate([np.zeros(old.num_rows, bool), is_before])[order],
            np.concatenate([none, changes.taking])[order],
            replaced.take(order),
        )
        unpaired = np.zeros(len(group_keys), np.int64)
        if changes.unpaired.any():
            np.add.at(unpaired, new_groups, changes.unpaired)
        check_collisions(chains.rows, self.keys, same_as_before([chains.groups]))
        # A source may repeat a record: such a -U was applied already.
        new = self._not_ended_again(chains)
        if not new.all():
            order, chains = order[new], chains.take(np.flatnonzero(new))
        repeated = same_as_before([chains.groups, *(ranked_column[order] for ranked_column in ranked)])
        # Checked before rows are dropped: a dropped row may be the one that shows the mistake.
        self._check_ties(chains, repeated)
        self._check_pairs(chains, repeated, unpaired)
        old_index = np.full(len(group_keys), -1, np.int64)
        old_index[chains.groups[chains.is_old]] = np.flatnonzero(chains.is_old)
        # Rows before the kept one are late. Of rows with one sort key, which are equal, one is enough.
        is_newer = np.arange(len(order)) >= old_index[chains.groups]
        counts = is_newer & (chains.is_old | ~repeated)
        chains = chains if counts.all() else chains.take(np.flatnonzero(counts))
        chains = self._without_moved_rows(chains)
        return chains.ends() if self.collapse else chains

    def _not_ended_again(self, chains: _Chains) -> Mask:
        """Return False for each -U that comes again, after it ended a row with the sort key that was kept."""
        new = np.ones(len(chains.groups), bool)
        gone = chains.is_old & is_gone(chains.replaced)
        if not (gone.any() and chains.is_before.any()):
            return new
        old = np.full(len(chains.keys), -1, np.int64)
        old[chains.groups[gone]] = np.flatnonzero(gone)
        asked = np.flatnonzero(chains.is_before & (old[chains.groups] >= 0))
        kept = old[chains.groups[asked]]
        here, before = (chains.sort_keys.take(pa.array(each)) for each in (asked, kept))
        content = chains.rows.select(self._content()).take(pa.array(asked))
        is_same = equal_columns(here, before, self.order_by)
        new[asked] = ~(is_same & ends_again(content, chains.replaced.take(kept), by_name=self.follows))
        return new

    def _without_moved_rows(self, chains: _Chains) -> _Chains:
        """Return the chains without the -D and -U of rows that were replaced; see `_moved.py`.

        A -U that ends one becomes the row that is there, with its own sort key. It changes nothing, and the
        state learns that the other row is gone.
        """
        found = moved_rows(
            KeyRows(
                chains.rows.select(self._content()),
                chains.groups,
                chains.is_old,
                chains.deleted,
                chains.is_before,
                chains.taking,
                chains.replaced,
                self.follows,
            )
        )
        if found is None:
            return chains
        ends = found.stays != np.arange(len(found.stays))
        if ends.any():
            chains = dataclasses.replace(
                chains,
                rows=chains.rows.take(pa.array(found.stays)),
                deleted=chains.deleted & ~ends,
                is_before=chains.is_before & ~ends,
            )
        chains = dataclasses.replace(chains, replaced=found.replaced)
        return chains.take(np.flatnonzero(~found.is_dropped)) if found.is_dropped.any() else chains

    def _changes(self, batch: pa.Table) -> _Changes:
        """Return the rows that say what a key is now.

        A -U says nothing if another row of its key has the same sort key. Otherwise the update has changed
        the key: the +U has the new one, and the old one is deleted.
        """
        rows = batch.select(self.columns.names).cast(self.columns)
        rows = rows.cast(with_nullable(self.columns))
        if not has_row_kind(batch.column_names):
            none = np.zeros(batch.num_rows, bool)
            return _Changes(rows, none, none, none.astype(np.int64), none.astype(np.int8))
        kinds = kinds_of(one_array(batch.column(ROW_KIND)))
        is_before = kinds == UPDATE_BEFORE
        is_change = ~is_before
        unpaired = -(kinds == UPDATE_AFTER).astype(np.int64)
        if is_before.any():
            groups, _ = groups_of(hash_columns(rows, self.keys))
            ranked = ranks(rows, self.order_by)
            order = sort(groups, ranked, is_before)
            firsts = np.flatnonzero(~same_as_before([groups[order], *(column[order] for column in ranked)]))
            # The first row of each key and sort key is a -U only if all of them are.
            sizes = np.diff(np.append(firsts, len(order)))
            is_change[order] |= np.repeat(is_before[order][firsts], sizes)
            # Each -U that says nothing counts at the first row of its key and sort key, which stays.
            says_nothing = (is_before & ~is_change)[order].astype(np.int64)
            is_there = kinds[order][firsts] != DELETE
            unpaired[order[firsts]] += np.add.reduceat(says_nothing, firsts) * is_there
        is_delete = is_before | (kinds == DELETE)
        # A +U without its -U has taken the key, as a +I has.
        taking = np.where((kinds == UPDATE_AFTER) & (unpaired < 0), FREE, 0)
        taking = np.where(kinds == INSERT, INSERTED, taking).astype(np.int8)
        return _Changes(
            rows.filter(pa.array(is_change)),
            is_delete[is_change],
            is_before[is_change],
            unpaired[is_change],
            taking[is_change],
        )

    def _content(self) -> list[str]:
        """Return the columns by which rows of a key are compared."""
        others = {*self.keys, *self.order_by, self.source}
        return [name for name in self.columns.names if name not in others]

    def _check_source(self, sources: pa.Table, groups: Integers) -> None:
        """Raise RowError if rows of a key come from two sources."""
        check_not_null(sources, [str(self.source)], "in source")
        ranked = ranks(sources, [str(self.source)])[0]
        order = np.lexsort((ranked, groups))
        wrong = np.flatnonzero(
            same_as_before([groups[order]]) & ~same_as_before([groups[order], ranked[order]])
        )
        if len(wrong):
            both = sources.take(pa.array(order[[wrong[0] - 1, wrong[0]]])).column(0).to_pylist()
            raise RowError(
                f"Rows of one key have {both[0]} and {both[1]} in the column {self.source}, so it is "
                "unknown which is newer. Nothing of this batch was written. If the topic got more "
                "partitions, copy it into a new one.",
                column=self.source,
            )

    def _check_ties(self, chains: _Chains, repeated: Mask) -> None:
        """Raise RowError if two different rows of a key have the same sort key (values of `order_by`)."""
        later = np.flatnonzero(repeated)
        before = later - 1
        content = self._content()
        both = chains.deleted[later] & chains.deleted[before]
        neither = ~chains.deleted[later] & ~chains.deleted[before]
        here, earlier = chains.rows.take(pa.array(later)), chains.rows.take(pa.array(before))
        equal = equal_columns(here, earlier, content)
        # The -U of an operator before this one has the sort key of the old row.
        is_old_row = chains.is_old[later] & chains.is_before[before]
        wrong = np.flatnonzero(~(both | (neither & equal) | is_old_row))
        if len(wrong):
            index = int(later[wrong[0]])
            where = chains.sort_keys.slice(index, 1).to_pylist()[0]
            raise RowError(
                f"Two different rows of a key have the same sort key (order_by): {where}. It is unknown "
                "which is newer. Nothing of this batch was written. Add a column to order_by that tells them "
                "apart, such as the offset of the record.",
                order_by=list(self.order_by),
            )

    def _check_pairs(self, chains: _Chains, repeated: Mask, unpaired: Integers) -> None:
        """Raise RowError if a -U has the sort key of the row that it replaces, and its +U has another key.

        Args:
            chains: all rows.
            repeated: whether a row has the key and the sort key of the row before it.
            unpaired: for each group, how many -U more than +U have the sort key of another row of the batch.
        """
        if not chains.is_before.any() and not (unpaired > 0).any():
            return
        runs = np.cumsum(~repeated)
        of_kept = np.isin(runs, runs[chains.is_old & ~chains.deleted])
        unpaired = unpaired.copy()
        np.add.at(unpaired, chains.groups, chains.is_before & of_kept)
        wrong = np.flatnonzero((unpaired > 0)[chains.groups])
        if len(wrong):
            key = chains.rows.select(list(self.keys)).slice(int(wrong[0]), 1).to_pylist()[0]
            raise RowError(
                "A -U has the sort key of the row that it replaces, and no +U of its key came with it: "
                f"{key}. If the update has changed the key, the old key would stay. Nothing of this batch "
                "was written. Give -U and +U of one change the same values in order_by, and do not filter "
                "out the +U only.",
                order_by=list(self.order_by),
            )

    def _out(
        self, chains: _Chains, emitted: Integers, inserted: Mask, updated: Mask, removed: Mask
    ) -> pa.Table:
        """Return the changes: one row for an insert or a delete, two for an update."""
        changed = np.flatnonzero(inserted | updated | removed)
        counts = 1 + updated[changed]
        source = np.repeat(changed, counts)
        is_second = np.zeros(len(source), bool)
        is_second[np.cumsum(counts)[updated[changed]] - 1] = True
        kinds = np.where(removed[source], DELETE, np.where(is_second, UPDATE_AFTER, UPDATE_BEFORE))
        kinds = np.where(inserted[source], INSERT, kinds).astype(np.int8)
        is_before = (kinds == UPDATE_BEFORE) | (kinds == DELETE)
        indices = np.where(is_before, emitted[source - is_before], source)
        rows = chains.rows.take(pa.array(indices))
        return rows.append_column(ROW_KIND, kind_column(kinds)).cast(self.out_columns)

    def _kept(self, chains: _Chains, emitted: Integers, now_ms: int) -> pa.Table:
        """Return the newest row of each key that got one."""
        is_last = np.ones(len(chains.groups), bool)
        is_last[:-1] = chains.groups[1:] != chains.groups[:-1]
        last = np.flatnonzero(is_last & ~chains.is_old)
        deleted = chains.deleted[last]
        rows = chains.rows.take(pa.array(emitted[last]))
        # What a deleted key held is not needed, and may be large.
        for index, name in enumerate(self.columns.names):
            if name not in self.keys and name != self.source:
                empty = pa.array(np.where(deleted, -1, np.arange(len(last))), mask=deleted)
                rows = rows.set_column(index, rows.schema.field(index), rows.column(index).take(empty))
        for name in self.order_by:
            rows = rows.append_column(_SEEN + name, chains.sort_keys.column(name).take(pa.array(last)))
        keys = chains.keys.take(chains.groups[last])
        return state_rows(rows.cast(self.kept_columns), keys, deleted, now_ms, chains.replaced.take(last))


@dataclass(frozen=True)
class _Changes:
    """The rows of a batch that say what a key is now: which are deletes, and which are -U.

    `unpaired` is the number of -U that have the row's sort key and say nothing, less one for a +U.
    `taking` is how a row may take its key from another one; see `_moved.py`.
    """

    rows: pa.Table
    deleted: Mask
    is_before: Mask
    unpaired: Integers
    taking: Signs


@dataclass(frozen=True)
class _Chains:
    """Rows by key and in order; in each group the row that was kept is first.

    `replaced` is the hash of the row that had the key before; 0 for none.
    """

    rows: pa.Table
    sort_keys: pa.Table
    keys: Hashes
    groups: Integers
    is_old: Mask
    deleted: Mask
    is_before: Mask
    taking: Signs
    replaced: Hashes

    def take(self, indices: Integers) -> _Chains:
        taken = pa.array(indices)
        return _Chains(
            self.rows.take(taken),
            self.sort_keys.take(taken),
            self.keys,
            self.groups[indices],
            self.is_old[indices],
            self.deleted[indices],
            self.is_before[indices],
            self.taking[indices],
            self.replaced.take(indices),
        )

    def ends(self) -> _Chains:
        """Return of each group only the row that was kept, if there is one, and the last row."""
        is_last = np.ones(len(self.groups), bool)
        is_last[:-1] = self.groups[1:] != self.groups[:-1]
        return self.take(np.flatnonzero(is_last | self.is_old))
