"""Ask whether the user may write transactional ids, for `penstock doctor`.

Runs on any machine that reaches the brokers. Invariant: asks only, changes nothing.
"""

from __future__ import annotations

from penstock.client.net.connection import KafkaConnections
from penstock.client.transactions.steps import (
    EndState,
    TransactionIdentity,
    TransactionProtocol,
    Transactions,
)
from penstock.errors import AuthorizationError, PenstockError

_PROBE_SUFFIX = "-penstock-doctor"


def may_write_ids(connections: KafkaConnections, prefix: str, *, timeout_ms: int) -> PenstockError | None:
    """Return the error if the user may not WRITE transactional ids of the prefix; otherwise None.

    Asks to abort a transaction of an unused id, which only a user with the right is told.

    Raises:
        ClientError: the coordinator does not answer in time.
    """
    unused = TransactionIdentity(f"{prefix}{_PROBE_SUFFIX}", 0, 0, TransactionProtocol.V1)
    result = Transactions(connections).end([unused], is_commit=False, timeout_ms=timeout_ms)[unused]
    if isinstance(result.error, AuthorizationError):
        return result.error
    if result.state is EndState.UNKNOWN and result.error is not None:
        raise result.error
    return None
