"""Write the plan of a call into the folder of its state: what a driver does before a query starts.

Runs on the driver of Spark classic. The client of Spark Connect is not the driver, and may not see the
folder, so there a task of one small job does it. Invariant: the plan is in the folder before the call
returns. So a later call has a higher number, whichever process makes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.errors import StateError
from penstock.security.location import without_secrets
from penstock.spark.process.short_errors import short_errors_of_rows
from penstock.state.files import LocalFiles, open_files
from penstock.state.lineage import take_plan
from penstock.state.mounts import check_listings
from penstock.state.shared_folder import folder_id

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COLUMNS = "number BIGINT, folder_id STRING"


@dataclass(frozen=True)
class Planned:
    """The plan of a call.

    Attributes:
        plan_id: of the DataFrame.
        number: higher than that of every earlier call with this folder.
        folder_id: of the folder, if it is a path that may be another folder on another machine.
    """

    plan_id: str
    number: int = 0
    folder_id: str | None = None


@dataclass(frozen=True)
class Planning:
    """Writes the plan of a call. Pickled to a task on Spark Connect.

    Attributes:
        place: the folder or URI of the state.
        plan_id: of the DataFrame.
        has_one_machine: whether the driver and all executors are on one machine.
    """

    place: str
    plan_id: str
    has_one_machine: bool = False

    def run(self) -> Planned:
        """Write the plan.

        Raises:
            OSError: the folder cannot be written.
            StateError: the folder is damaged or not shared, or other drivers write plans at the same moment.
        """
        files = open_files(self.place)
        seen = None
        if isinstance(files, LocalFiles):
            if not self.has_one_machine:
                check_listings(files.root)
            seen = folder_id(files)
        return Planned(self.plan_id, take_plan(files, self.plan_id), seen)

    def run_in_a_task(self, spark: SparkSession) -> Planned:
        """Write the plan in a task of Spark. All tasks then have to see the folder that it has seen."""
        (row,) = spark.range(0, 1, 1, 1).mapInArrow(short_errors_of_rows(self._rows), _COLUMNS).collect()
        return Planned(self.plan_id, row.number, row.folder_id)

    def _rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            try:
                planned = self.run()
            except OSError as error:
                shown = without_secrets(self.place)
                raise StateError(
                    f"An executor cannot write to the folder of the state {shown}: {error}. Nothing was "
                    "started. The server and all executors need the same folder.",
                    path=shown,
                ) from error
            rows = [{"number": planned.number, "folder_id": planned.folder_id}]
            yield pa.RecordBatch.from_pylist(
                rows, pa.schema([("number", pa.int64()), ("folder_id", pa.string())])
            )
