"""The driver's side of a continuous query in Kafka: it plans, and nothing else is kept anywhere.

Runs on the driver. The driver is the only member of the consumer group, and its generation is the number of
the plan. A plan is made in this order, and a crash after any step leaves what the next start needs:

1. start the next generation: from now on the tasks of every older plan can commit nothing, and end;
2. take the transactional ids: what older tasks have left open is aborted, so no reader waits for it;
3. read the group's offsets, which are final now;
4. commit where topic partitions begin that have no offset: this is the only step where a start is chosen.

docs/decisions/0014-continuous-driver.md says what each crash leaves. Invariants: a plan that was returned was
the present one; a topic that was deleted and created again is an error, and not read on.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from penstock.client.cluster.log_offsets import (
    CHECKPOINT_NOTE,
    CommittedOffset,
    commit_offsets,
    committed_notes,
)
from penstock.client.cluster.membership import Membership, OnlyMember, present_member
from penstock.client.cluster.metadata import TopicMetadata, cluster_view
from penstock.client.cluster.rights import Operation, check_topics
from penstock.client.net import error_codes as codes
from penstock.client.net.broker_errors import is_retriable
from penstock.client.net.connection import KafkaConnections
from penstock.client.transactions.limits import topic_config
from penstock.client.transactions.steps import TransactionIdentity, TransactionProtocol, Transactions
from penstock.errors import (
    ClientError,
    OffsetOutOfRangeError,
    OptionError,
    PenstockError,
    TopicPartitionsRemovedError,
    UnsupportedBrokerError,
)
from penstock.relay._connections import check_same
from penstock.relay.assignment import divided
from penstock.relay.notes import plan_note, query_of, task_note_of, topic_id_of
from penstock.relay.settings import QuerySettings
from penstock.relay.task import ContinuousPlan
from penstock.source.starting import Discovery, Starting
from penstock.types import TopicPartition

_log = logging.getLogger(__name__)
_SESSION_TIMEOUT_MS = 30_000
_HEARTBEAT_S = 3.0
_TIMEOUT_MS = 30_000
_LOOK_MS = 5_000
_CONFIRMATIONS, _CONFIRMATION_PAUSE_S = 3, 1.0
"""How often, and at what distance, a topic partition has to be missing before it counts as gone."""

_BATCH_LIMIT = "max.message.bytes"
_BATCH_BYTES = 1 << 20
"""Of a full record batch before compression, if `batch.size` is not larger."""
_JOINING_LOOKS = 10
"""How often to ask while a member is joining. A join ends within the rebalance time-out of 5 s."""


@dataclass(frozen=True)
class QueryPlan:
    """Who reads what.

    Attributes:
        membership: its generation is the number of the plan.
        tasks: of the plan.
        topic_ids: of the topics that are read and written.
        taken: the first transactional id of each task, as the driver has taken it. A task that begins takes
            it again.
        partition_counts: how many partitions each topic has that is written. Keys choose among them.
    """

    membership: Membership
    tasks: tuple[ContinuousPlan, ...]
    topic_ids: Mapping[str, str]
    taken: Mapping[str, TransactionIdentity] = field(default_factory=dict)
    partition_counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """Return the group's offsets when the plan was made."""
        return {tp: at for task in self.tasks for tp, at in task.positions.items()}


class PlanDriver:
    """Makes the plans of one query. Sends heartbeats on a thread of its own, from the first plan to `close`.

    Args:
        settings: of the query.
        session_timeout_ms: without a heartbeat for this time, the group drops this member, and its tasks end.
    """

    def __init__(self, settings: QuerySettings, session_timeout_ms: int = _SESSION_TIMEOUT_MS) -> None:
        self.settings = settings
        self._connections = KafkaConnections(settings.connection)
        self._transactions = Transactions(self._connections)
        self._starting = Starting(settings.source, self._connections)
        self._member = OnlyMember(self._connections, settings.group_id, session_timeout_ms=session_timeout_ms)
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._heart: threading.Thread | None = None
        self._loss: PenstockError | None = None
        self._plan: QueryPlan | None = None
        self._seen: dict[TopicPartition, int] = {}
        """The highest offset of the group that this driver has seen of each topic partition."""
        self._acknowledged: dict[TopicPartition, int] = {}
        """The highest of them that a task has committed."""
        self._protocol: TransactionProtocol | None = None

    # ----- plans

    def new_plan(self, tasks_max: int | None) -> QueryPlan:
        """Make the next plan. The one before is over with this.

        Args:
            tasks_max: the largest number of tasks; None: one for each topic partition.

        Raises:
            ClientError: another query has the group, or Kafka does not answer.
            AuthorizationError: a topic or the group may not be read.
            OptionError: nothing is subscribed, or the start does not fit.
            TopicPartitionsRemovedError: a topic is gone, or was created again.
            UnknownTopicOrPartitionError: a topic of the subscription, or the target, does not exist.
            OffsetOutOfRangeError: somebody has set the group's offsets back.
        """
        membership = self._next_generation()
        found, written = self._topics()
        topic_partitions, topic_ids = sorted(found.topic_partitions), _topic_ids(found, written)
        divided_partitions = divided(topic_partitions, tasks_max or len(topic_partitions))
        taken = self._take_ids(len(divided_partitions))
        positions = self._positions(membership, topic_partitions, topic_ids)
        batch_bytes = self._batch_bytes()
        tasks = tuple(
            self._task(number, membership, topic_ids, {tp: positions[tp] for tp in mine}, batch_bytes)
            for number, mine in enumerate(divided_partitions)
        )
        self._plan = QueryPlan(membership, tasks, topic_ids, taken, _partition_counts(written))
        return self._plan

    def _next_generation(self) -> Membership:
        with self._lock:
            if self._member.membership.member_id:
                self._check_not_taken_over()
            membership = self._member.renew(timeout_ms=_TIMEOUT_MS)
            self._loss = None
        if self._heart is None:
            self._heart = threading.Thread(target=self._beat, name="penstock-heartbeats", daemon=True)
            self._heart.start()
        return membership

    def _check_not_taken_over(self) -> None:
        """Raise if another member has the group. Joining again would fight with it, in turns."""
        for _ in range(_JOINING_LOOKS):
            found = present_member(self._connections, self.settings.group_id, timeout_ms=_TIMEOUT_MS)
            if found is not None:
                break
            time.sleep(_CONFIRMATION_PAUSE_S)
        if found is None or found.member_id not in ("", self._member.membership.member_id):
            raise self._taken_over()

    def _taken_over(self) -> ClientError:
        group_id = self.settings.group_id
        return ClientError(
            f"Another query has taken over the consumer group {group_id!r}, so this query has ended. It "
            f"commits nothing any more, and the other one continues where it was. {self.settings.promise} "
            "Run a query in one place only, and give each query a group id of its own.",
            group_id=group_id,
        )

    def _topics(self) -> tuple[Discovery, list[TopicMetadata]]:
        """Return what is read, and the topics that are written."""
        known = set() if self._plan is None else set(self._plan.positions)
        for _ in range(_CONFIRMATIONS):
            found = self._starting.discover()
            gone = known - found.topic_partitions
            if not gone:
                break
            time.sleep(_CONFIRMATION_PAUSE_S)  # a broker with old metadata may not show it
        else:
            raise _gone(sorted(gone))
        self._starting.check_all_exist(found)
        if not found.topic_partitions:
            raise OptionError(
                "No topic matches the subscription of the continuous query. Nothing was read. Create the "
                "topic, or correct the option that names what to read."
            )
        view = cluster_view(self._connections)
        written = [
            view.topic(each.topic, timeout_ms=_TIMEOUT_MS) if each.error_code else each  # it may pass
            for each in self._written_topics()
        ]
        self._check_same_topics(found, written)
        return found, written

    def _written_topics(self) -> list[TopicMetadata]:
        names = self.settings.written_topics
        found = cluster_view(self._connections).reload(names, timeout_ms=_TIMEOUT_MS)
        return [found[name] for name in names]

    def _check_same_topics(self, found: Discovery, written: list[TopicMetadata]) -> None:
        """Raise if a topic of the plan before was deleted and created again."""
        now = _topic_ids(found, written)
        for topic, before in ({} if self._plan is None else self._plan.topic_ids).items():
            check_same(topic, before, now.get(topic))

    def _take_ids(self, tasks: int) -> dict[str, TransactionIdentity]:
        """Take the ids of the plan, and those that are open. Return the first of each task."""
        settings = self.settings
        ids = [settings.transactional_ids(number) for number in range(tasks)]
        planned = {name for names in ids for name in names}
        is_open = self._transactions.list_open(settings.has_transactional_id, timeout_ms=_TIMEOUT_MS)
        wanted = planned | {each.transactional_id for each in is_open}
        taken = {name: self._take(name) for name in sorted(wanted)}
        return {names[0]: taken[names[0]] for names in ids}

    def _take(self, name: str) -> TransactionIdentity:
        if self._protocol is None:
            self._protocol = self._safe_protocol()
        return self._transactions.init_producer(
            name,
            transaction_timeout_ms=self.settings.transaction_timeout_ms,
            protocol=self._protocol,
            timeout_ms=_TIMEOUT_MS,
        )

    def _safe_protocol(self) -> TransactionProtocol:
        protocol = self._transactions.protocol(timeout_ms=_TIMEOUT_MS)
        writes_v1 = protocol is TransactionProtocol.V1 and self.settings.is_transactional
        if writes_v1 and not self._transactions.refuses_late_writes(timeout_ms=_TIMEOUT_MS):
            raise UnsupportedBrokerError(
                "A continuous query needs brokers with Kafka 3.6 or newer, and these are older. They may "
                "accept a record after the end of its transaction (KIP-890), so records could be doubled. "
                "Nothing was read or written. Update the brokers."
            )
        return protocol

    def _positions(
        self, membership: Membership, topic_partitions: list[TopicPartition], topic_ids: Mapping[str, str]
    ) -> dict[TopicPartition, int]:
        """Return the group's offsets, after committing those that it does not have."""
        group_id = membership.group_id
        found = committed_notes(
            self._connections, group_id, topic_partitions, is_stable=True, timeout_ms=_TIMEOUT_MS
        )
        for tp, committed in found.items():
            check_same(tp.topic, topic_id_of(committed.note), topic_ids.get(tp.topic))
            if committed.note == CHECKPOINT_NOTE:
                raise _of_checkpoint(group_id)
        of_others = [tp for tp, each in found.items() if self._is_of_another(query_of(each.note))]
        if of_others and not self.settings.takes_others:
            raise _of_another(group_id, min(of_others))
        positions = {tp: committed.offset for tp, committed in found.items()}
        self._note({tp: positions[tp] for tp in of_others}, membership, topic_ids)
        if not self.settings.is_transactional:
            positions |= self._overtaken(found)
        self._check_not_lost(positions)
        missing = [tp for tp in topic_partitions if tp not in positions]
        if missing:
            self._check_may_read(missing)
            begin = self._starting.of_new(missing) if positions else self._starting.of_query(missing)
            self._note(begin, membership, topic_ids)
            _log.info("group %s: begins at %s", group_id, {str(tp): at for tp, at in begin.items()})
            positions |= begin
        self._see(positions)
        return positions

    def _is_of_another(self, query: str | None) -> bool:
        return None not in (query, self.settings.query) and query != self.settings.query

    def _note(
        self, offsets: Mapping[TopicPartition, int], membership: Membership, topic_ids: Mapping[str, str]
    ) -> None:
        """Commit offsets with the notes of this query."""
        if not offsets:
            return
        query, topics = self.settings.query, {each.topic for each in offsets}
        refused = commit_offsets(
            self._connections,
            membership.group_id,
            offsets,
            membership=membership,
            notes={topic: plan_note(topic_ids.get(topic), query) for topic in topics},
            timeout_ms=_TIMEOUT_MS,
        )
        for error in refused.values():
            raise error

    def _check_may_read(self, topic_partitions: list[TopicPartition]) -> None:
        """Raise if a topic may not be read. Its offset would be refused, and those of other topics committed.

        The next start would take it for new, and read it from its first record, whatever the options say.
        """
        check_topics(
            self._connections,
            {each.topic for each in topic_partitions},
            [Operation.READ],
            "Nothing was read, and no offset was committed.",
            may_be_missing=True,
            timeout_ms=_TIMEOUT_MS,
        )

    def _see(self, positions: Mapping[TopicPartition, int]) -> None:
        self._seen |= {tp: max(at, self._seen.get(tp, at)) for tp, at in positions.items()}

    def _overtaken(self, found: Mapping[TopicPartition, CommittedOffset]) -> dict[TopicPartition, int]:
        """Return offsets that a task has committed, and that an older one has overwritten.

        Records before an offset that a task has committed are acknowledged, so it is safe to continue
        there. An offset that somebody else has committed, such as an administrator, says nothing of that.
        """
        of_tasks = {tp: each.offset for tp, each in found.items() if task_note_of(each.note) is not None}
        return {tp: seen for tp, seen in self._acknowledged.items() if of_tasks.get(tp, seen) < seen}

    def _check_not_lost(self, positions: Mapping[TopicPartition, int]) -> None:
        """Raise if an offset that was seen is gone (its start would be chosen again), or was set back.

        Kafka lets others commit only while the group has no member. So it is enough to look at each plan.
        """
        gone = sorted(tp for tp in self._seen if tp not in positions)
        if gone:
            raise _gone(gone)
        for tp, seen in sorted(self._seen.items()):
            if positions[tp] < seen:
                raise _set_back(self.settings.group_id, tp, seen, positions[tp])

    def _task(
        self,
        number: int,
        membership: Membership,
        topic_ids: Mapping[str, str],
        positions: Mapping[TopicPartition, int],
        batch_bytes: int | None,
    ) -> ContinuousPlan:
        settings = self.settings
        assert self._protocol is not None  # noqa: S101  # for mypy
        return ContinuousPlan(
            settings.connection,
            positions,
            settings.target,
            settings.transactional_ids(number),
            membership,
            self._protocol,
            settings.fetch,
            settings.produce,
            settings.commit_interval_ms,
            transaction_timeout_ms=settings.transaction_timeout_ms,
            read_committed=settings.is_read_committed,
            maker=settings.maker,
            topic_ids=topic_ids,
            query=settings.query,
            number=number,
            dead_letter_topic=settings.dead_letter_topic,
            guarantee=settings.guarantee,
            batch_bytes=batch_bytes,
        )

    def _batch_bytes(self) -> int | None:
        """Return the size of a full record batch before compression. None: this user may not ask for limits.

        A Produce request holds one batch of each topic partition. So a task needs fewer of them if batches
        are large.
        """
        limits = []
        for topic in self.settings.written_topics:
            config = topic_config(self._connections, topic, [_BATCH_LIMIT], timeout_ms=_TIMEOUT_MS) or {}
            if not (limit := config.get(_BATCH_LIMIT)):
                return None
            limits.append(int(limit))
        # Records that cannot be compressed take a little more than before.
        return max(1, min(max(_BATCH_BYTES, self.settings.produce.batch_size_bytes), min(limits) * 15 // 16))

    # ----- while a plan runs

    def has_new_topic_partitions(self) -> bool:
        """Return whether a topic that is read or written has partitions that the plan does not have.

        Raises:
            ClientError: no broker answers in time.
            TopicPartitionsRemovedError: a topic was deleted and created again.
        """
        if self._plan is None:
            return False
        found, written = self._starting.discover(), self._written_topics()
        self._check_same_topics(found, written)
        before = self._plan.partition_counts
        has_grown = any(count > before[topic] for topic, count in _partition_counts(written).items())
        return has_grown or not found.topic_partitions <= self._plan.positions.keys()

    def begun_tasks(self) -> int:
        """Return how many tasks of the plan have begun: each takes its transactional ids first.

        Raises:
            ClientError: no coordinator answers in time.
        """
        taken = {} if self._plan is None else self._plan.taken
        found = self._transactions.describe(taken, timeout_ms=_LOOK_MS)
        return sum(
            each is not None and not each.identity.has_same_epoch(taken[name]) for name, each in found.items()
        )

    def offsets(self) -> dict[TopicPartition, CommittedOffset]:
        """Return the group's offsets with the notes of the tasks, without waiting for open transactions.

        Raises:
            ClientError: the coordinator does not answer in time.
        """
        topic_partitions = [] if self._plan is None else list(self._plan.positions)
        group_id = self.settings.group_id
        found = committed_notes(
            self._connections, group_id, topic_partitions, is_stable=False, timeout_ms=_LOOK_MS
        )
        self._see({tp: each.offset for tp, each in found.items()})
        for tp, each in found.items():
            if task_note_of(each.note) is not None:
                self._acknowledged[tp] = max(each.offset, self._acknowledged.get(tp, each.offset))
        return found

    @property
    def is_member(self) -> bool:
        """Return whether the group has not dropped this member. The last heartbeat has told it.

        Raises:
            ClientError: another query has taken the group over, or the group may not be read any more.
        """
        loss = self._loss
        if loss is None:
            return True
        if loss.facts.get("error_code") == codes.REBALANCE_IN_PROGRESS:
            raise self._taken_over() from loss  # it is just joining
        if loss.facts.get("error_code") in (codes.UNKNOWN_MEMBER_ID, codes.ILLEGAL_GENERATION):
            return False
        raise loss

    def _beat(self) -> None:
        while not self._closing.wait(_HEARTBEAT_S):
            with self._lock:
                if not self._member.membership.member_id or self._loss is not None:
                    continue
                try:
                    self._member.heartbeat(timeout_ms=_LOOK_MS)
                except PenstockError as error:
                    if is_retriable(error):
                        _log.warning("A heartbeat was not answered: %s", error.message)
                    else:
                        self._loss = error

    # ----- the end

    def leave(self) -> None:
        """Leave the group: the tasks of the plan can commit nothing any more, and end. Raise nothing."""
        with self._lock:
            if self._member.membership.member_id:
                with suppress(PenstockError):  # the group drops a silent member
                    self._member.leave(timeout_ms=_LOOK_MS)

    def abort_open(self) -> None:
        """Abort what the tasks of the plan have left open. Raise nothing.

        The ids of the plan are taken, too, if they are not open: a late Produce would open a transaction that
        no task ends.

        Call it after `leave`, when the tasks have ended. If another query has the group by then, the ids are
        that query's, and nothing is done.
        """
        try:
            found = present_member(self._connections, self.settings.group_id, timeout_ms=_LOOK_MS)
            if found is None or found.member_id not in ("", self._member.membership.member_id):
                return
            is_open = self._transactions.list_open(self.settings.has_transactional_id, timeout_ms=_LOOK_MS)
            planned = () if self._plan is None else self._plan.tasks
            names = {name for task in planned for name in task.transactional_ids}
            for name in sorted(names | {each.transactional_id for each in is_open}):
                self._take(name)
        except PenstockError as error:
            _log.warning(
                "Open transactions of the query could not be aborted: %s Readers with read_committed wait at "
                "most %s ms and the brokers' next check, or until the query is started again.",
                error.message,
                self.settings.transaction_timeout_ms,
            )

    def close(self) -> None:
        """Close the connections. Call `leave` before."""
        self._closing.set()
        if self._heart is not None:
            self._heart.join()
        self._connections.close()


def _of_another(group_id: str, topic_partition: TopicPartition) -> OptionError:
    return OptionError(
        f"The offset of {topic_partition} in the consumer group {group_id!r} is that of another query, and "
        "this one would not get the records before it. Nothing was read or written. Give each query a group "
        "id of its own. If only a filter or a projection has changed: "
        "SET 'penstock.changed-query' = 'continue'.",
        group_id=group_id,
    )


def _topic_ids(found: Discovery, written: list[TopicMetadata]) -> dict[str, str]:
    of_written = {each.topic: str(each.topic_id) for each in written if each.topic_id is not None}
    return {**found.topic_ids, **of_written}


def _partition_counts(written: list[TopicMetadata]) -> dict[str, int]:
    return {each.topic: len(each.partitions) for each in written}


def _gone(topic_partitions: list[TopicPartition]) -> TopicPartitionsRemovedError:
    names = ", ".join(str(tp) for tp in topic_partitions[:10])
    return TopicPartitionsRemovedError(
        "Topic partitions of the continuous query, or their offsets in the consumer group, are gone: "
        f"{names}. A topic was deleted, or somebody has deleted the offsets. The query has stopped, and "
        "nothing was read from another position. Start a new query with another consumer group.",
        topic_partitions=tuple(topic_partitions),
    )


def _of_checkpoint(group_id: str) -> OptionError:
    return OptionError(
        f"The offsets of the consumer group {group_id!r} were committed by a stream with micro-batches, "
        "beside its checkpoint. They may be behind the checkpoint, so records could be written twice. "
        "Nothing was read or written. Stop the stream and run `penstock take-over --checkpoint FOLDER "
        f"--group {group_id} --yes`, or give the continuous query another group id.",
        group_id=group_id,
    )


def _set_back(group_id: str, topic_partition: TopicPartition, seen: int, now: int) -> OffsetOutOfRangeError:
    return OffsetOutOfRangeError(
        f"Expected consumer group {group_id!r} to be at offset {seen} of {topic_partition} or after it, "
        f"because the continuous query has committed that, got {now}. Somebody has set the offset back. The "
        "query has ended, and has read nothing from there, so no record is written twice. Set the group's "
        f"offset to {seen} and start the query again. Without that, the next start writes the records from "
        f"{now} on a second time.",
        group_id=group_id,
        topic=topic_partition.topic,
        partition=topic_partition.partition,
        offset=now,
    )
