"""A process that puts dead letters back, again and again in a child that dies before one of its requests.

`python -m tests.kafka.dying_requeue SERVERS` reads lines of `TOPIC NUMBER`, and answers each with the number
of requests that the child has sent, and `died` or `done`. Number 0: the child does not die. It is a fork,
because the imports take longer than the work. The parent has no connection, so no thread.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import ConnectionSettings
from penstock.sink.dead_letters import requeue
from penstock.sink.dead_letters.found import places_of, read_dead_letters

_send = KafkaConnections.send


def put_back(servers: str, topic: str, dies_before: int) -> int:
    """Put the dead letters of a topic back, two in a transaction. Return the number of requests."""
    sent = 0

    def send(*arguments: Any, **named: Any) -> Any:
        nonlocal sent
        sent += 1
        if sent == dies_before:
            os.kill(os.getpid(), signal.SIGKILL)
        return _send(*arguments, **named)

    KafkaConnections.send = send  # type: ignore[method-assign]  # only in this child
    requeue._TOGETHER = 2
    connections = KafkaConnections(ConnectionSettings((servers,), "dying-requeue"))
    letters = read_dead_letters(connections, places_of(connections, topic))
    list(requeue.Requeue(connections, topic).run(letters))
    connections.close()
    return sent


def main() -> None:
    """Do what stdin says."""
    for line in sys.stdin:
        topic, number = line.split()
        read_end, write_end = os.pipe()
        child = os.fork()
        if not child:
            os.write(write_end, b"%d" % put_back(sys.argv[1], topic, int(number)))
            os._exit(0)
        os.close(write_end)
        told = os.read(read_end, 20).decode()
        os.close(read_end)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{told or 0} {'died' if os.WIFSIGNALED(status) else 'done'} {status}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
