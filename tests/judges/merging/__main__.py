"""Let Spark keep a table by MERGE, and its driver die: `python -m tests.judges.merging --format delta ...`.

A real broker, and a real Spark with the JAR of Delta or Iceberg. `--python` is that of an environment with a
PySpark that the JAR fits, such as one of `make versions`; `--jars` are paths of JARs with commas. Runs by
hand: the JARs are fetched. Invariant: the exit status is 0 only if the table was right after each death, each
batch has one commit, a column that moved under a MERGE has its values, a foreign commit under a MERGE ended
the query in this batch and in the next one, and columns of the type VARIANT had their values (`variants.py`).
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

from penstock.devbroker import DevCluster
from tests import judge
from tests.judges.debezium.hunt import say
from tests.judges.merging import variants
from tests.judges.merging.job import BACK, BEFORE, COMPACTION, FOREIGN, KEY, MERGE, MOVED
from tests.judges.merging.running import ran

TOPIC = "customers"
_KEYS, _CHANGES = 150, 300
_LONG = 12_000
_STEPS = ("all", "deaths", "variants")


class Scene:
    """A table, its topic, and what the table has to be."""

    def __init__(self, given: argparse.Namespace, bootstrap: str, folder: Path) -> None:
        self._given = given
        self._bootstrap = bootstrap
        self._folder = folder
        self._random = random.Random(given.seed)
        self.rows = dict[int, list[Any]]()

    @property
    def is_iceberg(self) -> bool:
        return bool(self._given.format == "iceberg")

    def change(self, *, length: int = 8) -> None:
        """Send changes to the topic."""
        records = list[tuple[None, bytes]]()
        for number in range(_CHANGES):
            key = self._random.randrange(_KEYS)
            is_deleted = self._random.random() < 0.3
            name = f"{number}".rjust(length, "ü")
            price, at = str(Decimal(number) / 100), f"2026-01-01 00:{number // 60:02}:{number % 60:02}"
            more = {"small": number - 150, "made": {"order-id": number % 100}}
            row = {KEY: key, "name": name, "price": price, "at": at, "kind": "+U", **more}
            if is_deleted:
                row = {KEY: key, "kind": "-D"}
                self.rows.pop(key, None)
            else:
                exact = str(Decimal(price).quantize(Decimal("0.01")))
                self.rows[key] = [key, name, exact, at, number - 150, [number % 100]]
            records.append((None, json.dumps(row).encode()))
        judge.produce(self._bootstrap, TOPIC, *records)

    def run(self, part: str | None = None, batch: int = -2, *more: str) -> dict[str, Any] | None:
        """Run the job to its end; return what it said, None if it died."""
        command = [self._given.python, "-m", "tests.judges.merging.job", "--format", self._given.format]
        command += ["--jars", self._given.jars, "--bootstrap", self._bootstrap, "--topic", TOPIC]
        command += ["--folder", str(self._folder), "--batch", str(batch), *more]
        command += [] if part is None else ["--part", part]
        return ran(command, self._folder)

    def next_batch(self, answer: dict[str, Any] | None) -> int:
        """Compare the table with what it has to be, and its commits with the batches.

        Returns:
            The number of the next batch.
        """
        if answer is None or "error" in answer:
            raise AssertionError(f"expected rows, got {answer}")
        rows = {row[0]: row for row in answer["rows"]}
        wrong = {key for key in rows | self.rows if rows.get(key) != self.rows.get(key)}
        if wrong or len(rows) < len(answer["rows"]):
            some = [(str(rows.get(key))[-60:], str(self.rows.get(key))[-60:]) for key in sorted(wrong)[:5]]
            raise AssertionError(
                f"{len(wrong)} of {len(self.rows)} rows differ (found and expected): {some}; batches "
                f"{answer['batches']}"
            )
        found: list[int] = answer["batches"]
        if found != list(range(found[0], -2, -1)):
            raise AssertionError(f"expected each batch once, got {found}")
        compactions = answer["compactions"]
        if self._given.format == "delta" and not compactions:
            raise AssertionError("expected that Delta compacts the table after a MERGE, and it did not")
        say(
            f"{len(self.rows)} rows equal, {found[0] + 1} batches in a commit each, {compactions} of them "
            "compacted by Delta in a commit with the same metadata"
        )
        return found[0] + 1


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--format", choices=("delta", "iceberg"), required=True)
    parser.add_argument("--python", required=True)
    parser.add_argument("--jars", required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", choices=_STEPS, default="all")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-merging-") as name, DevCluster() as cluster:
        folder, bootstrap = Path(name), cluster.bootstrap_servers
        if given.steps != "variants":
            judge.create_topic(bootstrap, TOPIC)
            (folder / "deaths").mkdir()
            _judged(Scene(given, bootstrap, folder / "deaths"))
        if given.steps != "deaths":
            variants.judged(given, bootstrap, folder)


def _judged(scene: Scene) -> None:
    scene.change()
    for part, batch in ((MERGE, 0), (BEFORE, 1), (MERGE, 2)):
        _die(scene, part, batch)
    number = scene.next_batch(scene.run())
    scene.change(length=_LONG)
    _die(scene, MERGE, number, "--staging")
    number = scene.next_batch(scene.run(None, -2, "--staging"))
    scene.change()
    number = scene.next_batch(scene.run(COMPACTION, number))
    scene.change()
    number = scene.next_batch(_moved(scene, number))
    scene.change()
    for again in ("the batch", "a new start"):
        answer = scene.run(FOREIGN if again == "the batch" else None, number)
        # MERGE of Iceberg may lose the conflict. The look before the next attempt finds the commit then.
        if answer is None or "Another writer has committed the operation" not in answer.get("error", ""):
            raise AssertionError(f"expected that {again} finds the foreign commit, got {answer}")
        when = "under" if "before it was committed" in answer["error"] else "after"
        say(f"{again} has found the foreign commit {when} the last batch")


def _moved(scene: Scene, number: int) -> dict[str, Any] | None:
    """Let a column move under a MERGE. Iceberg's log does not show it, so the next batch is refused."""
    answer = scene.run(MOVED, number)
    if not scene.is_iceberg:
        return answer
    if answer is None or "dropped and added again, moves so" not in answer.get("error", ""):
        raise AssertionError(f"expected that the moved column is found, got {answer}")
    say("the moved column was found by the next batch")
    return scene.run(BACK)


def _die(scene: Scene, part: str, batch: int, *more: str) -> None:
    if (answer := scene.run(part, batch, *more)) is not None:
        raise AssertionError(f"expected that the driver dies {part} of batch {batch}, got {answer}")
    say(f"the driver died {part} of batch {batch}")


if __name__ == "__main__":
    main()
