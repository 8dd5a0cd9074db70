"""Make a shadow of a running job, and compare it: what `penstock shadow` does.

Runs on the driver's machine. Invariants: the running job is not disturbed, and its checkpoint is not changed;
before the checkpoint of the shadow exists, the decision log of the running job says that its query may not
write there.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from penstock.cli._queries import decision_of
from penstock.cli.receipts import unfinished_of
from penstock.client.cluster.log_offsets import describe_topics
from penstock.client.cluster.rights import Operation, check_topics
from penstock.client.net.connection import KafkaConnections
from penstock.errors import CheckpointError, OptionError, UnknownTopicOrPartitionError
from penstock.observe.checkpoint import read_ranges
from penstock.observe.new_checkpoint import (
    FIRST_BATCH,
    OldCheckpoint,
    check_new,
    local_folder,
    make_folder,
    open_old,
)
from penstock.observe.shadow_note import NAME, ShadowNote, read_note
from penstock.observe.verify.shadow.compare import Comparison, compare
from penstock.observe.verify.shadow.ranges import History, Side, side_of
from penstock.sink.exactly_once.by_hand import TransactionTools, transaction_tools
from penstock.sink.exactly_once.decision import Decision
from penstock.sink.exactly_once.driver_side import ExactlyOnceSettings
from penstock.sink.exactly_once.receipt import Receipt
from penstock.source.checkpoint_offset import positions_from_json, positions_to_json
from penstock.state.carried import CarriedState

_BATCHES = 10
"""How many batches a shadow repeats, if the user does not say."""
_NOTHING = "Nothing was changed."


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the user wants a shadow of.

    Attributes:
        prefix: of the running job.
        live: the location of its checkpoint.
        to: the folder of the new checkpoint.
        topic: where the shadow writes.
        shadow_prefix: None: named after `prefix`.
        batches: the first and the last batch to repeat; None: the newest ones.
        log_topic: the decision log of both, if its name is not the default one.
        state: of the operators of the running job, and where its copy is to be.
    """

    prefix: str
    live: str
    to: str
    topic: str
    shadow_prefix: str | None = None
    batches: tuple[int | None, int | None] = (None, None)
    log_topic: str | None = None
    state: CarriedState | None = None


def create(connections: KafkaConnections, wanted: Wanted) -> ShadowNote:
    """Make the checkpoint of a shadow. Return its note.

    Raises:
        OptionError: an option does not fit the running job.
        CheckpointError: the checkpoint has what cannot be carried over, or the new folder exists.
        StateError: the state cannot be copied as it was before the first batch to repeat.
        AuthorizationError: this user may not describe a topic, or not read or write the decision log.
        PenstockError: the cluster does not answer.
    """
    folder = local_folder(wanted.to, "--shadow-checkpoint")
    check_new(folder, "--shadow-checkpoint")
    old = open_old(wanted.live)
    query_id, shadow_id, state = old.query_id, str(uuid.uuid4()), wanted.state
    first, last = _batches(old, *wanted.batches, None if state is None else state.versions(query_id))
    files = old.with_batches(old.beginning(shadow_id, first - 1), first, last)
    tools = _tools(connections, wanted.prefix, wanted.log_topic)
    live_topic = _live_topic(tools, wanted, query_id)
    note = ShadowNote(
        live_query_id=query_id,
        live_prefix=wanted.prefix,
        live_topic=live_topic,
        first_batch=first,
        last_batch=last,
        prefix=wanted.shadow_prefix or f"{wanted.prefix}-shadow",
        topic=wanted.topic,
        start=positions_to_json(old.start_of(files)),
        log_topic=wanted.log_topic,
        has_state=state is not None,
    )
    _check(connections, note)
    if state is not None:
        state.check(query_id, first - 1)
    tools.refuse_shadow(shadow_id, query_id, str(folder), [live_topic])
    if state is not None:
        state.copy(query_id, first - 1, shadow_id)
    make_folder(folder, {NAME: note.text(), **files})
    return note


def _tools(connections: KafkaConnections, prefix: str, log_topic: str | None) -> TransactionTools:
    return transaction_tools(ExactlyOnceSettings(connections.settings, prefix, log_topic), connections)


def _batches(
    old: OldCheckpoint, first: int | None, last: int | None, versions: Collection[int] | None = None
) -> tuple[int, int]:
    """Return the first and the last batch to repeat. `versions`: after which batches the state is there."""
    done, planned = old.done(), old.planned()
    if not done:
        raise CheckpointError(
            f"The query of {old.folder} has finished no batch yet, so there is nothing to repeat. {_NOTHING}",
            folder=str(old.folder),
        )
    there = range(_first_possible(old, planned[0]), done[-1] + 1)
    possible = [each for each in there if versions is None or each - 1 in versions]
    if not possible:
        what = "before which the state is still there" if there else "that has read something"
        raise CheckpointError(
            f"The query of {old.folder} has finished no batch yet {what}. {_NOTHING} Let it run, and run "
            "this command again.",
            folder=str(old.folder),
        )
    last = done[-1] if last is None else last
    if first is None:
        count = _BATCHES if versions is None else 1
        first = next((each for each in possible if last - count < each <= last), last)
    if first not in possible or last not in there or first > last:
        raise _not_these_batches(old, possible, done[-1], (first, last), has_state=versions is not None)
    if versions is not None and first != last:
        raise OptionError(
            f"Expected one batch for a job with a state, got --from-batch {first} and --to-batch {last}. "
            "Such a job writes other records if it reads the same input in one batch in place of several. "
            f"{_NOTHING} Leave both options out to repeat the newest batch.",
            option="--from-batch",
            value=first,
        )
    return first, last


def _not_these_batches(
    old: OldCheckpoint, possible: list[int], newest: int, got: tuple[int, int], *, has_state: bool
) -> OptionError:
    if has_state:
        where = f"batches before which {old.folder} and the state are still there"
        shown = ", ".join(map(str, possible))
    else:
        where, shown = f"batches that {old.folder} still has", f"{possible[0]} to {newest}"
    return OptionError(
        f"Expected --from-batch and --to-batch among the {where} ({shown}), got {got[0]} to {got[1]}. "
        f"{_NOTHING}",
        option="--from-batch",
        value=got[0],
    )


def _first_possible(old: OldCheckpoint, planned: int) -> int:
    """Return the first batch of which the checkpoint says where it begins, and that may have written."""
    if planned:
        return planned + 1
    try:
        _, ranges = read_ranges(old.folder, 0)
    except CheckpointError:  # Spark's own source has planned it
        return 0
    # Batch 0 of a promoted job has no receipt: it stands for what the job before has done.
    return 0 if ranges else FIRST_BATCH


def _live_topic(tools: TransactionTools, wanted: Wanted, query_id: str) -> str:
    """Return the topic that a query writes under a prefix."""
    place = {"prefix": wanted.prefix, "checkpoint": wanted.live}
    decision = decision_of(tools, tools.decisions(), query_id, **place, nothing=_NOTHING)
    if decision.sibling_count:
        raise OptionError(
            f"The query writes each batch under {decision.sibling_count + 1} prefixes, in a function of "
            f"foreachBatch. A shadow has one prefix and one topic. {_NOTHING}",
            option="--prefix",
            value=wanted.prefix,
        )
    topics = _topics([each for each in tools.receipts() if each.query_id == query_id], decision)
    if len(topics) == 1:
        return topics.pop()
    names = ", ".join(sorted(topics)) or "unknown topics"
    raise OptionError(
        f"Expected a query that writes one topic, but {query_id} has written {names}. A shadow has one topic "
        f"for all of its records. {_NOTHING}",
        option="--prefix",
        value=wanted.prefix,
    )


def _topics(receipts: Sequence[Receipt], decision: Decision) -> set[str]:
    return {at.topic for each in receipts for at in each.written()} | decision.topic_names


def _check(connections: KafkaConnections, note: ShadowNote) -> None:
    """Check that the shadow would write nothing of the running job."""
    _ = ExactlyOnceSettings(
        connections.settings, note.prefix
    ).names  # raises for a prefix that is not allowed
    if note.topic == note.live_topic:
        raise OptionError(
            f"Expected another topic for --topic than {note.topic}, which the running job writes. {_NOTHING}",
            option="--topic",
            value=note.topic,
        )
    if note.prefix == note.live_prefix:
        raise OptionError(
            f"Expected another prefix for --shadow-prefix than {note.prefix}, under which the running job "
            f"writes. {_NOTHING}",
            option="--shadow-prefix",
            value=note.prefix,
        )
    names = [note.topic, note.live_topic]
    check_topics(connections, names, [Operation.DESCRIBE], _NOTHING, may_be_missing=True)
    found = describe_topics(connections, names)
    if note.topic not in found:
        partitions = len(found[note.live_topic].partitions) if note.live_topic in found else 1
        raise UnknownTopicOrPartitionError(
            f"The topic {note.topic} of --topic does not exist. {_NOTHING} Create it: `penstock topics "
            f"create {note.topic} --partitions {partitions}`.",
            topic=note.topic,
        )


def compare_shadow(
    connections: KafkaConnections, shadow: str, live: str | None, columns: Sequence[str]
) -> tuple[ShadowNote, Comparison]:
    """Compare what a shadow has written with what the running job has written of the same input.

    Raises:
        CheckpointError: the folder is not a shadow's, or cannot be read.
        AuthorizationError: this user may not read a decision log or a topic of the two jobs.
        PenstockError: the cluster does not answer, or a receipt cannot be read.
    """
    folder = local_folder(shadow, "--shadow-checkpoint")
    note = read_note(folder)
    if note is None:
        raise CheckpointError(
            f"Expected the checkpoint of a shadow in {folder}, found no {NAME}. Nothing was compared. "
            "Make one with penstock shadow create.",
            folder=str(folder),
        )
    begun = positions_from_json(note.start)
    sides, unfinished = list[Side](), dict[tuple[str, int], str]()
    places = (
        (note.live_prefix, None if live is None else open_old(live), note.live_query_id, note.first_batch),
        (note.prefix, OldCheckpoint(folder), None, FIRST_BATCH),
    )
    for prefix, old, known_id, first in places:
        query_id = known_id or (old.query_id if old is not None else "")
        # The checkpoint is read first, so that each of its batches with rows has its decision in the log.
        positions = (
            {} if old is None or old.query_id != query_id else {one: old.end_of(one) for one in old.done()}
        )
        tools = _tools(connections, prefix, note.log_topic)
        decisions = tools.decisions()
        decided = max((each.batch_id for each in decisions if each.query_id == query_id), default=-1)
        receipts = [each for each in tools.receipts() if each.query_id == query_id]
        receipts.sort(key=lambda each: each.batch_id)
        sides.append(side_of(begun, History(receipts, positions, decided, first)))
        unfinished.update(unfinished_of(decisions))
    found = compare(connections, sides[0], sides[1], columns, unfinished, has_state=note.has_state)
    return note, found
