"""What `targets/_iceberg_metadata.py` takes for granted about pyiceberg."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

known: Any = pytest.importorskip("penstock.targets._iceberg_metadata")
sql: Any = pytest.importorskip("pyiceberg.catalog.sql")
tables: Any = pytest.importorskip("pyiceberg.table")

NAME, COLUMNS = "shop.goods", pa.schema([("id", pa.int64()), ("name", pa.string())])


def catalog_in(folder: Path) -> Any:
    found = sql.SqlCatalog("contract", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}/tables")
    found.create_namespace_if_not_exists("shop")
    return found


def in_file(table: Any) -> Any:
    """Return the metadata that another process reads."""
    return tables.StaticTable.from_metadata(table.metadata_location).metadata


def change(table: Any, number: int) -> None:
    """Make a commit of each kind that penstock makes."""
    with table.transaction() as transaction:
        transaction.set_properties({"number": str(number)})
        transaction.append(pa.table({"id": [number, -1], "name": ["a", "b"]}, schema=COLUMNS))
    with table.update_schema() as update:
        update.add_column(f"column_{number}", sql_type())
    table.delete("id = -1")


def sql_type() -> Any:
    return pytest.importorskip("pyiceberg.types").LongType()


def test_metadata_cannot_be_changed_in_place(tmp_path: Path) -> None:
    with catalog_in(tmp_path) as catalog:
        table = catalog.create_table(NAME, COLUMNS)
        change(table, 1)
        metadata = table.metadata
        parts = metadata, metadata.snapshots[0], metadata.snapshot_log[0], metadata.metadata_log[0]
    for each in parts:
        with pytest.raises(ValueError, match="frozen"):
            setattr(each, next(iter(type(each).model_fields)), None)


def test_shared_metadata_is_the_same_in_each_way_to_look_at_it(tmp_path: Path) -> None:
    with catalog_in(tmp_path) as catalog:
        table = catalog.create_table(NAME, COLUMNS)
        change(table, 1)
        plain = table.metadata
    shared = known.with_shared(plain)
    assert shared == plain
    assert shared.model_dump_json() == plain.model_dump_json()
    copy = shared.model_copy(deep=True)
    assert copy.snapshots is shared.snapshots
    assert copy.snapshot_log is shared.snapshot_log
    assert copy.metadata_log[1:] == plain.metadata_log[1:]
    assert isinstance(copy.metadata_log[1:], known.Shared)
    assert isinstance(copy.snapshots + [copy.snapshots[0]], known.Shared)  # noqa: RUF005 - as pyiceberg adds
    assert copy.snapshots == plain.snapshots


def test_commits_with_shared_metadata_write_what_pyiceberg_writes(tmp_path: Path) -> None:
    """More commits than files that the log of metadata keeps, because the log is cut then."""
    with catalog_in(tmp_path) as catalog:
        known.load_quickly(catalog)
        properties = {"write.metadata.previous-versions-max": "4"}
        catalog.create_table(NAME, COLUMNS, properties=properties)
        for number in range(3):
            table = catalog.load_table(NAME)
            change(table, number)
            known.remember(table)
            assert table.metadata == in_file(table)
            assert len(table.metadata.metadata_log) <= 4
            assert catalog.load_table(NAME).metadata is table.metadata
        before = table.metadata.model_dump_json()
        change(catalog.load_table(NAME), 3)
        assert table.metadata.model_dump_json() == before
    with catalog_in(tmp_path) as other:
        assert sorted(other.load_table(NAME).scan().to_arrow().column("id").to_pylist()) == [0, 1, 2, 3]


def test_a_catalog_in_a_database_loads_the_table_of_a_commit_by_its_own_method(tmp_path: Path) -> None:
    """So a commit compares with what the catalog says then, and does not parse what is known."""
    with catalog_in(tmp_path) as catalog:
        table, load = catalog.create_table(NAME, COLUMNS), catalog.load_table
        asked = list[Any]()

        def noted(name: Any) -> Any:
            asked.append(name)
            return load(name)

        catalog.load_table = noted
        with table.transaction() as transaction:
            transaction.set_properties({"a": "b"})
    assert asked == [("shop", "goods")]
