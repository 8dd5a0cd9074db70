"""A Spark that knows only what tables changed by MERGE ask of it, over logs in the memory.

The statements are executed as text: what penstock does not say is not done. A table of Delta skips a number
of a transaction that it has, and one of Iceberg has parents and can be rolled back. As Spark does, it hides
properties, and gives the rows of a table that it has cached.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from penstock.targets.batch import DELETED, Batch

METADATA = "spark.databricks.delta.commitInfo.userMetadata"
NUMBER = "spark.databricks.delta.write.txnVersion"
APPLICATION = "spark.databricks.delta.write.txnAppId"
PROPERTY = "spark.sql.iceberg.snapshot-property."
SECRETS = r"(?i)secret|password|token|access[.]?key|url|keys?\b"
"""What Spark hides by default, and what people add to it."""
HIDDEN = "*********(redacted)"


@dataclass(frozen=True)
class Version:
    """A version of a table."""

    number: int
    parent: int | None
    operation: str
    rows: Mapping[int, str | None]
    said: Any = None
    transactions: Mapping[str, int] = field(default_factory=dict)


@dataclass
class Table:
    """A table and its versions; Iceberg creates one without any."""

    is_delta: bool
    columns: dict[str, str]
    properties: dict[str, str]
    cached: dict[int, str | None] | None = None
    versions: list[Version] = field(default_factory=list)

    def commit(self, operation: str, rows: Mapping[int, str | None], said: Any = None) -> None:
        """Add a version, as any writer."""
        last = self.newest
        number = 0 if not self.versions else max(one.number for one in self.versions) + 1
        parent = None if last is None else last.number
        transactions = {} if last is None else last.transactions
        self.versions.append(Version(number, parent, operation, dict(rows), said, transactions))

    @property
    def newest(self) -> Version | None:
        return self.versions[-1] if self.versions else None

    @property
    def rows(self) -> dict[int, str | None]:
        return {} if self.newest is None else dict(self.newest.rows)


def _plain(name: str) -> str:
    return name.replace("`", "")


def _snapshot(one: Version) -> dict[str, Any]:
    return {
        "snapshot_id": one.number,
        "parent_id": one.parent,
        "operation": one.operation,
        "summary": {"added-records": "1", **(one.said or {})},
    }


@dataclass
class FakeSpark:
    """A session; sessions share `tables`.

    Attributes:
        before_merge: is called when a MERGE begins, as another writer may commit then.
        after_merge: is called when it has committed.
        writes_metadata: whether a commit says what penstock has set.
        compacts: whether Delta compacts the table after a MERGE, with the same metadata.
        commits_twice: whether the library commits a MERGE once more, because it has lost the answer.
        redaction: the value of a property is hidden if this is found in its name or in it.
        settings: of the session of the user.
    """

    tables: dict[str, Table]
    before_merge: Callable[[], None] = lambda: None
    after_merge: Callable[[], None] = lambda: None
    writes_metadata: bool = True
    compacts: bool = False
    commits_twice: bool = False
    redaction: str = SECRETS
    settings: dict[str, str] = field(default_factory=dict)
    conf: dict[str, str] = field(default_factory=dict)
    source: pa.Table | None = None
    statements: list[str] = field(default_factory=list)

    def has_table(self, name: str) -> bool:
        return _plain(name) in self.tables

    def columns(self, name: str) -> dict[str, str]:
        return dict(self.tables[_plain(name)].columns)

    def setting(self, name: str) -> str | None:
        return self.settings.get(name)

    def read(
        self, table: str, expressions: Sequence[str], limit: int | None = None
    ) -> list[Mapping[str, Any]]:
        name, metadata = re.fullmatch(r"(`shop`\.`t`)(\.\w+)?", table).groups()  # type: ignore[union-attr]
        found = self.tables[_plain(name)]
        if metadata == ".refs":
            rows: list[Mapping[str, Any]] = [{"name": "tag", "snapshot_id": -5}]
            rows += [] if found.newest is None else [{"name": "main", "snapshot_id": found.newest.number}]
        elif metadata == ".snapshots":
            rows = [_snapshot(one) for one in found.versions]
        else:
            rows = [{"one": 1} for _ in found.rows]
        assert metadata is None or all(set(expressions) <= set(one) for one in rows)
        return rows[:limit]

    def types(self, columns: pa.Schema) -> dict[str, str]:
        return {one.name: str(one.type) for one in columns}

    @contextlib.contextmanager
    def set(self, settings: Mapping[str, str]) -> Iterator[None]:
        self.conf = dict(settings)
        yield
        self.conf = {}

    @contextlib.contextmanager
    def view(self, batch: Any) -> Iterator[str]:
        assert isinstance(batch, Batch)
        self.source = batch.rows
        try:
            yield "source"
        finally:
            self.source = None

    def rows(self, statement: str) -> list[Mapping[str, Any]]:
        self.statements.append(statement)
        word, name = statement.split(maxsplit=1)[0], self._name(statement)
        return getattr(self, f"_{word.lower()}")(name, statement)  # type: ignore[no-any-return]

    def _name(self, statement: str) -> str:
        [name] = re.findall(r"`shop`\.`t`", statement)[:1]
        return _plain(name)

    def _create(self, name: str, statement: str) -> list[Mapping[str, Any]]:
        if name not in self.tables:
            [listed] = re.findall(r"TBLPROPERTIES \((.*)\)$", statement)
            properties = dict(re.findall(r"'([^']*)' = '([^']*)'", listed))
            columns = dict(re.findall(r"`([^`]*)` (\w+)", statement))
            is_delta = "USING delta" in statement
            if not is_delta:  # it has no smaller integers
                columns = {one: re.sub("^int(8|16)$", "int32", kind) for one, kind in columns.items()}
            table = self.tables[name] = Table(is_delta, columns, properties)
            if is_delta:
                table.commit("CREATE TABLE", {})
        return []

    def _show(self, name: str, statement: str) -> list[Mapping[str, Any]]:
        hidden = re.compile(self.redaction)
        return [
            {"key": key, "value": HIDDEN if hidden.search(key) or hidden.search(value) else value}
            for key, value in self.tables[name].properties.items()
        ]

    def _refresh(self, name: str, statement: str) -> list[Mapping[str, Any]]:
        return []

    def _alter(self, name: str, statement: str) -> list[Mapping[str, Any]]:
        table = self.tables[name]
        [listed] = re.findall(r"ADD COLUMNS \((.*)\)$", statement)
        table.columns |= dict(re.findall(r"`([^`]*)` (\w+)", listed))
        if table.is_delta:
            table.commit("ADD COLUMNS", table.rows)
        return []

    def _select(self, name: str, statement: str) -> list[Mapping[str, Any]]:
        table = self.tables[name]
        rows = table.rows if table.cached is None else table.cached
        return [{"one": 1}] if rows else []

    def _describe(self, name: str, statement: str) -> list[Mapping[str, Any]]:
        if "DETAIL" in statement:
            return [{"numFiles": len(self.tables[name].rows)}]
        limit = int(statement.rsplit(maxsplit=1)[-1])
        versions = list(reversed(self.tables[name].versions))[:limit]
        return [
            {"version": one.number, "operation": one.operation, "userMetadata": one.said} for one in versions
        ]

    def _merge(self, name: str, statement: str) -> list[Mapping[str, Any]]:
        self.before_merge()
        self._commit_merge(name)
        if self.commits_twice:
            self._commit_merge(name)
        self.after_merge()
        return []

    def _commit_merge(self, name: str) -> None:
        conf, table = self.conf, self.tables[name]
        newest = table.newest
        application, number = conf.get(APPLICATION), int(conf.get(NUMBER, -1))
        known = {} if newest is None else dict(newest.transactions)
        if application is not None and known.get(application, -1) >= number:
            return  # as Delta does, without an error
        assert self.source is not None
        if table.is_delta and application is None and not self.source.num_rows:
            return  # Delta commits nothing then
        rows = table.rows
        for one in self.source.to_pylist():
            rows.pop(one["id"], None)
            if not one[DELETED]:
                rows[one["id"]] = one["na%me"]
        said = conf.get(METADATA) if table.is_delta else self._properties(conf)
        table.commit("MERGE" if table.is_delta else "overwrite", rows, said if self.writes_metadata else None)
        if application is not None:
            table.versions[-1] = replace(table.versions[-1], transactions=known | {application: number})
        if self.compacts:
            table.commit("OPTIMIZE", rows, table.versions[-1].said)

    def _properties(self, conf: Mapping[str, str]) -> dict[str, str]:
        return {key.removeprefix(PROPERTY): value for key, value in conf.items() if key.startswith(PROPERTY)}
