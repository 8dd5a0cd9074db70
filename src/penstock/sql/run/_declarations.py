"""Statements that declare, change, show and remove tables, views, functions and databases.

Runs on the driver. Invariant: nothing is read, and no query starts.
"""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any

from penstock.sql.functions.names import is_flinks
from penstock.sql.language.source import Source, without_secrets
from penstock.sql.language.statements import (
    AlterTable,
    CreateDatabase,
    CreateFunction,
    CreateTable,
    CreateView,
    Describe,
    Drop,
    Insert,
    Name,
    PhysicalColumn,
    Show,
    Use,
)
from penstock.sql.language.write import statement_text, type_text
from penstock.sql.run._described import described, flink_type
from penstock.sql.run._options import check_alone
from penstock.sql.run._queries import Queries
from penstock.sql.run._tables import check_watermark, read_schema, shown_fields
from penstock.sql.run._views import SparkViews
from penstock.sql.run.catalog import (
    DEFAULT_CATALOG,
    DEFAULT_DATABASE,
    Catalog,
    Table,
    View,
    altered,
    with_like,
)
from penstock.sql.run.job import Result

Declaration = CreateView | CreateFunction | CreateDatabase | Show | Describe | Drop | Use | AlterTable


class Declarations:
    """Runs the statements about what a session knows."""

    def __init__(self, spark: Any, catalog: Catalog, views: SparkViews, queries: Queries) -> None:
        self._spark = spark
        self._catalog = catalog
        self._views = views
        self._queries = queries

    def run(self, statement: Declaration, source: Source) -> Result:  # noqa: PLR0911 - one for each
        """Run a statement.

        Raises:
            ValueError: it does not fit what is there.
            SqlError: a query or an option in it is wrong.
        """
        match statement:
            case CreateView():
                return self._create_view(statement, source)
            case CreateFunction():
                return self._create_function(statement)
            case CreateDatabase():
                return self._create_database(statement)
            case Show():
                return self._show(statement)
            case Describe():
                return self._describe(statement.name)
            case Drop():
                return self._drop(statement)
            case Use():
                return self._use(statement)
            case AlterTable():
                return self._alter_table(statement, source)

    def create_table(self, statement: CreateTable, source: Source) -> Insert | None:
        """Create a table without its rows, and return the INSERT that fills it."""
        if statement.like is not None:
            base = self._catalog.find(statement.like.table.parts)
            if not isinstance(base, Table):
                raise source.error(
                    f"there is no table '{statement.like.table}'.", statement.like.table.offset
                )
            statement = with_like(statement, base.definition)
        query = statement.query
        if query is not None:
            if statement.columns:
                raise ValueError(
                    "CREATE TABLE ... AS SELECT takes its columns from the query. Leave them out."
                )
            if statement.if_not_exists:
                raise ValueError(
                    "IF NOT EXISTS is not served with AS SELECT, because an old table would be filled "
                    "again. Write CREATE TABLE IF NOT EXISTS and INSERT INTO."
                )
            fields = shown_fields(self._queries.found(query, source).frame)
            columns = tuple(PhysicalColumn(each.name, flink_type(each.dataType)) for each in fields)
            statement = replace(statement, columns=columns, query=None)
        table = Table(statement, source)
        check_parts(table)
        self._catalog.add(statement.name, table, if_not_exists=statement.if_not_exists)
        return None if query is None else Insert(statement.name, query)

    def _create_view(self, statement: CreateView, source: Source) -> Result:
        """Create a view whose query is checked."""
        fields = shown_fields(self._queries.found(statement.query, source).frame)
        if statement.columns and len(statement.columns) != len(fields):
            raise ValueError(f"the query has {len(fields)} columns, not {len(statement.columns)}.")
        view = View(statement, source, self._catalog.database)
        self._catalog.add(statement.name, view, if_not_exists=statement.if_not_exists)
        return Result("The view was created.")

    def _create_function(self, statement: CreateFunction) -> Result:
        """Register a Python function under a name of its own, so that no function of Spark changes."""
        name = statement.name.parts[-1].lower()
        if is_flinks(name):
            raise ValueError(
                f"'{name}' is a function of Flink, which would be called instead. Choose another name."
            )
        if name in self._catalog.functions:
            if statement.if_not_exists:
                return Result("The function exists.")
            raise ValueError(f"there is a function '{name}' already. DROP it first.")
        module, _, attribute = statement.path.rpartition(".")
        try:
            function = getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise ValueError(f"the function '{statement.path}' cannot be loaded: {error}.") from None
        is_table = type(function).__name__ == "UserDefinedTableFunction"  # of Spark classic or of Connect
        said = getattr(function, "deterministic", None)
        if statement.is_deterministic and not is_table and said is False:
            raise ValueError(
                f"'{statement.path}' is declared DETERMINISTIC here and asNondeterministic() in Python. "
                "Remove one of them."
            )
        registry = self._spark.udtf if is_table else self._spark.udf
        registry.register(self._views.function_name(name), function)
        # Spark takes a scalar function for deterministic unless it is told, so that says nothing about it.
        is_deterministic = statement.is_deterministic or (is_table and said is True)
        self._catalog.functions[name] = replace(statement, is_deterministic=is_deterministic)
        return Result("The function was created.")

    def _create_database(self, statement: CreateDatabase) -> Result:
        name = statement.name.parts[-1]
        if name in self._catalog.databases and not statement.if_not_exists:
            raise ValueError(f"there is a database '{name}' already.")
        self._catalog.databases.add(name)
        return Result("The database was created.")

    def _show(self, statement: Show) -> Result:
        what, name = statement.what, statement.name
        if what in ("CREATE TABLE", "CREATE VIEW"):
            found = self._object(name, Table if what.endswith("TABLE") else View)
            shown = without_secrets(statement_text(found.definition))
            return Result(columns=("result",), rows=((shown,),))
        if what == "COLUMNS":
            return self._describe(name or Name(()))
        texts = self._shown_names(statement)
        return Result(columns=(what.lower(),), rows=tuple((each,) for each in texts))

    def _shown_names(self, statement: Show) -> list[str]:
        what, catalog = statement.what, self._catalog
        database = statement.name.parts[-1] if statement.name is not None else None
        if what in ("TABLES", "VIEWS"):
            return catalog.names(View if what == "VIEWS" else None, database, statement.like)
        shown = {
            "DATABASES": sorted(catalog.databases),
            "CATALOGS": [DEFAULT_CATALOG],
            "CURRENT CATALOG": [DEFAULT_CATALOG],
            "CURRENT DATABASE": [catalog.database],
            "FUNCTIONS": sorted(catalog.functions),
            "USER FUNCTIONS": sorted(catalog.functions),
            "MODULES": ["core"],
        }
        return shown[what]

    def _object(self, name: Name | None, kind: type) -> Any:
        found = self._catalog.find(name.parts if name is not None else ())
        if not isinstance(found, kind):
            raise ValueError(f"there is no {kind.__name__.lower()} '{name}'.")
        return found

    def _describe(self, name: Name) -> Result:
        found = self._catalog.find(name.parts)
        columns = ("name", "type", "null", "key", "extras", "watermark")
        if isinstance(found, Table):
            return Result(columns=columns, rows=tuple(described(found)))

        if found is None and self._views.table(name.parts) is None:
            raise ValueError(f"there is no table or view '{name}'.")
        fields = self._queries.fields(name)
        rows = [(field.name, type_text(flink_type(field.dataType)), "TRUE", "", "", "") for field in fields]
        return Result(columns=columns, rows=tuple(rows))

    def _drop(self, statement: Drop) -> Result:
        name = statement.name.parts[-1]
        if statement.kind in ("TABLE", "VIEW"):
            self._catalog.drop(statement.kind, statement.name, if_exists=statement.if_exists)
        elif statement.kind == "FUNCTION":
            if self._catalog.functions.pop(name.lower(), None) is None and not statement.if_exists:
                raise ValueError(f"there is no function '{name}'.")
        else:
            self._drop_database(name, if_exists=statement.if_exists)
        return Result(f"The {statement.kind.lower()} was dropped.")

    def _drop_database(self, name: str, *, if_exists: bool) -> None:
        if name not in self._catalog.databases:
            if if_exists:
                return
            raise ValueError(f"there is no database '{name}'.")
        if name == DEFAULT_DATABASE or self._catalog.names(database=name):
            raise ValueError(f"the database '{name}' is the default one or has tables.")
        self._catalog.databases.discard(name)

    def _use(self, statement: Use) -> Result:
        """Choose the database of names without one."""
        name = statement.name.parts[-1]
        if name not in self._catalog.databases:
            raise ValueError(f"there is no database '{name}'.")
        self._catalog.database = name
        return Result("The database was chosen.")

    def _alter_table(self, statement: AlterTable, source: Source) -> Result:
        found = self._catalog.find(statement.name.parts)
        if not isinstance(found, Table):
            if statement.if_exists:
                return Result("There is no such table.")
            raise ValueError(f"there is no table '{statement.name}'.")
        changed = Table(altered(found.definition, statement), found.source)
        check_parts(changed, (source, statement.name.offset))
        if statement.rename_to is not None:
            self._catalog.rename(statement.name, statement.rename_to, changed)
        else:
            self._catalog.objects[self._catalog.key(statement.name.parts)] = changed
        return Result("The table was changed.")


def check_parts(table: Table, *altered_by: tuple[Source, int]) -> None:
    """Check what a table declares, without reading it.

    Args:
        table: its declaration.
        altered_by: the script of ALTER TABLE, and the offset of the table's name in it.

    Raises:
        ValueError: a type is not served, or a key names a column that does not exist.
        SqlError: Spark has no such watermark.
    """
    read_schema(table.definition)
    names = {column.name for column in table.definition.columns}
    missing = [name for name in table.definition.primary_key if name not in names]
    if missing:
        raise ValueError(f"the PRIMARY KEY names the column '{missing[0]}', which the table does not have.")
    missing = [name for name in table.definition.partitioned_by if name not in names]
    if missing:
        raise ValueError(f"PARTITIONED BY names the column '{missing[0]}', which the table does not have.")
    check_watermark(table)
    check_alone(table, *altered_by)
