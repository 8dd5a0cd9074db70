"""Pick free ports for brokers.

Runs where the cluster is started. Invariant: a port was free when it was picked. If another process takes the
port before the broker does, the cluster starts again with other ports.
"""

from __future__ import annotations

import random
import socket

from penstock.devbroker.properties import HOST
from penstock.errors import DevBrokerError

# Below the ports that Linux (32768) and macOS (49152) give to outgoing connections, because such a connection
# could take the port of a broker that is being restarted.
_FIRST, _LAST = 20_000, 32_000
_TRIES = 1000


def free_ports(count: int) -> list[int]:
    """Return `count` different ports without a listener."""
    chosen: list[int] = []
    source = random.SystemRandom()  # never a seeded sequence: parallel test runs would collide
    for _ in range(_TRIES):
        port = source.randrange(_FIRST, _LAST)
        if port not in chosen and is_free(port):
            chosen.append(port)
        if len(chosen) == count:
            return chosen
    raise DevBrokerError(f"No {count} free ports between {_FIRST} and {_LAST} were found in {_TRIES} tries.")


def is_free(port: int) -> bool:
    """Return whether a server could listen on the port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(
            socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
        )  # as Kafka does: old connections do not count
        try:
            probe.bind((HOST, port))
            probe.listen(1)
        except OSError:
            return False
    return True
