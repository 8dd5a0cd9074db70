"""Kill the processes of a script of Flink's SQL at random, and judge each row.

    python -m tests.chaos.sql_hunt --kills 100 [--seed 1] [--seconds 1500] [--driver-every 4]

The script has two INSERTs, both exactly-once: a filter from topic to topic, and changes of a database
(debezium-json) whose groups go into an upsert-kafka table. Each kill takes the driver or a Python worker at a
random moment of a batch. Then the script runs again, from its checkpoints. The program ends with 0 if a
read_committed consumer (confluent-kafka) finds each filtered row once, and under each key of the upsert table
the rows that plain Python makes of each batch, in their order; if no transaction is open; and if the state is
whole.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from penstock.devbroker import DevCluster
from penstock.state import tools
from penstock.state.files import LocalFiles
from tests import judge
from tests.chaos.chain_hunt import SETTINGS, ChainHunt, ChainScene, check_rows, quicken
from tests.chaos.exactly_once_job import Copy
from tests.chaos.fault_points import Fault
from tests.chaos.job_process import JobProcess
from tests.chaos.sql_job import PER_TRIGGER
from tests.waiting import wait_until

CITIES, PEOPLE, AMOUNTS = 7, 150, 40
DRIVER_EVERY = 4
SCRIPT = """
SET 'execution.checkpointing.dir' = '{checkpoints}';

CREATE TABLE orders (id BIGINT, city STRING, amount INT) WITH (
  'connector' = 'kafka', 'topic' = '{orders}', 'properties.bootstrap.servers' = '{servers}',
  'scan.startup.mode' = 'earliest-offset', 'scan.max-records-per-batch' = '{per_trigger}', 'format' = 'json'
);
CREATE TABLE large (id BIGINT, city STRING, amount INT) WITH (
  'connector' = 'kafka', 'topic' = '{large}', 'properties.bootstrap.servers' = '{servers}', 'format' = 'json',
  'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '{prefix}-large'
);
CREATE TABLE people (id BIGINT, city STRING, amount INT, PRIMARY KEY (id) NOT ENFORCED) WITH (
  'connector' = 'kafka', 'topic' = '{people}', 'properties.bootstrap.servers' = '{servers}',
  'scan.startup.mode' = 'earliest-offset', 'scan.max-records-per-batch' = '{per_trigger}',
  'format' = 'debezium-json'
);
CREATE TABLE cities (city STRING PRIMARY KEY NOT ENFORCED, n BIGINT, total INT, most INT) WITH (
  'connector' = 'upsert-kafka', 'topic' = '{cities}', 'properties.bootstrap.servers' = '{servers}',
  'key.format' = 'json', 'value.format' = 'json',
  'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '{prefix}-cities'
);

INSERT INTO large SELECT id, UPPER(city), amount * 2 FROM orders WHERE amount >= 10;
INSERT INTO cities SELECT city, COUNT(*), SUM(amount), MAX(amount) FROM people GROUP BY city;
"""
Person = dict[str, Any]


class SqlScene(ChainScene):
    """The script, its topics, and the judge. `copy` stands for the INSERT of groups."""

    module = "tests.chaos.sql_job"

    def __init__(self, copy: Copy, folder: Path, seed: int, orders: str, large: str) -> None:
        super().__init__(copy, folder, seed, cluster=None)
        self.orders, self.large = orders, large
        self._people: dict[int, Person] = {}
        self._script = folder / "job.sql"
        self._script.write_text(
            SCRIPT.format(
                checkpoints=Path(copy.checkpoint).parent,
                servers=copy.bootstrap,
                prefix=copy.prefix,
                orders=orders,
                large=large,
                people=copy.source,
                cities=copy.target,
                per_trigger=PER_TRIGGER,
            )
        )

    def fill(self, count: int) -> None:
        """Send half of the records as orders and half as changes of people."""
        numbers = range(self.record_count, self.record_count + count // 2)
        self.record_count += count
        orders = [(b"%d" % number, json.dumps(self._person(number)).encode()) for number in numbers]
        changes = [self._change() for _ in numbers]
        for topic, pairs in ((self.orders, orders), (self.copy.source, changes)):
            judge.produce(self.copy.bootstrap, topic, *pairs, config={"enable.idempotence": True})

    def _person(self, number: int) -> Person:
        city = f"city {self._random.randrange(CITIES)}"
        return {"id": number, "city": city, "amount": self._random.randrange(AMOUNTS)}

    def _change(self) -> tuple[bytes, bytes]:
        """Insert, update or delete one person. All changes of a person have one topic partition."""
        number = self._random.randrange(PEOPLE)
        before = self._people.pop(number, None)
        after = None if before is not None and self._random.random() < 0.3 else self._person(number)
        if after is not None:
            self._people[number] = after
        operation = "c" if before is None else "d" if after is None else "u"
        value = {"before": before, "after": after, "op": operation}
        return b"%d" % number, json.dumps(value).encode()

    def job(self, *more: str, fault: Fault | None = None) -> JobProcess:
        """Start the script in a process of its own."""
        assert fault is None
        settings = [f"--conf={key}={value}" for key, value in SETTINGS.items()]
        scratch = f"--scratch={self.folder / 'scratch'}"
        arguments = [str(self._script), scratch, "--master=local[2,100]", *settings, *more]
        return JobProcess(self.module, arguments, self.folder / "job.log", self.environment())

    def check(self) -> None:
        """Check each row of both tables, the transactions and the state."""
        self._check_large()
        expected = self._expected_groups()
        self.row_count += sum(map(len, expected.values()))
        seen: dict[str, list[Person]] = defaultdict(list)
        for record in judge.consume_all(self.copy.bootstrap, self.copy.target):
            value = None if record.value is None else json.loads(record.value)
            seen[json.loads(record.key or b"")["city"]].append({"row": value})
        for key in sorted(expected.keys() | seen.keys()):
            check_rows(key, seen[key], expected.get(key, []))
        wait_until(lambda: not self.open_transactions(), "no transaction to be open")
        folders = sorted(Path(self.copy.checkpoint, "penstock-sql", "state").iterdir())
        assert folders
        for folder in folders:
            assert list(tools.verify(LocalFiles(str(folder)))) == []

    def _check_large(self) -> None:
        servers = self.copy.bootstrap
        orders = [json.loads(each.value or b"") for each in judge.consume_all(servers, self.orders)]
        wanted = Counter(
            (row["id"], row["city"].upper(), row["amount"] * 2) for row in orders if row["amount"] >= 10
        )
        rows = [json.loads(each.value or b"") for each in judge.consume_all(servers, self.large)]
        found = Counter((row["id"], row["city"], row["amount"]) for row in rows)
        lost, doubled = wanted - found, found - wanted
        assert not lost, f"lost {lost.total()}: {sorted(lost)[:5]}"
        assert not doubled, f"doubled or wrong {doubled.total()}: {sorted(doubled)[:5]}"
        self.row_count = found.total()

    def _expected_groups(self) -> dict[str, list[Person]]:
        """Return the records of each key of the upsert table, from the records of each batch."""
        people: dict[int, Person] = {}
        groups: dict[str, Person] = {}
        found: dict[str, list[Person]] = defaultdict(list)
        for values in self.batches():
            for value in values:
                change = json.loads(value)
                number = (change["after"] or change["before"])["id"]
                people.pop(number, None)
                if change["after"] is not None:
                    people[number] = change["after"]
            new = _groups_of(people)
            for city in sorted(new.keys() | groups.keys()):
                if new.get(city) != groups.get(city):
                    found[city].append({"row": new.get(city)})
            groups = new
        return found


def _groups_of(people: dict[int, Person]) -> dict[str, Person]:
    amounts: dict[str, list[int]] = defaultdict(list)
    for person in people.values():
        amounts[person["city"]].append(person["amount"])
    return {
        city: {"city": city, "n": len(found), "total": sum(found), "most": max(found)}
        for city, found in amounts.items()
    }


def make_sql_hunt(
    brokers: DevCluster, folder: Path, name: str, seed: int, driver_every: int = DRIVER_EVERY
) -> ChainHunt:
    """Make topics and a script with new names."""
    topics = {part: f"{name}-{part}" for part in ("orders", "large", "people", "cities")}
    for topic in topics.values():
        judge.create_topic(brokers.bootstrap_servers, topic, partitions=3)
    checkpoint = str(folder / "checkpoints" / "insert-into_cities")
    copy = Copy(brokers.bootstrap_servers, topics["people"], topics["cities"], name, checkpoint)
    scene = SqlScene(copy, folder, seed, topics["orders"], topics["large"])
    return ChainHunt(brokers, scene, seed, driver_every)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument(
        "--driver-every", type=int, default=DRIVER_EVERY, help="one in so many kills takes the driver"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="kill no more after so long")
    arguments = parser.parse_args()
    ends_at_s = time.monotonic() + arguments.seconds
    quicken()
    with tempfile.TemporaryDirectory() as folder, DevCluster() as brokers:
        name, seed = f"sql-{arguments.seed}", arguments.seed
        hunt = make_sql_hunt(brokers, Path(folder), name, seed, arguments.driver_every)
        try:
            hunt.run(arguments.kills, ends_at_s=ends_at_s)
        finally:
            sys.stdout.write(hunt.said())
        sys.stdout.write(f"{hunt.scene.row_count:,} rows, each right, in order per key, nothing open\n")


if __name__ == "__main__":
    main()
