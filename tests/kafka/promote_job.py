"""`penstock promote` or `rollback` in a process of its own, which a test kills at one of its steps.

    python -m tests.kafka.promote_job <bootstrap> <prefix> <checkpoint> <to> promote|rollback
        [<state> <new state>]

Prints each step, and waits for a line on stdin before it continues.
"""

from __future__ import annotations

import subprocess
import sys

from penstock.cli._hand_over import Wanted, hand_over
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import ConnectionSettings
from penstock.state.carried import CarriedState
from tests.waiting import PATIENCE_S

BEFORE = ("taken", "read")
"""Before these steps, and after them, nothing is handed over."""
STATE_COPIED = "state copied"
"""The last step before it is handed over, if the job has a state."""
AFTER = ("handed over", "written metadata", "written offsets/0", "written commits/0")
"""From these steps on it is handed over, and the checkpoint does not exist."""
STATE_PUBLISHED = "state published"
"""The first step after it is handed over, if the job has a state."""
LAST = "renamed"


def killed_at(
    step: str, bootstrap: str, prefix: str, checkpoint: str, to: str, command: str = "promote", *states: str
) -> None:
    """Run it up to a step, and kill it there with SIGKILL."""
    arguments = [sys.executable, "-m", "tests.kafka.promote_job", bootstrap, prefix, checkpoint, to, command]
    arguments += states
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        seen = []
        for line in process.stdout:
            seen.append(line.strip())
            if seen[-1] == step:
                process.kill()
                break
            process.stdin.write("\n")
            process.stdin.flush()
        else:
            raise AssertionError(f"it ended without the step {step!r}, after {seen}")
        process.wait(PATIENCE_S)


def main(bootstrap: str, prefix: str, checkpoint: str, to: str, command: str, *states: str) -> None:
    """Run it, with a wait at each step."""
    connections = KafkaConnections(ConnectionSettings(tuple(bootstrap.split(",")), "promote-job"))

    def say(step: str) -> None:
        sys.stdout.write(f"{step}\n")
        sys.stdout.flush()
        sys.stdin.readline()

    state = CarriedState(*states) if states else None
    wanted = Wanted(prefix, checkpoint, to, is_rollback=command == "rollback", state=state)
    hand_over(connections, wanted, is_sure=True, reached=say)
    connections.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
