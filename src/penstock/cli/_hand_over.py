"""Hand the prefix of a stopped query over to another one: what penstock promote and `rollback` do.

Runs on the driver's machine. The steps, in this order:

1. Take the prefix, and finish what the query has decided. From here on a driver of it decides nothing more.
2. Find out after which batch it has ended: from the log what is decided, from the checkpoint up to where that
   batch has read.
3. Copy the state of its operators as it was after that batch, if the user has given it. The copy is not a
   state yet, so another call at the same time does not harm it, and is not harmed by it.
4. Write into the decision log, in one transaction of the session of step 1, that the query has ended and that
   another one continues, with all files of its checkpoint. From here on it is handed over, whatever dies.
5. Make a state of the copy for that query.
6. Make the checkpoint from that record.

Invariants: the command may die anywhere and be run again. Before step 4 nothing is handed over, and the old
query may run on. After it only the other query can write under the prefix. If a driver has taken the prefix
between 1 and 4, step 4 fails.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.cli._last_batch import NOTHING, last_batch
from penstock.cli._queries import decision_of
from penstock.client.net.connection import KafkaConnections
from penstock.errors import CheckpointError, OptionError, StateError
from penstock.observe.checkpoint import read_query_id
from penstock.observe.new_checkpoint import OldCheckpoint, check_new, local_folder, make_folder, open_old
from penstock.observe.shadow_note import read_note
from penstock.sink.exactly_once.by_hand import TransactionTools, logs_of, transaction_tools
from penstock.sink.exactly_once.decision import Begun, Decision, Ended, EndReason
from penstock.sink.exactly_once.driver_side import ExactlyOnceSettings
from penstock.state.carried import CarriedState


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which query hands over, and where the checkpoint of the next one is to be.

    Attributes:
        prefix: of the query.
        checkpoint: the location of its checkpoint.
        to: the folder of the new checkpoint.
        log_topic: the decision log, if its name is not the default one.
        is_rollback: the query has been promoted itself.
        state: of the operators of the job that stops, and where its copy is to be.
    """

    prefix: str
    checkpoint: str
    to: str
    log_topic: str | None = None
    is_rollback: bool = False
    state: CarriedState | None = None


@dataclass(frozen=True, slots=True)
class HandedOver:
    """What was handed over, or would be.

    Attributes:
        query_id: the query that has ended.
        heir: the query that continues; None: it would get an id.
        after: the last batch of the query that counts; None if the heir has written batches since.
        folder: of the heir's checkpoint.
        was_done: an earlier call has handed it over.
    """

    query_id: str
    heir: str | None
    after: int | None
    folder: Path
    was_done: bool = False


def hand_over(
    connections: KafkaConnections,
    wanted: Wanted,
    *,
    is_sure: bool,
    reached: Callable[[str], None] = lambda _: None,
) -> HandedOver:
    """Hand a prefix over.

    Args:
        connections: to the cluster of the target.
        wanted: what.
        is_sure: do it. Without it nothing is changed.
        reached: called after each step, with its name; for tests.

    Raises:
        OptionError: an option does not fit the query.
        CheckpointError: the checkpoint cannot be taken over, or the new one cannot be made. Then
            the prefix is handed over, and another call makes the checkpoint.
        StateError: the state cannot be copied as it was after the last batch. Nothing was handed over, unless
            the message says so.
        PrefixTakenError: a driver has taken the prefix at the same time. Nothing was handed over.
        ExactlyOnceError: a batch is in doubt, or not finished. Nothing was handed over.
    """
    folder, old = local_folder(wanted.to, "--to").absolute(), open_old(wanted.checkpoint)
    query_id = old.query_id
    tools = transaction_tools(
        ExactlyOnceSettings(connections.settings, wanted.prefix, wanted.log_topic), connections
    )
    decisions = {each.query_id: each for each in tools.decisions()}
    decision = _decision(tools, wanted, decisions, query_id)
    if decision.ended is not None:
        return _resume(decisions, decision, decision.ended, wanted, is_sure=is_sure, reached=reached)
    _check(connections, wanted, old, folder, decisions)
    state = wanted.state
    if not is_sure:
        after = last_batch(tools, old, decision)
        if state is not None:
            state.check(query_id, after)
        return HandedOver(query_id, None, after, folder)
    session, decision = tools.settle_query(query_id)
    reached("taken")
    if decision.ended is not None:  # an earlier call had no answer about its step 4, and it was done
        found = {each.query_id: each for each in tools.decisions()}
        return _resume(found, decision, decision.ended, wanted, is_sure=True, reached=reached)
    after = last_batch(tools, old, decision)
    heir = str(uuid.uuid4())
    begun = Begun(query_id, after, str(folder), old.beginning(heir, after))
    reached("read")
    if state is not None:
        state.stage(query_id, after, heir)
        reached("state copied")
    tools.hand_over(session, decision, heir, begun)
    reached("handed over")
    with _naming_heir(heir):
        if state is not None:
            state.publish(query_id, heir)
            reached("state published")
        make_folder(folder, begun.files, reached)
    return HandedOver(query_id, heir, after, folder)


@contextlib.contextmanager
def _naming_heir(heir: str) -> Iterator[None]:
    """Say in an error that the prefix is handed over already."""
    try:
        yield
    except (CheckpointError, StateError) as error:
        raise type(error)(
            f"{error.message} Query {heir} has the prefix already, so the old job writes nothing any more, "
            "and no record is lost. Mend what the error says, and run this command again with the same "
            "options: it makes what does not exist yet.",
            **error.facts,
        ) from error


def _decision(
    tools: TransactionTools, wanted: Wanted, decisions: dict[str, Decision], query_id: str
) -> Decision:
    place = {"prefix": wanted.prefix, "checkpoint": wanted.checkpoint}
    decision = decision_of(tools, decisions.values(), query_id, **place, nothing=NOTHING)
    if decision.ended is not None and decision.ended.reason is EndReason.SHADOW:
        raise OptionError(
            f"The checkpoint {wanted.checkpoint} is that of a shadow of query {decision.ended.heir}. "
            f"{NOTHING} Give the checkpoint of the running job: the changed job continues where that one "
            "stops.",
            option="--checkpoint",
            value=wanted.checkpoint,
        )
    return decision


def _resume(
    decisions: dict[str, Decision],
    decision: Decision,
    ended: Ended,
    wanted: Wanted,
    *,
    is_sure: bool,
    reached: Callable[[str], None],
) -> HandedOver:
    """Make checkpoint and state of a query that has the prefix already, if an earlier call did not."""
    folder = local_folder(wanted.to, "--to").absolute()
    _check_has_prefix(decisions, decision.query_id, ended)
    if ended.checkpoint != str(folder):
        raise OptionError(
            f"Query {decision.query_id} has handed over its prefix to query {ended.heir} already, whose "
            f"checkpoint is {ended.checkpoint}, got --to {folder}. Nothing was changed. To make that "
            f"checkpoint, or to see that it is there, give --to {ended.checkpoint}.",
            option="--to",
            value=str(folder),
        )
    heir = decisions.get(ended.heir)
    begun = None if heir is None else heir.begun
    after = None if begun is None else begun.after
    done = HandedOver(decision.query_id, ended.heir, after, folder, was_done=True)
    if folder.exists():
        if read_query_id(folder) != ended.heir:
            raise CheckpointError(
                f"Expected the checkpoint of query {ended.heir} in {folder}, which has the prefix now, got "
                "that of another query. Nothing was changed. Move this folder away, and run this command "
                "again.",
                folder=str(folder),
            )
    elif begun is None:
        raise CheckpointError(
            f"The checkpoint {folder} of query {ended.heir}, which has the prefix now, does not exist, and "
            "the query has written batches since. Nothing was changed. Find the folder. A new one would "
            "begin at older positions, and write records again.",
            folder=str(folder),
        )
    if is_sure and wanted.state is not None:
        wanted.state.copy_late(decision.query_id, after, ended.heir)
        reached("state published")
    if is_sure and begun is not None and not folder.exists():
        with _naming_heir(ended.heir):
            make_folder(folder, begun.files, reached)
    return done


def _check_has_prefix(decisions: dict[str, Decision], query_id: str, ended: Ended) -> None:
    """Raise OptionError if the heir of a query has handed over the prefix itself."""
    now = ended
    while (heir := decisions.get(now.heir)) is not None and heir.ended is not None:
        now = heir.ended
    if now is not ended:
        raise OptionError(
            f"Query {query_id} has handed over its prefix to query {ended.heir}, which has handed it over, "
            f"too. Query {now.heir} has it now, whose checkpoint is {now.checkpoint}. Nothing was changed. "
            "Start the job with that checkpoint. To hand the prefix over once more, give that checkpoint in "
            "--checkpoint.",
            option="--checkpoint",
            value=query_id,
        )


def _check(
    connections: KafkaConnections,
    wanted: Wanted,
    old: OldCheckpoint,
    folder: Path,
    decisions: dict[str, Decision],
) -> None:
    """Check what does not change until the prefix is taken."""
    query_id = old.query_id
    check_new(folder, "--to", NOTHING)
    if read_note(old.folder) is not None:
        raise OptionError(
            f"The checkpoint {wanted.checkpoint} is that of a shadow. {NOTHING} Give the checkpoint of the "
            "running job: the changed job continues where that one stops.",
            option="--checkpoint",
            value=wanted.checkpoint,
        )
    ended = [each.ended for each in decisions.values() if each.ended is not None]
    # The heir of a shadow is the query that it repeats.
    heirs = {each.heir for each in ended if each.reason is EndReason.HANDED_OVER}
    if wanted.is_rollback and query_id not in heirs:
        raise OptionError(
            f"Query {query_id} was not promoted: no query has handed over the prefix {wanted.prefix} to it. "
            f"{NOTHING} Give the checkpoint of the promoted job. To promote a changed job, use "
            "penstock promote.",
            option="--checkpoint",
            value=wanted.checkpoint,
        )
    for each in logs_of(connections, query_id, wanted.log_topic):
        if each.prefix == wanted.prefix:
            continue
        settings = ExactlyOnceSettings(connections.settings, each.prefix, each.topic)
        found = transaction_tools(settings, connections).decisions()
        if any(one.query_id == query_id for one in found):
            raise OptionError(
                f"Query {query_id} has written under the prefix {each.prefix}, too. {NOTHING} A query that "
                "writes under several prefixes in foreachBatch, or has changed its prefix, cannot be handed "
                "over.",
                option="--prefix",
                value=wanted.prefix,
            )
