"""Write the records of the corpus into topics of a real broker.

Invariant: every topic has one partition, and the time of a record is its line in its file, so both systems
read the same records in the same order.
"""

from __future__ import annotations

from pathlib import Path

from confluent_kafka.admin import NewTopic

from tests import judge
from tests.judges.sql.corpus import INPUT

_FIRST_MS = 1_767_225_600_000  # 2026-01-01 in UTC
_STEP_MS = 1_000
_KEPT = {"retention.ms": "-1"}  # the records are old


def write_inputs(bootstrap: str, prefix: str) -> None:
    """Create and fill all topics that scripts read."""
    files = sorted(INPUT.iterdir())
    create(bootstrap, [f"{prefix}{file.stem}" for file in files])
    for file in files:
        judge.produce(bootstrap, f"{prefix}{file.stem}", *_records(file))


def create(bootstrap: str, topics: list[str]) -> None:
    """Create topics, all at once."""
    if not topics:
        return
    wanted = [NewTopic(topic, num_partitions=1, config=dict(_KEPT)) for topic in topics]
    client = judge.admin(bootstrap)  # held: its futures never end once it is collected
    for created in client.create_topics(wanted, operation_timeout=60).values():
        created.result()
    for topic in topics:
        judge.wait_for_leaders(bootstrap, topic, 1)


def _records(file: Path) -> list[judge.Record]:
    is_upsert = file.suffix == ".upsert"
    found = []
    for number, line in enumerate(file.read_text().splitlines()):
        key, _, value = line.partition("\t") if is_upsert else ("", "", line)
        found.append(
            judge.Record(
                key=key.encode() if is_upsert else None,
                value=value.encode() if value else None,
                timestamp_ms=_FIRST_MS + number * _STEP_MS,
            )
        )
    return found
