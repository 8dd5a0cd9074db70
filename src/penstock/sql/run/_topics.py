"""Which tables of a session read a topic, for failures of jobs, which name topics only.

Runs on the driver. Invariant: a message is only made longer.
"""

from __future__ import annotations

from penstock.sql.connectors.described import Kafka
from penstock.sql.run._cuts import Reads
from penstock.sql.run.catalog import Catalog

_MISSING = "Not on the Kafka cluster: "


class TablesOfTopics:
    """The tables that queries of a session have named, by their topics."""

    def __init__(self) -> None:
        self._tables: dict[str, dict[str, None]] = {}
        """The tables of each topic, in the order in which queries named them."""

    def add(self, reads: Reads, catalog: Catalog) -> None:
        """Add the tables that a query reads."""
        for name, table in catalog.tables_of(reads):
            connector = table.connector
            if isinstance(connector, Kafka):
                line, _ = table.source.line_and_column(table.definition.name.offset)
                shown = f"the table '{name}' (CREATE TABLE in line {line})"
                for topic in connector.config.either.source.subscription.shared_names:
                    self._tables.setdefault(topic, {})[shown] = None

    def named(self, message: str) -> str:
        """Return why a job failed, with the tables of the topics that the message says are missing."""
        _, is_there, said = message.partition(_MISSING)
        if not is_there:
            return message
        more = [
            f" Topic '{topic}' is read by {' and '.join(tables)}."
            for topic, tables in self._tables.items()
            if f"topic {topic!r}" in said
        ]
        return message + "".join(more)
