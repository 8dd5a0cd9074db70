"""Plant bugs in penstock, one at a time, and look whether `make test` finds each.

`python -m tests.mutants [NAME...]` copies the checkout into a temporary folder. For each bug it changes one
line there and runs tests of `make test` until one fails: those of the room, all unit tests, then those on
real parts. It prints the test that failed. The exit status is 1 if a bug was not found.
Invariant: the checkout itself is not changed. Without a bug the tests of the copy pass, so a failure is a
find. A text that does not stand exactly once in its file is an error, so that the list stays true.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
COPIED = ("src", "tests", "docs", "examples", "benchmarks", "build_backend", ".ci")


@dataclass(frozen=True)
class Mutant:
    """A bug: `old` stands once in the file, and `new` takes its place."""

    name: str
    path: str
    old: str
    new: str
    looks: tuple[str, ...]
    """Tests that are run first, because they are near."""


MUTANTS = (
    Mutant(
        "fetch forgets the new leader's epoch",
        "client/fetch/_range.py",
        "if end.end_offset < self.position.offset:",
        "if end.end_offset < 0:",
        ("tests/unit/client",),
    ),
    Mutant(
        "produce takes a first DUPLICATE_SEQUENCE as written",
        "client/produce/verdicts.py",
        "if error_code == codes.DUPLICATE_SEQUENCE_NUMBER and batch.is_resend:",
        "if error_code == codes.DUPLICATE_SEQUENCE_NUMBER:",
        ("tests/unit/client",),
    ),
    Mutant(
        "produce takes a resend out of order as written",
        "client/produce/verdicts.py",
        "return Verdict.DOUBT if batch.is_resend else Verdict.FAILED",
        "return Verdict.ACKNOWLEDGED if batch.is_resend else Verdict.FAILED",
        ("tests/unit/client",),
    ),
    Mutant(
        "produce has one batch too many in flight",
        "client/produce/batches.py",
        "ordinal < self.batches[0].ordinal + self._max_in_flight",
        "ordinal <= self.batches[0].ordinal + self._max_in_flight",
        ("tests/unit/client",),
    ),
    Mutant(
        "produce sends new batches while it resends",
        "client/produce/batches.py",
        "if self._is_resending or not self._is_known_to_broker:",
        "if not self._is_known_to_broker:",
        ("tests/unit/client",),
    ),
    Mutant(
        "a continuous task commits offsets without the generation of its plan",
        "relay/task.py",
        "offset_commit_request(request.identity, plan.membership, request.positions, notes)",
        "offset_commit_request(request.identity, Membership(plan.membership.group_id), request.positions)",
        ("tests/unit/relay",),
    ),
    Mutant(
        "offsets of two lanes overtake one another",
        "relay/_pipeline.py",
        "return before is None or before.has_finished(stage)",
        "return stage is Stage.COMMIT_OFFSETS or before is None or before.has_finished(stage)",
        ("tests/unit/relay",),
    ),
    Mutant(
        "a continuous task takes the answer of an earlier start",
        "relay/loop.py",
        "        self._under_way.clear()\n",
        "",
        ("tests/unit/relay",),
    ),
    Mutant(
        "a continuous task writes after a start what it had read before",
        "relay/loop.py",
        "        self._read.clear()\n",
        "",
        ("tests/unit/relay",),
    ),
    Mutant(
        "a continuous task ends its transaction after offsets were refused",
        "relay/_pipeline.py",
        "if reply.error_code not in _CHANGED_NOTHING:",
        "if reply.error_code not in _CHANGED_NOTHING and not isinstance(request, CommitOffsets):",
        ("tests/unit/relay",),
    ),
    Mutant(
        "sink does not look whether another prefix has the batch",
        "sink/exactly_once/_commit.py",
        "            if previous is None:\n                came_back_from",
        "            if previous is None and siblings:\n                came_back_from",
        ("tests/unit/sink",),
    ),
    Mutant(
        "sink does not compare the replay of a lost batch",
        "sink/exactly_once/_commit.py",
        "        check_replay(previous, reports, names)\n",
        "",
        ("tests/unit/sink",),
    ),
    Mutant(
        "sink aborts what is decided, after a commit that failed",
        "sink/exactly_once/_commit.py",
        "abort_strays(kafka, names, without_decided(log, strays))",
        "abort_strays(kafka, names, strays)",
        ("tests/unit/sink",),
    ),
    Mutant(
        "sink aborts transactions of a newer driver",
        "sink/exactly_once/_recovery.py",
        "        _check_still_ours(kafka, log, names, session)\n",
        "        pass\n",
        ("tests/unit/sink",),
    ),
    Mutant(
        "sink's round robin repeats a partition",
        "sink/_partitioner.py",
        "self._next[topic] = first + rows.num_rows",
        "self._next[topic] = first + rows.num_rows - 1",
        ("tests/unit/sink",),
    ),
    Mutant(
        "source starves small topic partitions under a limit",
        "source/_limits.py",
        "topic_partition: max(1, backlog * max_records // total)",
        "topic_partition: backlog * max_records // total",
        ("tests/unit/source",),
    ),
    Mutant(
        "source does not see a log that was cut back",
        "source/_beginning.py",
        "            if log.end >= behind[tp]:",
        "            if log.end >= log.start:",
        ("tests/unit/source",),
    ),
    Mutant(
        "source begins again at 0 where a topic was left",
        "source/_beginning.py",
        "return kept, {**starts, **back, **log_starts}",
        "return kept, {**starts, **dict.fromkeys(back, 0), **log_starts}",
        ("tests/unit/source",),
    ),
    Mutant(
        "source mixes up loss and removal",
        "source/_data_loss.py",
        "if self.fail_on_removal if is_removal else self.fail_on_loss:",
        "if self.fail_on_loss if is_removal else self.fail_on_removal:",
        ("tests/unit/source",),
    ),
    Mutant(
        "state takes an older version of a partition",
        "state/store.py",
        "if partition in begun.saved and version != task.batch_id - 1:",
        "if partition in begun.saved and version > task.batch_id - 1:",
        ("tests/unit/state",),
    ),
    Mutant(
        "state counts what a later run has computed again",
        "state/lineage.py",
        "claim.epoch > epoch and claim.first_batch <= version",
        "claim.epoch > epoch and claim.first_batch < version",
        ("tests/unit/state",),
    ),
    Mutant(
        "state lets a row live a millisecond too long",
        "state/snapshot.py",
        "alive &= unknown | (touched + ttl_ms > now_ms)",
        "alive &= unknown | (touched + ttl_ms >= now_ms)",
        ("tests/unit/state", "tests/unit/changelog"),
    ),
    Mutant(
        "aggregate keeps a group that lost its last row",
        "changelog/operators/aggregate.py",
        "removed, inserted = was & ~is_there, ~was & is_there",
        "removed, inserted = was & ~is_there & ~was, ~was & is_there",
        ("tests/unit/changelog",),
    ),
    Mutant(
        "aggregate keeps values of a group that lost its last row",
        "changelog/operators/aggregate.py",
        "np.where(is_empty[values.groups], 0, values.after)",
        "np.where(is_empty[values.groups], values.after, values.after)",
        ("tests/unit/changelog",),
    ),
    Mutant(
        "aggregate takes a row that goes without its values",
        "changelog/operators/aggregate.py",
        "np.flatnonzero((counts > there) & (there > 0))",
        "np.flatnonzero((counts > there) & (there > counts))",
        ("tests/unit/changelog",),
    ),
    Mutant(
        "append_join gives a combination for each side with a new row",
        "changelog/operators/append_join.py",
        "for side in kept if number < first else chain([self.new[number]], kept):",
        "for side in chain([self.new[number]], kept):",
        ("tests/unit/changelog/test_append_join.py",),
    ),
    Mutant(
        "joins that compare more or fewer values are one join",
        "sql/passes/merge_joins.py",
        "if sorted(places) != list(range(len(keys[0]))):",
        "if -1 in places:",
        ("tests/unit/sql/test_plans.py",),
    ),
    Mutant(
        "an input of a join has one row if its key shares a column with it",
        "sql/plan/traits.py",
        "is_one = key <= {columns[labels[number]] for labels in operator.on}",
        "is_one = bool(key & {columns[labels[number]] for labels in operator.on})",
        ("tests/unit/sql/test_plans.py",),
    ),
    Mutant(
        "temporal_join keeps the version of a key that an update has changed",
        "changelog/operators/temporal_join.py",
        "            is_end |= is_before & ends\n",
        "",
        ("tests/unit/changelog",),
    ),
    Mutant(
        "top_n forgets the rows above",
        "changelog/operators/top_n.py",
        "np.clip(each - of_group, 0, counts)",
        "np.clip(each - of_group, 0, 1)",
        ("tests/unit/changelog",),
    ),
    Mutant(
        "top_n keeps the rows that it skips",
        "changelog/operators/top_n.py",
        "return _Top(np.maximum(of_group, self.skipped), kept - skipped, kept)",
        "return _Top(np.maximum(of_group, self.skipped), kept, kept)",
        ("tests/unit/changelog",),
    ),
    Mutant(
        "SQL forgets which values are NULL in a null-safe key",
        "sql/passes/null_safe.py",
        "made = context.equal((values[0], tests[0]), (values[1], tests[1]))",
        "made = context.equal((values[0],), (values[1],))",
        ("tests/unit/sql",),
    ),
    Mutant(
        "SQL keeps the first row instead of the last",
        "sql/passes/engine/ranks.py",
        "operator = Deduplication(labels_of(keys), labels_of(order), node.order[0].is_descending)",
        "operator = Deduplication(labels_of(keys), labels_of(order), False)",
        ("tests/unit/sql",),
    ),
    Mutant(
        "SQL forgets NULL in NOT IN",
        "sql/passes/unnest_queries.py",
        "return not (all(given) and never_null(found.node).issuperset(query.outputs))",
        "return not (all(given) or never_null(found.node).issuperset(query.outputs))",
        ("tests/unit/sql",),
    ),
    Mutant(
        "SQL shifts windows of CUMULATE the other way",
        "sql/emit/windows.py",
        'passed = f"pmod({micros} - {1_000 * spans.offset}, {1_000 * spans.size})"',
        'passed = f"pmod({micros} + {1_000 * spans.offset}, {1_000 * spans.size})"',
        ("tests/unit/sql",),
    ),
    Mutant(
        "SQL looks for a row with a kept time by the offset of its record",
        "sql/passes/keep_varying.py",
        "if plan.names[-len(OFFSETS) :] != OFFSETS:",
        "if True:",
        ("tests/unit/sql/test_plans.py",),
    ),
    Mutant(
        "kept times: the row with the least time goes",
        "changelog/operators/keep_values.py",
        "greatest = [descending(_dense(each))",
        "greatest = [_dense(each)",
        ("tests/unit/changelog",),
    ),
    Mutant(
        "a continuous task takes the answers of two leaders",
        "relay/_reader.py",
        "if fetch.offsets[each.topic_partition] == self._positions[each.topic_partition]:",
        "if each.topic_partition in self._positions:",
        ("tests/unit/relay/test_reader.py",),
    ),
)


def copy_of_checkout(folder: Path) -> Path:
    """Copy what the tests read."""
    tree = folder / "tree"
    tree.mkdir()
    for name in COPIED:
        shutil.copytree(
            ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__", "node_modules")
        )
    for each in ROOT.iterdir():
        if each.is_file():
            shutil.copy2(each, tree / each.name)
    return tree


def first_failure(tree: Path, arguments: list[str]) -> str | None:
    """Return the first test that fails; None if all pass."""
    environment = {**os.environ, "PYTHONPATH": f"{tree / 'src'}:{tree}", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "2", "-p", "no:cacheprovider", *arguments]
    told = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    if told.returncode in (0, 5):
        return None
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", told.stdout, re.MULTILINE)
    return found[1] if found else told.stdout[-800:]


def hunt(tree: Path, mutant: Mutant) -> str | None:
    """Plant a bug, run the tests, and take the bug away again."""
    path = tree / "src" / "penstock" / mutant.path
    text = path.read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        raise SystemExit(
            f"{mutant.name}: expected its text once in {mutant.path}, got {text.count(mutant.old)}"
        )
    path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    try:
        real = ["-m", "promise", "tests/kafka", "tests/spark", "tests/chaos"]
        rounds = [list(mutant.looks), ["tests/unit", "tests/contract"], real]
        return next((found for each in rounds if (found := first_failure(tree, each))), None)
    finally:
        path.write_text(text, encoding="utf-8")


def main() -> None:
    """Hunt the bugs that are named, or all."""
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        tree = copy_of_checkout(Path(folder))
        if not sys.argv[1:] and (failed := first_failure(tree, ["tests/unit", "tests/contract"])) is not None:
            sys.exit(f"Without a bug {failed} fails. Nothing was tried.")
        for mutant in MUTANTS:
            if sys.argv[1:] and mutant.name not in sys.argv[1:]:
                continue
            found = hunt(tree, mutant)
            print(f"{mutant.name}: {found or 'NOT FOUND'}", flush=True)  # noqa: T201 - its output
            if found is None:
                missed.append(mutant.name)
    sys.exit(f"{len(missed)} not found: {missed}" if missed else 0)


if __name__ == "__main__":
    main()
