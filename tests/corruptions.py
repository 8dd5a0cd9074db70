"""Plant corruptions in topics and receipts, and see that `penstock verify` finds each and invents none.

    python -m tests.corruptions --count 120 --seed 35

Runs in tests only, on the fake Kafka. The batches are written by the real driver of the sink. Beside them
stand what honest clusters have: aborted transactions, also of the producer id that commits the next one,
records of other programs, retention, compaction, an open transaction. Each history is run once without and
once with a corruption, and once with something missing that must not be called proven.
"""

from __future__ import annotations

import argparse
import random
import struct
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from kafka.record.util import calc_crc32c

from penstock.client.transactions.steps import TransactionProtocol
from penstock.codec import RecordBatchDecoder
from penstock.observe.verify.check import verify
from penstock.observe.verify.found import Report, Verdict
from penstock.sink.exactly_once.digest import RecordDigest
from penstock.sink.exactly_once.log import DecisionLog
from penstock.sink.exactly_once.names import TransactionNames
from penstock.sink.exactly_once.receipt import Facts, Receipt, WrittenTransaction
from penstock.testing.fake._log import AbortedTransaction
from penstock.testing.fake.batches import Batch, marker
from penstock.types import OffsetRange, TopicPartition
from tests.scenarios.cluster import batch
from tests.unit.fake_driver import PREFIX, driver, run_task
from tests.unit.fake_driver import with_spans as with_offsets
from tests.unit.sink_cluster import TARGET, SinkCluster
from tests.unit.virtual_time import client_waits_in_virtual_time

SOURCE = TopicPartition("source", 0)
_HEADER_BYTES, _COUNT_AT = 61, 57


@dataclass
class History:
    """Some batches that a query has copied from one topic to another.

    Attributes:
        random: of the history.
        cluster: that has the topics.
        receipts: as the log has them, or changed.
        touched: the numbers of the batches that a corruption has changed.
        is_copy: whether the user says that the query copies.
        is_only_writer: whether the user says that no other program writes.
        has_other_writers: whether the user says otherwise that other programs write.
    """

    random: random.Random
    cluster: SinkCluster
    receipts: list[Receipt] = field(default_factory=list)
    touched: set[int] = field(default_factory=set)
    is_copy: bool = False
    is_only_writer: bool = False
    has_other_writers: bool = True

    def report(self) -> Report:
        """Return what verify says."""
        connections = self.cluster.client.connections
        return verify(
            connections,
            connections,
            self.receipts,
            self.receipts,
            {},
            copied=("key", "value", "headers") if self.is_copy else None,
            is_only_writer=self.is_only_writer,
            has_other_writers=self.has_other_writers and not self.is_only_writer,
        )


def write_history(seed: int) -> History:
    """Return a history of two to five batches, with what else a log has."""
    choice = random.Random(seed)
    cluster = SinkCluster(choice.choice(list(TransactionProtocol)))
    cluster.kafka.create_topic(SOURCE.topic)
    history = History(choice, cluster)
    history.is_copy, history.is_only_writer = choice.random() < 0.7, choice.random() < 0.3
    for batch_id in range(choice.randint(2, 5)):
        _write_batch(history, batch_id)
    log = DecisionLog(cluster.log_store, PREFIX)
    assert log.open(create=False)
    history.receipts = log.receipts()
    return history


def _write_batch(history: History, batch_id: int) -> None:
    choice, cluster = history.random, history.cluster
    tasks = [
        [f"{batch_id}/{task}/{choice.choice(['a', row])}" for row in range(choice.randint(1, 6))]
        for task in range(choice.randint(1, 3))
    ]
    with cluster.kafka.log(SOURCE.topic) as log:
        begin = log.end_offset
        for rows in tasks:
            log.append(Batch.of(batch(*(each.encode() for each in rows))), leader_epoch=0)
        end = log.end_offset
        topic_id = str(cluster.kafka._state.topics[SOURCE.topic].topic_id)
    side = driver(cluster)
    mandate = side.recover()
    reports = []
    for number, rows in enumerate(tasks):
        _other_records(history)
        if choice.random() < 0.3:  # an attempt that fails
            run_task(cluster, mandate, batch_id, number, rows=[*rows, "never"])
        if choice.random() < 0.3:  # an attempt whose producer id the next one takes over, which aborts it
            identity = cluster.take(TransactionNames(mandate.prefix).data_id(number, 1))
            cluster.write(identity, [*rows, "never"])
        reports.append(run_task(cluster, mandate, batch_id, number, attempt=1, rows=rows))
    read = (OffsetRange(SOURCE, begin, end),)
    side.commit(with_offsets(reports), facts=Facts("0.1.0", "4.2.1", read, {SOURCE.topic: topic_id}))


def _other_records(history: History) -> None:
    if not history.is_only_writer and history.random.random() < 0.3:
        with history.cluster.kafka.log(TARGET.topic) as log:
            log.append(Batch.of(batch(b"other")), leader_epoch=0)


# ----- what honest clusters do


def _retention(history: History, topic: str) -> None:
    with history.cluster.kafka.log(topic) as log:
        log.delete_before(history.random.randint(1, log.end_offset))


def _compaction(history: History, topic: str) -> None:
    with history.cluster.kafka.log(topic) as log:
        data = [each for each in log.batches if not each.is_control]
        log.batches.remove(history.random.choice(data))


def _emptied(history: History) -> None:
    """Let compaction take all records of a batch, and leave its header, as for the last one of a producer."""
    with history.cluster.kafka.log(TARGET.topic) as log:
        at = history.random.choice([at for at, each in enumerate(log.batches) if not each.is_control])
        log.batches[at] = emptied(log.batches[at])


def emptied(found: Batch) -> Batch:
    """Return the header of a batch, with no records."""
    data = bytearray(found.data[:_HEADER_BYTES])
    struct.pack_into(">i", data, 8, _HEADER_BYTES - 12)
    struct.pack_into(">i", data, _COUNT_AT, 0)
    struct.pack_into(">I", data, 17, calc_crc32c(memoryview(data)[21:]))
    return Batch.of(bytes(data))


def _open_transaction(history: History) -> None:
    """Let a transaction of another program hide the end of the target."""
    with history.cluster.kafka.log(TARGET.topic) as log:
        data = [each for each in log.batches if not each.is_control]
        producer = next(iter(log.producers.values()))
        producer.transaction_start = history.random.choice(data).base_offset


Event: TypeAlias = Callable[[History], None]
HONEST: dict[str, Event] = {
    "nothing": lambda history: None,
    "retention of the target": lambda history: _retention(history, TARGET.topic),
    "retention of the source": lambda history: _retention(history, SOURCE.topic),
    "compaction of the target": lambda history: _compaction(history, TARGET.topic),
    "compaction that leaves a header": _emptied,
    "compaction of the source": lambda history: _compaction(history, SOURCE.topic),
    "an open transaction": _open_transaction,
    "a target that was created again": lambda history: history.cluster.recreate_target(),
}


# ----- corruptions


def _place(history: History) -> tuple[Receipt, WrittenTransaction]:
    receipt = history.random.choice(history.receipts)
    history.touched.add(receipt.batch_id)
    return receipt, history.random.choice(receipt.transactions)


def _index(batches: Sequence[Batch], written: WrittenTransaction) -> int:
    return next(
        at
        for at, each in enumerate(batches)
        if (each.producer_id, each.producer_epoch) == written.producer and not each.is_control
    )


def _values(found: Batch) -> list[bytes]:
    decoder = RecordBatchDecoder(
        *TARGET, starting_offset=found.base_offset, stopping_offset=found.last_offset + 1, columns=["value"]
    )
    rows = [*decoder.decode(found.data), decoder.flush()]
    return [each for some in rows if some is not None for each in some.column(0).to_pylist()]


def _again(found: Batch, values: Sequence[bytes], base_offset: int, *, producer: bool = True) -> Batch:
    """Return a batch with other values, of the same producer or of none, at an offset."""
    of = (found.producer_id, found.producer_epoch, found.base_sequence) if producer else (-1, -1, -1)
    data = batch(*values, producer=of, is_transactional=producer and found.is_transactional)
    return Batch.of(data).at(base_offset, found.leader_epoch)


def lost(history: History) -> None:
    """Put a record of another program where one of a batch was."""
    _, written = _place(history)
    with history.cluster.kafka.log(TARGET.topic) as log:
        at = _index(log.batches, written)
        found, values = log.batches[at], _values(log.batches[at])
        gone = history.random.randrange(len(values))
        parts = [
            _again(found, values[:gone], found.base_offset) if gone else None,
            _again(found, [b"other"], found.base_offset + gone, producer=False),
            _again(found, values[gone + 1 :], found.base_offset + gone + 1) if values[gone + 1 :] else None,
        ]
        log.batches[at : at + 1] = [each for each in parts if each is not None]


def doubled(history: History) -> None:
    """Move the log apart, and put a record of a batch into the place a second time."""
    receipt, written = _place(history)
    with history.cluster.kafka.log(TARGET.topic) as log:
        at = _index(log.batches, written)
        found, values = log.batches[at], _values(log.batches[at])
        grown = _again(found, [*values, history.random.choice(values)], found.base_offset)
        log.batches[at] = grown
        log.batches[at + 1 :] = [each.at(each.base_offset + 1, 0) for each in log.batches[at + 1 :]]
        log.aborted = [
            each._replace(
                first_offset=each.first_offset + (each.first_offset > found.base_offset),
                marker_offset=each.marker_offset + (each.marker_offset > found.base_offset),
            )
            for each in log.aborted
        ]
        log.end_offset += 1
    history.receipts = [_moved(each, found.base_offset) for each in history.receipts]
    history.touched.add(receipt.batch_id)


def _moved(receipt: Receipt, offset: int) -> Receipt:
    """Return a receipt as it were if the log had been longer from the start."""
    transactions = tuple(
        replace(
            each,
            spans=tuple(
                one._replace(
                    span=one.span._replace(
                        first=(one.span.first or 0) + ((one.span.first or 0) > offset),
                        last=(one.span.last or 0) + ((one.span.first or 0) > offset),
                    )
                )
                for one in each.spans
            ),
        )
        for each in receipt.transactions
    )
    return replace(receipt, transactions=transactions)


def swapped(history: History) -> None:
    """Exchange a record with one of another transaction, or change it."""
    _, written = _place(history)
    with history.cluster.kafka.log(TARGET.topic) as log:
        at = _index(log.batches, written)
        others = [each.producer for one in history.receipts for each in one.transactions]
        producer = history.random.choice(others)
        other = next(
            each
            for each in range(len(log.batches))
            if (log.batches[each].producer_id, log.batches[each].producer_epoch) == producer
            and not log.batches[each].is_control
        )
        here, there = _values(log.batches[at]), _values(log.batches[other])
        mine, theirs = history.random.randrange(len(here)), history.random.randrange(len(there))
        if other == at or here[mine] == there[theirs]:
            here[mine] += b"!"
        else:
            here[mine], there[theirs] = there[theirs], here[mine]
            log.batches[other] = _again(log.batches[other], there, log.batches[other].base_offset)
            history.touched |= {
                one.batch_id for one in history.receipts if producer in {e.producer for e in one.transactions}
            }
        log.batches[at] = _again(log.batches[at], here, log.batches[at].base_offset)


def torn(history: History) -> None:
    """Damage a byte of a record batch."""
    _, written = _place(history)
    with history.cluster.kafka.log(TARGET.topic) as log:
        at = _index(log.batches, written)
        data = bytearray(log.batches[at].data)
        data[history.random.randrange(61, len(data))] ^= 0x40
        log.batches[at] = log.batches[at]._replace(data=bytes(data))


def cut_back(history: History) -> None:
    """Lose the end of the log, as an unclean election does."""
    last = max(history.receipts, key=_end)
    first = min(each.span.first or 0 for one in last.transactions for each in one.spans)
    with history.cluster.kafka.log(TARGET.topic) as log:
        offset = history.random.randint(first, _end(last) - 1)
        log.truncate(offset)
    history.touched |= {each.batch_id for each in history.receipts if _end(each) > offset}


def aborted(history: History) -> None:
    """Let the log say that a transaction was aborted."""
    aborted_at(history, *_place(history))


def aborted_at(history: History, receipt: Receipt, written: WrittenTransaction) -> None:
    """Let the log say that this transaction of a batch was aborted."""
    history.touched.add(receipt.batch_id)
    with history.cluster.kafka.log(TARGET.topic) as log:
        at = _index(log.batches, written)
        end = next(
            each
            for each in range(at, len(log.batches))
            if log.batches[each].producer_id == written.producer_id and log.batches[each].is_control
        )
        base = log.batches[end].base_offset
        plain = marker(*written.producer, is_commit=False, now_ms=0, coordinator_epoch=0)
        log.batches[end] = plain.at(base, 0)
        log.aborted.append(AbortedTransaction(written.producer_id, log.batches[at].base_offset, base))


def wrong_digest(history: History) -> None:
    """Change the digest in a receipt."""
    receipt, written = _place(history)
    content = written.content
    changed = RecordDigest(content.record_count, content.first_sum ^ 1, content.second_sum)
    _put(history, receipt, written, replace(written, content=changed))


def wrong_count(history: History) -> None:
    """Change the number of records in a receipt, in the total or by offsets."""
    receipt, written = _place(history)
    content = written.content
    changed = replace(
        written, content=RecordDigest(content.record_count + 1, content.first_sum, content.second_sum)
    )
    if history.random.random() < 0.5:
        spans = tuple(
            each._replace(span=each.span._replace(record_count=each.span.record_count + 1))
            for each in written.spans
        )
        changed = replace(changed, spans=spans)
    _put(history, receipt, written, changed)


def read_twice(history: History) -> None:
    """Let a receipt say that its batch began earlier."""
    at = history.random.randrange(1, len(history.receipts))
    receipt = history.receipts[at]
    assert receipt.read is not None
    (read,) = receipt.read
    begin = OffsetRange(SOURCE, read.starting_offset - 1, read.stopping_offset)
    history.receipts[at] = replace(receipt, read=(begin,))
    history.touched |= {receipt.batch_id}


def not_read(history: History) -> None:
    """Let a receipt say that its batch began later."""
    at = history.random.randrange(1, len(history.receipts))
    receipt = history.receipts[at]
    assert receipt.read is not None
    (read,) = receipt.read
    begin = OffsetRange(SOURCE, read.starting_offset + 1, read.stopping_offset)
    history.receipts[at] = replace(receipt, read=(begin,))
    history.touched |= {receipt.batch_id}


def _put(history: History, receipt: Receipt, before: WrittenTransaction, after: WrittenTransaction) -> None:
    written = tuple(after if each is before else each for each in receipt.transactions)
    history.receipts = [
        replace(each, transactions=written) if each is receipt else each for each in history.receipts
    ]


def _end(receipt: Receipt) -> int:
    return 1 + max(each.span.last or 0 for one in receipt.transactions for each in one.spans)


def source_changed(history: History) -> None:
    """Change a record of the source after it was copied."""
    history.is_copy = True
    receipt, _ = _place(history)
    assert receipt.read is not None
    (read,) = receipt.read
    with history.cluster.kafka.log(SOURCE.topic) as log:
        inside = [at for at, each in enumerate(log.batches) if each.base_offset in range(*_ends(read))]
        at = history.random.choice(inside)
        values = _values(log.batches[at])
        values[history.random.randrange(len(values))] += b"!"
        log.batches[at] = _again(log.batches[at], values, log.batches[at].base_offset, producer=False)


def _ends(read: OffsetRange) -> tuple[int, int]:
    return read.starting_offset, read.stopping_offset


def other_writer(history: History) -> None:
    """Let another program copy a record of a batch, between the batches."""
    history.is_only_writer = True
    receipt, written = _place(history)
    del receipt
    with history.cluster.kafka.log(TARGET.topic) as log:
        values = _values(log.batches[_index(log.batches, written)])
        log.append(Batch.of(batch(values[0])), leader_epoch=0)
    _write_batch(history, max(each.batch_id for each in history.receipts) + 1)
    log_again = DecisionLog(history.cluster.log_store, PREFIX)
    assert log_again.open(create=False)
    history.receipts = log_again.receipts()
    history.touched.clear()  # no batch differs, but the topic does


CORRUPTIONS: dict[str, Event] = {
    "lost": lost,
    "doubled": doubled,
    "swapped": swapped,
    "torn": torn,
    "cut back": cut_back,
    "aborted": aborted,
    "digest of a receipt": wrong_digest,
    "count of a receipt": wrong_count,
    "read twice": read_twice,
    "not read": not_read,
    "changed source": source_changed,
    "other writer": other_writer,
}


# ----- what may neither be called proven nor a difference


def no_ranges(history: History) -> None:
    """Forget what a batch has read."""
    receipt, _ = _place(history)
    history.receipts = [replace(each, read=None) if each is receipt else each for each in history.receipts]


def no_receipt(history: History) -> None:
    """Lose the receipt of a batch between two others, which read nothing."""
    at = history.random.randrange(1, len(history.receipts))
    history.receipts = [
        each if number < at else replace(each, batch_id=each.batch_id + 1)
        for number, each in enumerate(history.receipts)
    ]


def stray(history: History) -> None:
    """Let an attempt of a task, which no receipt names, be committed as well."""
    history.is_only_writer = history.has_other_writers = False
    _, written = _place(history)
    with history.cluster.kafka.log(TARGET.topic) as log:
        values = _values(log.batches[_index(log.batches, written)])
        log.append(Batch.of(batch(*values)), leader_epoch=0)
    _write_batch(history, max(each.batch_id for each in history.receipts) + 1)
    log_again = DecisionLog(history.cluster.log_store, PREFIX)
    assert log_again.open(create=False)
    history.receipts = log_again.receipts()


def new_partition(history: History) -> None:
    """Let a batch be the first that reads a topic partition, from an offset in the middle."""
    at = history.random.randrange(1, len(history.receipts))
    receipt = history.receipts[at]
    assert receipt.read is not None
    added = OffsetRange(TopicPartition(SOURCE.topic, 1), 3, 3 + history.random.randint(1, 9))
    history.receipts[at] = replace(receipt, read=(*receipt.read, added))


UNPROVABLE: dict[str, Event] = {
    "no ranges": no_ranges,
    "no receipt": no_receipt,
    "stray attempt": stray,
    "new topic partition": new_partition,
}


def _changed(seed: int, change: Event) -> tuple[History, Report]:
    """Return a history after a change, and what verify says of it."""
    history = write_history(seed)
    change(history)
    return history, history.report()


def unprovable_failure(seed: int, name: str) -> str | None:
    """Return what verify has called proven, or a difference; None: nothing."""
    _, report = _changed(seed, UNPROVABLE[name])
    if report.verdict is not Verdict.NOT_PROVABLE:
        return f"seed {seed}, {name}: {report.verdict.value} {report.to_json()}"
    return None


def honest_failure(seed: int, name: str) -> str | None:
    """Return what verify has invented about an honest history; None: nothing."""
    _, report = _changed(seed, HONEST[name])
    if report.verdict is Verdict.DIFFERS:
        return f"seed {seed}, {name}: invented {report.to_json()}"
    if name == "nothing" and report.verdict is not Verdict.PROVEN:
        return f"seed {seed}, {name}: not proven {report.to_json()}"
    return None


def corruption_failure(seed: int, name: str) -> str | None:
    """Return what verify has not found, or found in another batch; None: it has found the corruption only."""
    history, report = _changed(seed, CORRUPTIONS[name])
    if report.verdict is not Verdict.DIFFERS:
        return f"seed {seed}, {name}: not found {report.to_json()}"
    told = {each.receipt.batch_id for each in report.batches if each.verdict is Verdict.DIFFERS}
    if not told <= history.touched:
        return f"seed {seed}, {name}: {told} differ, {history.touched} were touched"
    return None


def main() -> None:
    """Plant many corruptions, and print how many were found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=120, help="of corruptions")
    parser.add_argument("--seed", type=int, default=35)
    given = parser.parse_args()
    names, honest, unprovable = list(CORRUPTIONS), list(HONEST), list(UNPROVABLE)
    found, failures = Counter[str](), list[str]()
    with client_waits_in_virtual_time():
        for number in range(given.count):
            seed = given.seed * 1_000_000 + number
            name, event = names[number % len(names)], honest[number % len(honest)]
            missing = unprovable[number % len(unprovable)]
            failures += filter(
                None,
                [
                    corruption_failure(seed, name),
                    honest_failure(seed, event),
                    unprovable_failure(seed, missing),
                ],
            )
            found[name] += 1
    lines = [f"{name:<22} {found[name]:>6} planted" for name in names]
    lines.append(
        f"{given.count} corruptions, {given.count} honest histories, {given.count} that are not provable, "
        f"seed {given.seed}"
    )
    lines.append(f"not found, or found elsewhere, or invented, or called proven: {len(failures)}")
    print("\n".join([*lines, *failures[:20]]))  # noqa: T201 - its output
    raise SystemExit(bool(failures))


if __name__ == "__main__":
    main()
