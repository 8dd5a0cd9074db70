"""`SparkDeltaTable` and `SparkIcebergTable`: tables that a catalog of the platform manages.

Runs on the driver. Spark changes the table with the JAR of the platform, so any catalog that Spark has can
have it. Guarantee: that of `merged.py`. `materialize` and `replicate` give the table the session of Spark.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NoReturn

import pyarrow as pa

from penstock.errors import OptionError
from penstock.targets._delta_log import KEEP_ROWS
from penstock.targets._merge_log import BATCH, NO_VERSION, QUERY, Commit, said_in
from penstock.targets._variants import Variants
from penstock.targets.batch import Batch
from penstock.targets.change import ColumnChange
from penstock.targets.merged import (
    MergedTable,
    Session,
    TableFormat,
    check_change,
    check_names,
)
from penstock.targets.sql_names import check_identifier, quoted_identifier
from penstock.targets.staged import Runner, Staged

_DELTA = "spark.databricks.delta"
_METADATA = f"{_DELTA}.commitInfo.userMetadata"
_APPLICATION, _NUMBER = f"{_DELTA}.write.txnAppId", f"{_DELTA}.write.txnVersion"
_PROPERTY = "spark.sql.iceberg.snapshot-property."
_BATCH_OF_DELTA, _COMPACTION_OF_ICEBERG = "MERGE", "replace"
_BRANCHES = ("spark.wap.branch", "spark.wap.id")
"""Settings with which Iceberg writes, and reads, another branch than `main`, or no branch."""
_FIRST_LIMIT, _GROWTH = 2, 16


class DeltaFormat:
    """A Delta table, as Delta's JAR reads and writes it."""

    name = "delta"

    @property
    def properties(self) -> dict[str, str]:
        """None: the platform's own hold."""
        return {}

    @property
    def variant_properties(self) -> dict[str, str]:
        """None: Delta adds the feature of the table by itself."""
        return {}

    @property
    def variant_advice(self) -> str:
        """Say what Delta needs."""
        return "It needs Spark 4.0 with a JAR of Delta that has the table feature variantType, or newer ones."

    @property
    def has_hidden_renames(self) -> bool:
        """Return False: the log has a commit of each change of columns."""
        return False

    def check_session(self, session: Session, target: str) -> None:
        """Do nothing: no setting sends rows of Delta elsewhere."""

    def held(self, columns: pa.Schema) -> pa.Schema:
        """Return the columns as they are."""
        return columns

    def refresh(self, session: Session, table: str) -> None:
        """Do nothing: Delta looks for a newer version with each statement."""

    def is_empty(self, session: Session, table: str) -> bool:
        """Return whether the newest version has no files. Spark has no cache for this statement."""
        [detail] = session.rows(f"DESCRIBE DETAIL {table}")
        return int(detail["numFiles"]) == 0

    def commits(self, session: Session, table: str) -> Iterator[Commit]:
        """Yield the commits of the log. Usually the newest are enough, so only a few are read at a time."""
        limit, expected = _FIRST_LIMIT, None
        while True:
            found = session.rows(f"DESCRIBE HISTORY {table} LIMIT {limit}")
            for one in sorted(found, key=lambda each: -int(each["version"])):
                version = int(one["version"])
                if expected is None or version <= expected:  # a newer commit is of another look
                    expected = version - 1
                    operation = str(one["operation"])
                    # A compaction that Delta adds to a MERGE has the same metadata. It is not the batch.
                    said = said_in(one["userMetadata"]) if operation == _BATCH_OF_DELTA else {}
                    yield Commit(version, expected, operation, operation in KEEP_ROWS, said)
            if len(found) < limit:
                return
            limit *= _GROWTH

    def settings(self, said: Mapping[str, str]) -> dict[str, str]:
        """Return the settings of a commit.

        Delta skips a MERGE with a number that the table has, without an error and whatever its rows are. So
        penstock judges its own marker before. The number keeps a driver that has judged long ago from
        writing an old batch on top of newer ones. Then the marker after the MERGE is not that of its batch.
        With a number Delta also commits a MERGE that changes nothing. Numbers begin with 0, for the commit
        that takes the table.
        """
        return {
            _METADATA: json.dumps(dict(said)),
            _APPLICATION: f"penstock:{said[QUERY]}",
            _NUMBER: str(int(said[BATCH]) + 1),
        }


class IcebergFormat:
    """An Iceberg table, as Iceberg's JAR reads and writes it."""

    name = "iceberg"

    @property
    def properties(self) -> dict[str, str]:
        """Those of a new table.

        Positions of deleted rows cost less than files that are written again. Without retries a commit that
        loses the race of two commits fails, and the marker is judged again. One that comes some time before
        is only found by the look at the log (`_merge_log.py`).
        """
        return {
            "format-version": "2",
            "write.merge.mode": "merge-on-read",
            "commit.retry.num-retries": "0",
        }

    @property
    def variant_properties(self) -> dict[str, str]:
        """The version of the format that has VARIANT."""
        return {"format-version": "3"}

    @property
    def variant_advice(self) -> str:
        """Say what Iceberg needs."""
        return (
            "It needs Spark 4.0 with a JAR of Iceberg that writes VARIANT, or newer ones, and version 3 of "
            "Iceberg's format. An older table gets it by ALTER TABLE ... SET TBLPROPERTIES "
            "('format-version' = '3'), and each reader has to know it."
        )

    @property
    def has_hidden_renames(self) -> bool:
        """Return True: a change of columns makes no snapshot."""
        return True

    def check_session(self, session: Session, target: str) -> None:
        """Raise OptionError if rows would go into another branch, because the marker is read in `main`."""
        for name in _BRANCHES:
            if value := session.setting(name):
                raise OptionError(
                    f"The setting {name} is {value!r}. With it Iceberg may write rows elsewhere than into "
                    f"the branch main, and penstock keeps {target} in main. Nothing was written. Run "
                    f'spark.conf.unset("{name}") before the query starts, or start the query in another '
                    "session (spark.newSession()).",
                    option=name,
                    value=value,
                )

    def held(self, columns: pa.Schema) -> pa.Schema:
        """Return the columns with INT for each TINYINT and SMALLINT, which Iceberg does not have."""
        return pa.schema([_held(one) for one in columns])

    def refresh(self, session: Session, table: str) -> None:
        """Let the session forget the table, because Spark keeps it for 30 seconds."""
        session.rows(f"REFRESH TABLE {table}")

    def commits(self, session: Session, table: str) -> Iterator[Commit]:
        """Yield the current snapshot and those before it that the table still has."""
        refs = session.read(f"{table}.refs", ("name", "snapshot_id"))
        current = [one for one in refs if one["name"] == "main"]
        found = session.read(f"{table}.snapshots", ("snapshot_id", "parent_id", "operation", "summary"))
        snapshots = {int(one["snapshot_id"]): one for one in found}
        version = int(current[0]["snapshot_id"]) if current else NO_VERSION
        while (one := snapshots.get(version)) is not None:
            before = NO_VERSION if one["parent_id"] is None else int(one["parent_id"])
            operation = str(one["operation"])
            keeps_rows = operation == _COMPACTION_OF_ICEBERG
            said = {} if keeps_rows else said_in(json.dumps(dict(one["summary"])))
            yield Commit(version, before, operation, keeps_rows, said)
            version = before

    def is_empty(self, session: Session, table: str) -> bool:
        """Return whether a reader finds no row."""
        return not session.read(table, ("1 AS one",), limit=1)

    def settings(self, said: Mapping[str, str]) -> dict[str, str]:
        """Return the settings that make what penstock says properties of the next snapshot."""
        return {f"{_PROPERTY}{name}": value for name, value in said.items()}


def _held(field: pa.Field) -> pa.Field:
    return field.with_type(_held_type(field.type))


def _held_type(kind: pa.DataType) -> pa.DataType:
    if kind in (pa.int8(), pa.int16()):
        return pa.int32()
    if pa.types.is_struct(kind):
        return pa.struct([_held(one) for one in kind])
    if pa.types.is_map(kind):
        return pa.map_(_held_type(kind.key_type), _held(kind.item_field))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(_held(kind.value_field))
    return kind


@dataclass(frozen=True)
class _SparkTable:
    """A table that Spark changes by MERGE.

    Attributes:
        identifier: `schema.table` or `catalog.schema.table`, as it stands in SQL. The table is created if it
            is missing, the schema is not.
        variants: names of STRING columns with JSON text. The table keeps them as VARIANT, so read them with
            `variant_get`. A text that is not JSON is an error.
    """

    identifier: str
    variants: Sequence[str] = ()
    format: ClassVar[TableFormat]
    title: ClassVar[str]

    def __str__(self) -> str:
        return f"the {self.title} table {self.identifier}"

    def check(self, columns: pa.Schema, keys: Sequence[str]) -> None:
        """Check before a query starts that the table can be named so and can have columns of these names.

        Raises:
            OptionError: the identifier does not name a schema and a table.
            SchemaError: a column has a name of penstock, or `variants` names a column that cannot be one.
        """
        check_identifier(self.identifier)
        check_names(columns)
        self._variants.check(columns, keys)

    @property
    def _variants(self) -> Variants:
        return Variants(self.variants, str(self))

    def check_change(self, change: ColumnChange) -> None:
        """Check that the columns can change so: only new ones are followed.

        Raises:
            SchemaError: a column of the table becomes wider or is dropped.
        """
        check_change(str(self), change, self.format.held)

    def apply(self, batch: Batch) -> NoReturn:
        """Raise OptionError: `materialize` and `replicate` apply batches with Spark.

        Raises:
            OptionError: always.
        """
        raise self._without_session()

    def _without_session(self) -> OptionError:
        return OptionError(
            f"{self} is changed by Spark, and nothing has given it a session. Nothing was written. Give it "
            "to penstock.changelog.materialize or penstock.cdc.replicate.",
            option="target",
        )

    def apply_staged(self, batch: Staged, run: Runner) -> NoReturn:
        """Raise OptionError, as `apply` does.

        Raises:
            OptionError: always.
        """
        raise self._without_session()

    def in_session(self, session: Session) -> MergedTable:
        """Return the table in a session of Spark."""
        return MergedTable(
            quoted_identifier(self.identifier), str(self), self.format, session, self._variants
        )


@dataclass(frozen=True)
class SparkDeltaTable(_SparkTable):
    """A Delta table in a catalog of Spark, changed by MERGE with the JAR of Delta.

    It is for tables that only the platform may write. MERGE takes about four times the processor time of
    `DeltaTable`, so use that one if you can. It needs Spark classic.

    Attributes:
        identifier: `schema.table` or `catalog.schema.table`, as it stands in SQL. The table is created if it
            is missing, the schema is not.
        variants: names of STRING columns with JSON text. The table keeps them as VARIANT, so read them with
            `variant_get`. A text that is not JSON is an error.
    """

    format: ClassVar[TableFormat] = DeltaFormat()
    title: ClassVar[str] = "Delta"


@dataclass(frozen=True)
class SparkIcebergTable(_SparkTable):
    """An Iceberg table in a catalog of Spark, changed by MERGE with the JAR of Iceberg.

    It is for tables that only the platform may write. MERGE takes more processor time than `IcebergTable`, so
    use that one if you can. It needs Spark classic.

    Attributes:
        identifier: `catalog.schema.table` or `schema.table`, as it stands in SQL. The table is created if it
            is missing, the schema is not.
        variants: names of STRING columns with JSON text. The table keeps them as VARIANT, so read them with
            `variant_get`. A text that is not JSON is an error.
    """

    format: ClassVar[TableFormat] = IcebergFormat()
    title: ClassVar[str] = "Iceberg"
