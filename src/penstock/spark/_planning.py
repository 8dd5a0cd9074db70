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
from penstock.spark.map_rows import map_rows
from penstock.state.files import LocalFiles, open_files
from penstock.state.identity import Identity, check_before_start
from penstock.state.lineage import take_plan
from penstock.state.mounts import check_listings
from penstock.state.shared_folder import folder_id

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COLUMNS = "number BIGINT, folder_id STRING, partition_count INT"
_ARROW = pa.schema([("number", pa.int64()), ("folder_id", pa.string()), ("partition_count", pa.int32())])


@dataclass(frozen=True)
class CallPlan:
    """The plan of a call.

    Attributes:
        plan_id: of the DataFrame.
        number: higher than that of every earlier call with this folder.
        folder_id: of the folder, if it is a path that may be another folder on another machine.
        partition_count: of the state.
    """

    plan_id: str
    number: int = 0
    folder_id: str | None = None
    partition_count: int = 1


@dataclass(frozen=True)
class PlanWriter:
    """Writes the plan of a call. Pickled to a task on Spark Connect.

    Attributes:
        location: the folder or URI of the state.
        plan_id: of the DataFrame.
        operator: what the state belongs to, without a query. An existing state has to fit to it.
        is_count_chosen: whether the user has chosen its number of partitions.
        has_one_machine: whether the driver and all executors are on one machine.
    """

    location: str
    plan_id: str
    operator: Identity
    is_count_chosen: bool = False
    has_one_machine: bool = False

    def run(self) -> CallPlan:
        """Compare an existing state with the operator, and write the plan.

        Raises:
            OSError: the folder cannot be written.
            StateError: the folder is damaged or not shared, or its state is of another operator or has other
                columns, or other drivers write plans at the same moment.
        """
        files = open_files(self.location)
        seen = None
        if isinstance(files, LocalFiles):
            if not self.has_one_machine:
                check_listings(files.root)
            seen = folder_id(files)
        count = check_before_start(files, self.operator, is_count_chosen=self.is_count_chosen)
        return CallPlan(self.plan_id, take_plan(files, self.plan_id), seen, count)

    def run_in_a_task(self, spark: SparkSession) -> CallPlan:
        """Write the plan in a task of Spark. All tasks then have to see the folder that it has seen."""
        (row,) = map_rows(spark.range(0, 1, 1, 1), self._rows, _COLUMNS).collect()
        return CallPlan(self.plan_id, row.number, row.folder_id, row.partition_count)

    def _rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            try:
                planned = self.run()
            except OSError as error:
                shown = without_secrets(self.location)
                raise StateError(
                    f"An executor cannot write to the folder of the state {shown}: {error}. Nothing was "
                    "started. The server and all executors need the same folder.",
                    path=shown,
                ) from error
            row = {name: getattr(planned, name) for name in _ARROW.names}
            yield pa.RecordBatch.from_pylist([row], _ARROW)
