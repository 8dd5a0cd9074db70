"""INSERTs that commit to one consumer group, which each of them would have to itself.

Runs on the driver. Each INSERT is a query of its own, and Kafka keeps one committed offset of a group for
each topic partition. Invariant: a query that has begun reads and writes nothing by committed offsets, so this
is a warning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from penstock.sql.connectors.described import Kafka
from penstock.sql.run._cuts import Notes
from penstock.sql.run.catalog import Catalog

_GROUP, _SERVERS = "group.id", "bootstrap.servers"


def shared_groups(inserts: Sequence[tuple[str, Notes]], catalog: Catalog) -> Iterator[str]:
    """Yield a warning for each consumer group to which several INSERTs commit offsets of one topic.

    The INSERTs are streams, each with its table and what it reads.
    """
    groups: dict[tuple[str, str], dict[str, dict[str, str]]] = {}
    for target, notes in inserts:
        for read, table in catalog.tables_of(notes.reads):
            connector = table.connector
            if not isinstance(connector, Kafka) or not connector.config.stream.source.commits_offsets:
                continue
            config = connector.config.stream.source
            of = (str(config.properties.get(_SERVERS)), str(config.properties.get(_GROUP)))
            topics = groups.setdefault(of, {})
            for name in config.subscription.shared_names:
                topics.setdefault(name, {})[target] = read
    for (_, group), topics in groups.items():
        shared = [readers for readers in topics.values() if len(readers) > 1]
        if shared:
            yield _warning(group, shared)


def _warning(group: str, shared: Sequence[Mapping[str, str]]) -> str:
    targets = dict.fromkeys(target for readers in shared for target in readers)
    read = dict.fromkeys(table for readers in shared for table in readers.values())
    return (
        f"the INSERTs into {_listed(targets)} read {_listed(read)} with one consumer group, '{group}'. Each "
        "commits its position to it and overwrites that of the others. So the lag of the group is that of "
        "any of them, and a job that starts at 'group-offsets' may skip records. The rows are right. Give "
        f"each INSERT its own group by a hint behind the table: /*+ OPTIONS('properties.{_GROUP}' = '...') */"
    )


def _listed(names: Mapping[str, None]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
