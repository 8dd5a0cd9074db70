"""Run a real Debezium, kill it at random, and compare tables: `python -m tests.judges.debezium --kills 20`.

Runs by hand where PostgreSQL is installed (on Debian `postgresql`). Invariant: the exit status is 0 only if
the copy was equal to the table after each round.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from penstock.devbroker import DevCluster
from tests.judges.debezium.hunt import Hunt, say
from tests.judges.debezium.recording import record
from tests.judges.debezium.servers import DEBEZIUM_VERSION, find_postgresql, running_postgresql
from tests.judges.debezium.workload import Workload

KILLS_IN_ROUND = 5
TOAST_LENGTH, RECORDED_LENGTH = 6_000, 20
"""Of large texts. PostgreSQL keeps texts of more than 2,000 bytes apart from their row."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--has-schema", action="store_true", help="each message holds its schema")
    parser.add_argument("--record", action="store_true", help="write tests/data/cdc/debezium-postgresql.json")
    given = parser.parse_args()
    programs = find_postgresql()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the servers end too
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="penstock-debezium-") as name:
        folder = Path(name)
        with running_postgresql(programs, folder) as dsn, DevCluster() as cluster:
            table = Workload(dsn, given.seed, RECORDED_LENGTH if given.record else TOAST_LENGTH)
            hunt = Hunt(cluster.bootstrap_servers, dsn, folder, table, has_schema=given.has_schema)
            with closing(hunt):
                record(hunt) if given.record else run(hunt, given.kills)
    say(f"Debezium {DEBEZIUM_VERSION}: all is equal, in {(time.monotonic() - began_s) / 60:.0f} minutes")


def run(hunt: Hunt, kills: int) -> None:
    """Run rounds until there were so many kills, and end with a truncate."""
    hunt.first_snapshot()
    while hunt.killed.total() < kills:
        hunt.round(min(KILLS_IN_ROUND, kills - hunt.killed.total()))
    changes, repeated = hunt.repeated()
    say(f"{changes} changes in the topic, {repeated} of them sent again; {hunt.rows_checked} rows compared")
    hunt.truncate()
    hunt.stop_at_truncate()


if __name__ == "__main__":
    main()
