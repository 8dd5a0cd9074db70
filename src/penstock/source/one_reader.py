"""Check that a stream does not read what a continuous query reads or has read: each would write the records.

Runs on the driver, at the start of a run. Invariant: if the check of a new stream passes, no transaction of
an earlier continuous query can move its group's offsets any more, except one that is open. Reading committed
offsets waits for that one.
"""

from __future__ import annotations

import logging

from penstock.client.cluster.log_offsets import CONTINUOUS_FORM, committed_notes
from penstock.client.cluster.membership import has_only_member
from penstock.client.net.connection import KafkaConnections
from penstock.errors import ClientError, OffsetOutOfRangeError, PenstockError
from penstock.options.config import SourceConfig
from penstock.source.checkpoint_offset import Positions
from penstock.types import Committed

_log = logging.getLogger(__name__)
_PATIENCE_MS = 3_000
"""Short, because a stream with a checkpoint can read without the group's coordinator."""


def check_no_continuous_query(config: SourceConfig, connections: KafkaConnections) -> None:
    """Raise if the stream starts at the offsets of a group that has a continuous query as its member.

    Call it before the offsets are read. Only a member of the group can commit offsets in a transaction that
    has its generation, so after the group has dropped the member its tasks can commit nothing.

    Raises:
        ClientError: the group has such a member, or no coordinator answers in time.
        AuthorizationError: the group may not be described.
    """
    group_id, starting = config.group_id, config.starting
    if group_id is None or starting is None or Committed() not in starting.positions:
        return
    if not has_only_member(connections, group_id):
        return
    raise ClientError(
        f"A continuous query is the member of the consumer group {group_id!r}, or was killed less than a "
        "minute ago. It still moves the offsets at which this stream is to start, so records would be "
        "written twice. Nothing was read. Stop the continuous query. If it was killed, wait until the group "
        "has dropped it, which takes 30 s, and start this stream again.",
        group_id=group_id,
    )


def check_not_taken_over(config: SourceConfig, connections: KafkaConnections, positions: Positions) -> None:
    """Raise if a continuous query has read on in the group, after the checkpoint of a stream was written.

    Raises:
        OffsetOutOfRangeError: the group is after a position, and a continuous query has committed that.
    """
    group_id = config.group_id
    if group_id is None or not config.commits_offsets:
        return
    try:
        found = committed_notes(
            connections, group_id, list(positions), is_stable=False, timeout_ms=_PATIENCE_MS
        )
    except PenstockError as error:
        _log.info("Could not ask whether a continuous query has the group %r: %s", group_id, error)
        return
    for topic_partition, committed in sorted(found.items()):
        at = positions[topic_partition]
        if committed.offset <= at or committed.note.split(" ")[0] != CONTINUOUS_FORM:
            continue
        raise OffsetOutOfRangeError(
            f"The checkpoint of this stream is at offset {at} of {topic_partition}, but a continuous query "
            f"has read on to offset {committed.offset} in the consumer group {group_id!r}. The stream would "
            "write these records a second time. Nothing was read. To let a stream continue where the "
            "continuous query has stopped, give it a new checkpointLocation and 'scan.startup.mode' = "
            "'group-offsets'. "
            "If both shall write the records, give the stream another group id.",
            group_id=group_id,
            topic=topic_partition.topic,
            partition=topic_partition.partition,
            offset=at,
        )
