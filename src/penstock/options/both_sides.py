"""The meaning of the options of a table that may be read and written, each parsed once, when it is asked for.

Runs on the driver. Invariant: the options are parsed by `penstock.options.parse` alone. Nothing is asked and
no secret is looked up. Warnings are left to the process that plans the read or the write.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from penstock.errors import UnsupportedOptionError
from penstock.options.parse import (
    DeclaredConfig,
    ReadConfig,
    WriteConfig,
    parse_declared,
    parse_read,
    parse_write,
    with_primary_key,
)
from penstock.options.table_spec import Connector
from penstock.options.warn import said_elsewhere


class BothSides:
    """The options of a table whose primary key is declared elsewhere, as in SQL.

    Each property raises OptionError if an option is wrong, missing, or not supported there.
    """

    def __init__(self, given: Mapping[str, str], primary_key: tuple[str, ...]) -> None:
        self.given = dict(given)
        self._primary_key = primary_key

    @cached_property
    def declared(self) -> DeclaredConfig:
        """Return what is known before the table is read or written."""
        with_primary_key(self.given, ())
        with said_elsewhere():
            return parse_declared(self.given)

    @property
    def is_upsert(self) -> bool:
        return self.declared.connector is Connector.UPSERT_KAFKA

    @property
    def changelog_format(self) -> str | None:
        """Return the format of values if its rows say how they change the table."""
        spec = self.declared.value_format
        return spec.name if spec is not None and spec.is_changelog else None

    @cached_property
    def options(self) -> dict[str, str]:
        """Return the given options, with the primary key of an upsert table."""
        return with_primary_key(self.given, self._primary_key if self.is_upsert else ())

    @cached_property
    def stream(self) -> ReadConfig:
        with said_elsewhere():
            return parse_read(self.options, streaming=True)

    @cached_property
    def batch(self) -> ReadConfig:
        with said_elsewhere():
            return parse_read(self.options, streaming=False)

    def read(self, *, streaming: bool) -> ReadConfig:
        return self.stream if streaming else self.batch

    @cached_property
    def either(self) -> ReadConfig:
        """Return a read, for what a stream and a batch say alike. Some options are for batches only."""
        try:
            return self.stream
        except UnsupportedOptionError:
            return self.batch

    @cached_property
    def write(self) -> WriteConfig:
        with said_elsewhere():
            return parse_write(self.options)
