"""A Delta table as commands see it: who keeps it, its older versions, its hand-over.

Runs where `penstock table` runs. Invariant: a hand-over is one commit, with the properties of the table, the
marker, and no rows; it fails if the table has a newer version than the one that was seen.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from penstock.errors import MaterializeError, OptionError
from penstock.targets._delta_log import check_commits, newest_first
from penstock.targets._delta_marker import BATCH, NO_BATCH, WRITER_WITH_FEATURES, deltalake, properties_of
from penstock.targets._table_properties import QUERY, check_made_by_penstock, keys_of, properties_for
from penstock.targets.compare import Rows
from penstock.targets.delta import DeltaTable
from penstock.targets.hand_over import (
    BEGUN,
    HANDED_OVER,
    NO_DIGEST,
    HandOver,
    Seen,
    has_moved,
    refuse_log,
    steps_of,
    text_of,
)
from penstock.targets.marker import Marker


class KeptDelta:
    """A Delta table; see `hand_over.KeptTable`."""

    def __init__(self, target: DeltaTable) -> None:
        self.target = target

    def seen(self) -> Seen:
        """Return who keeps the table."""
        if not deltalake().DeltaTable.is_deltatable(self.target.uri, self._options):
            raise MaterializeError(f"There is no Delta table at {self.target}. Nothing was changed.")
        table = self._version(None)
        properties = table.metadata().configuration
        check_made_by_penstock(properties, str(self.target))
        refuse_log([one.name for one in table.schema().fields], str(self.target))
        number = table.transaction_version(BATCH)
        batch_id = None if number in (None, NO_BATCH) else int(number)
        return Seen(properties[QUERY], batch_id, steps_of(properties, str(self.target)), table)

    def hand_over(self, seen: Seen, step: HandOver) -> None:
        """Give the table to another query, in one commit without rows."""
        self._check_no_features(seen.at)
        check_commits(seen.at, BATCH, step.after, str(self.target))
        try:
            seen.at.alter.set_table_properties(
                {QUERY: step.heir, HANDED_OVER: text_of((*seen.steps, step))},
                raise_if_not_exists=False,
                commit_properties=properties_of(Marker(step.heir, BEGUN, NO_DIGEST)),
            )
        except deltalake().exceptions.CommitFailedError as error:
            raise has_moved(str(self.target)) from error

    def batches(self) -> list[int]:
        """Return the batches whose version the log still has."""
        return sorted(self._versions())

    def rows(self, batch_id: int) -> Rows:
        """Return the rows of the version of a batch."""
        table = self._of_batch(batch_id)
        dataset = table.to_pyarrow_dataset()
        return Rows(dataset.schema, keys_of(table.metadata().configuration), dataset.to_batches)

    def copy(self, batch_id: int, to: KeptDelta, query_id: str) -> None:
        """Make a new table with the rows of the version of a batch. Its marker comes with the rows."""
        library = deltalake()
        if library.DeltaTable.is_deltatable(to.target.uri, to._options):
            raise OptionError(
                f"Expected a new table for the shadow, but {to.target} exists. Nothing was changed. Choose "
                "another name, or delete the folder of that table.",
                option="SHADOW",
            )
        rows = self.rows(batch_id)
        table = library.DeltaTable.create(
            to.target.uri,
            self._of_batch(batch_id).schema(),
            configuration=properties_for(query_id, rows.keys),
            storage_options=to._options,
            raise_if_key_not_exists=False,
        )
        before, properties = table.version(), properties_of(Marker(query_id, BEGUN, NO_DIGEST))
        reader = pa.RecordBatchReader.from_batches(rows.schema, rows.read())
        library.write_deltalake(table, reader, mode="append", commit_properties=properties)
        if table.version() == before:  # without rows deltalake commits nothing
            table.create_write_transaction([], "append", table.schema(), commit_properties=properties)

    @property
    def _options(self) -> dict[str, str] | None:
        return None if self.target.storage_options is None else dict(self.target.storage_options)

    def _version(self, number: int | None) -> Any:
        return deltalake().DeltaTable(self.target.uri, version=number, storage_options=self._options)

    def _versions(self) -> dict[int, int]:
        """Return the version of each batch of the query that keeps the table now.

        The numbers of its batches descend, from the newest commit on. The query before it had others.
        """
        found = dict[int, int]()
        for commit in newest_first(self._version(None)):
            if BATCH in commit:
                number = int(commit[BATCH])
                if found and number > min(found):
                    break
                found.setdefault(number, int(commit["version"]))
        return found

    def _of_batch(self, batch_id: int) -> Any:
        version = self._versions().get(batch_id)
        if version is None:
            raise MaterializeError(
                f"The log of {self.target} has no commit of batch {batch_id} any more. Nothing was changed. "
                "Choose a later batch.",
                batch_id=batch_id,
            )
        return self._version(version)

    def _check_no_features(self, table: Any) -> None:
        """Raise MaterializeError if a change of properties would add a feature; see `DeltaTable`."""
        protocol = table.protocol()
        if protocol.min_writer_version >= WRITER_WITH_FEATURES:
            features = ", ".join(sorted(protocol.writer_features or []))
            raise MaterializeError(
                f"{str(self.target)[0].upper()}{str(self.target)[1:]} has the table features {features} "
                "(`timestampNtz` is of a column without a time zone). deltalake would add one more when its "
                "owner changes, and many readers could not read the table afterwards. Nothing was handed "
                "over. Continue with the checkpoint of the old job (docs/change-a-job.md)."
            )
