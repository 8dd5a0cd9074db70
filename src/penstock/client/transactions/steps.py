"""Do the steps of Kafka's transactions from any process: open, add to, end, describe, list.

Runs on driver and executor. A transaction is an identity here (transactional id, producer id, producer
epoch): one process opens it, another process ends it, and any process may describe it. Invariants: each call
can be repeated; each outcome is either certain or reported as unknown; only the transaction of the given
identity is ended.

Two protocols: with V2 (Kafka 4, feature `transaction.version` 2) a Produce request
adds its topic partitions to the transaction, and each end gives the producer a new epoch. With V1 they
are added by AddPartitionsToTxn first, Produce has version 11 at most, EndTxn 4. A transaction is ended with
the protocol that it was opened with.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from typing import Any

from kafka.protocol.admin import DescribeTransactionsRequest, ListTransactionsRequest
from kafka.protocol.metadata import ApiVersionsRequest
from kafka.protocol.producer import AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest

from penstock import __version__
from penstock.client.cluster.ask import Reply, repeat
from penstock.client.cluster.coordinators import CoordinatorOf, ask_transaction_coordinators
from penstock.client.cluster.metadata import fetch_metadata
from penstock.client.net import error_codes as codes
from penstock.client.net import versions
from penstock.client.net.broker_errors import error_from_code
from penstock.client.net.connection import KafkaConnections
from penstock.client.produce.idempotence import ProducerIdentity
from penstock.errors import OptionError, PenstockError, ProducerFencedError, TransactionError
from penstock.types import TopicPartition

_log = logging.getLogger(__name__)

_TRANSACTION_FEATURE = "transaction.version"
_DESCRIBED_AT_ONCE = 500
_FENCED_MAX = 2
"""A take-over that is refused as fenced so often is asked again."""

_FENCED_CODES = frozenset((codes.PRODUCER_FENCED, codes.INVALID_PRODUCER_EPOCH))
_UNKNOWN_ID_CODES = frozenset((codes.INVALID_PRODUCER_ID_MAPPING, codes.UNKNOWN_PRODUCER_ID))
_REFUSED_CODES = frozenset((codes.INVALID_TXN_STATE, codes.TRANSACTION_ABORTABLE))
_NOT_FOUND = codes.TRANSACTIONAL_ID_NOT_FOUND
_TIMEOUT_TOO_LONG = codes.INVALID_TRANSACTION_TIMEOUT


class TransactionProtocol(IntEnum):
    """Which of Kafka's two transaction protocols a transaction follows."""

    V1 = 1
    V2 = 2


@dataclass(frozen=True, slots=True)
class TransactionIdentity:
    """The name of one transaction, from the InitProducerId response that opened it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    protocol: TransactionProtocol = TransactionProtocol.V2

    @property
    def producer_identity(self) -> ProducerIdentity:
        is_v1 = self.protocol is TransactionProtocol.V1
        produce = versions.PRODUCE_TRANSACTION_V1 if is_v1 else versions.PRODUCE_TRANSACTION_V2
        return ProducerIdentity(self.producer_id, self.producer_epoch, self.transactional_id, produce)

    def has_same_epoch(self, other: TransactionIdentity) -> bool:
        """Return whether producer id and epoch are equal; take-over, time-out and a V2 end change them."""
        return (self.producer_id, self.producer_epoch) == (other.producer_id, other.producer_epoch)

    def __str__(self) -> str:
        return f"{self.transactional_id} (producer {self.producer_id}, epoch {self.producer_epoch})"


class EndState(Enum):
    """The outcome of ending a transaction."""

    DONE = "done"
    FENCED = "a newer producer, or the broker's time-out, has ended it"
    REFUSED = "the transaction's state does not allow it"
    UNKNOWN_ID = "the broker knows another producer id, or none"
    UNKNOWN = "no answer in time: it may or may not have been done"


@dataclass(frozen=True, slots=True)
class EndResult:
    """The outcome of one EndTxn. `next_identity` is for the producer's next transaction, when DONE."""

    state: EndState
    next_identity: TransactionIdentity | None = None
    error: PenstockError | None = None


class TransactionState(Enum):
    """A transaction's state at its coordinator, under Kafka's names."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    UNKNOWN = "Unknown"

    @classmethod
    def _missing_(cls, value: object) -> TransactionState:
        return cls.UNKNOWN

    @property
    def is_open(self) -> bool:
        """Return whether read_committed readers still wait for its end."""
        return self in _OPEN_STATES


_OPEN_STATES = frozenset(
    (TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
)
COMMIT_STATES = frozenset((TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT))


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """The coordinator's description of a transactional id."""

    identity: TransactionIdentity
    state: TransactionState
    started_at_ms: int
    """-1 when no transaction is open."""
    timeout_ms: int
    topic_partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """One line of ListTransactions."""

    transactional_id: str
    producer_id: int
    state: TransactionState


class Transactions:
    """Transactions of one cluster. Thread-safe, cheap to make."""

    def __init__(self, connections: KafkaConnections) -> None:
        self._connections = connections

    def protocol(self, *, timeout_ms: int | None = None) -> TransactionProtocol:
        """Ask for the transaction protocol of the cluster."""
        response = self._api_versions(timeout_ms)
        levels = {each.name: each.max_version_level for each in response.finalized_features or ()}
        is_v2 = levels.get(_TRANSACTION_FEATURE, 0) >= TransactionProtocol.V2
        return TransactionProtocol.V2 if is_v2 else TransactionProtocol.V1

    def refuses_late_writes(self, *, timeout_ms: int | None = None) -> bool:
        """Ask whether brokers refuse a Produce that arrives after the end of its transaction of protocol V1.

        Kafka does since 3.6 (KIP-890). Its brokers ask each other with AddPartitionsToTxn from version 4 on.
        """
        key, last = AddPartitionsToTxnRequest.API_KEY, versions.LAST_ADD_PARTITIONS_OF_CLIENTS
        served = self._api_versions(timeout_ms).api_keys
        return any(each.api_key == key and each.max_version > last for each in served)

    def _api_versions(self, timeout_ms: int | None) -> Any:
        request = ApiVersionsRequest(client_software_name="penstock", client_software_version=__version__)
        response = self._connections.request(request, timeout_ms=timeout_ms)
        if response.error_code:
            raise error_from_code(response.error_code, "Asking for the cluster's features")
        return response

    def init_producer(
        self,
        transactional_id: str,
        *,
        transaction_timeout_ms: int,
        protocol: TransactionProtocol,
        timeout_ms: int | None = None,
    ) -> TransactionIdentity:
        """Take the transactional id: abort its open transaction and fence its older producers.

        InitProducerId can also name an expected predecessor (KIP-360). This is not offered because it
        protects nothing: the broker aborts an open transaction first and checks the epoch afterwards.
        A request that names no predecessor cannot be an old one. So if the broker calls it fenced, either
        another producer takes the id at this moment, or no one does and its coordinator fails over (as in
        KAFKA-20310). It is asked again: the last producer to ask gets the id.

        Args:
            transactional_id: to take.
            transaction_timeout_ms: after this time the broker aborts an open transaction.
            protocol: of the next transactions.
            timeout_ms: how long to wait; includes the end of the open transaction.

        Raises:
            OptionError: the broker does not allow so long a time-out.
            ProducerFencedError: other producers take the transactional id again and again.
            ClientError: refused, or no answer in time.
        """

        def build(asked: CoordinatorOf) -> Any:
            return InitProducerIdRequest(
                transactional_id=transactional_id,
                transaction_timeout_ms=transaction_timeout_ms,
                producer_id=-1,
                producer_epoch=-1,
                enable2_pc=False,
                keep_prepared_txn=False,
                **versions.INIT_TRANSACTIONAL_PRODUCER.bounds,
            )

        fenced_count = 0

        def read(response: Any, asked: CoordinatorOf) -> Iterator[Reply[str, TransactionIdentity]]:
            nonlocal fenced_count
            producer = (response.producer_id, response.producer_epoch)
            identity = TransactionIdentity(transactional_id, *producer, protocol)
            code = response.error_code
            fenced_count += is_fencing(code)
            is_again = is_fencing(code) and fenced_count <= _FENCED_MAX
            yield Reply(transactional_id, codes.CONCURRENT_TRANSACTIONS if is_again else code, identity)

        def error(name: str, code: int) -> PenstockError:
            option = f"{self._connections.settings.property_prefix}transaction.timeout.ms"
            return _init_error(name, code, option, transaction_timeout_ms)

        answers = ask_transaction_coordinators(
            self._connections, [transactional_id], build, read, error, timeout_ms=timeout_ms
        )
        return answers.value_or_raise(transactional_id)

    def add_topic_partitions(
        self,
        identity: TransactionIdentity,
        topic_partitions: Collection[TopicPartition],
        *,
        timeout_ms: int | None = None,
    ) -> None:
        """Add topic partitions to an open transaction before the first Produce to them (V1 only).

        With V2 this sends nothing, because the Produce requests add them.

        Raises:
            ProducerFencedError: a newer producer has taken the transactional id.
            ClientError: refused, or no answer in time.
        """
        if identity.protocol is not TransactionProtocol.V1 or not topic_partitions:
            return

        def build(asked: CoordinatorOf) -> Any:
            return add_partitions_request(identity, topic_partitions)

        def read(response: Any, asked: CoordinatorOf) -> Iterator[Reply[str, None]]:
            yield Reply(identity.transactional_id, add_partitions_code(response), None)

        def error(_: str, code: int) -> PenstockError:
            return step_error(identity, code, "Adding topic partitions to the transaction")

        ask_transaction_coordinators(
            self._connections, [identity.transactional_id], build, read, error, timeout_ms=timeout_ms
        ).value_or_raise(identity.transactional_id)

    def end(
        self,
        identities: Collection[TransactionIdentity],
        *,
        is_commit: bool,
        timeout_ms: int | None = None,
    ) -> dict[TransactionIdentity, EndResult]:
        """Commit or abort transactions, each at most once even if this is called again. Raises nothing.

        Not for two transactions of one transactional id in one call.
        """
        by_name = {each.transactional_id: each for each in identities}

        def build(asked: CoordinatorOf) -> Any:
            (name,) = asked
            return end_request(by_name[name], is_commit=is_commit)

        def read(response: Any, asked: CoordinatorOf) -> Iterator[Reply[str, TransactionIdentity]]:
            (name,) = asked
            yield Reply(name, _end_code(response.error_code), next_identity(by_name[name], response))

        def error(name: str, code: int) -> PenstockError:
            what = "Committing the transaction" if is_commit else "Aborting the transaction"
            return step_error(by_name[name], code, what, is_commit=is_commit)

        answers = ask_transaction_coordinators(
            self._connections, by_name, build, read, error, timeout_ms=timeout_ms
        )
        results = {by_name[name]: EndResult(EndState.DONE, it) for name, it in answers.values.items()}
        for name, refusal in answers.errors.items():
            results[by_name[name]] = EndResult(_end_state(refusal), error=refusal)
        return results

    def describe(
        self, transactional_ids: Collection[str], *, timeout_ms: int | None = None
    ) -> dict[str, TransactionDescription | None]:
        """Describe transactional ids; None for an id that the cluster does not know.

        Raises:
            AuthorizationError: an id may not be described.
            ClientError: no answer in time.
        """

        def build(asked: CoordinatorOf) -> Any:
            return DescribeTransactionsRequest(transactional_ids=list(asked))

        def read(response: Any, asked: CoordinatorOf) -> Iterator[Reply[str, TransactionDescription | None]]:
            for each in response.transaction_states:
                is_known = each.error_code != _NOT_FOUND
                description = _description(each) if not each.error_code else None
                yield Reply(each.transactional_id, each.error_code if is_known else 0, description)

        def error(name: str, code: int) -> PenstockError:
            where = f"Describing the transaction of transactional id {name!r}"
            return error_from_code(code, where, transactional_id=name)

        answers = ask_transaction_coordinators(
            self._connections,
            transactional_ids,
            build,
            read,
            error,
            ids_per_request=_DESCRIBED_AT_ONCE,
            timeout_ms=timeout_ms,
        )
        for refusal in answers.errors.values():
            raise refusal
        return answers.values

    def list_open(
        self, is_wanted: Callable[[str], bool], *, timeout_ms: int | None = None
    ) -> list[TransactionListing]:
        """List the open transactions with a wanted transactional id, over all coordinators, ordered by name.

        The cluster does not show transactions that this user may not describe.

        Raises:
            ClientError: a broker does not answer in time.
        """
        found = repeat(self._connections, self._list_once, timeout_ms)
        wanted = (each for each in found if is_wanted(each.transactional_id))
        return sorted(wanted, key=lambda each: each.transactional_id)

    def _list_once(self, timeout_ms: int) -> list[TransactionListing]:
        brokers = fetch_metadata(self._connections, [], timeout_ms=timeout_ms).brokers
        attempt_ms = min(timeout_ms, self._connections.settings.request_timeout_ms)
        responses = [
            self._connections.send(_list_request(), node_id, attempt_ms) for node_id in sorted(brokers)
        ]
        found: dict[str, TransactionListing] = {}
        for response in responses:
            result = response.result()
            if result.error_code:
                raise error_from_code(result.error_code, "Listing transactions")
            for each in result.transaction_states:
                found[each.transactional_id] = TransactionListing(
                    each.transactional_id, each.producer_id, TransactionState(each.transaction_state)
                )
        return list(found.values())


def add_partitions_request(
    identity: TransactionIdentity, topic_partitions: Collection[TopicPartition]
) -> Any:
    """Return the request that adds topic partitions to a transaction of protocol V1."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(set(topic_partitions)):
        topics.setdefault(topic, []).append(partition)
    topic_class = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=identity.transactional_id,
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.producer_epoch,
        v3_and_below_topics=[topic_class(name=name, partitions=at) for name, at in topics.items()],
        **versions.ADD_PARTITIONS_TO_TXN.bounds,
    )


def add_partitions_code(response: Any) -> int:
    """Return 0 if all topic partitions are in the transaction, else the error code with the reason."""
    said = {
        partition.partition_error_code
        for topic in response.results_by_topic_v3_and_below
        for partition in topic.results_by_partition
    }
    # The one with the reason; for the others the broker did not even try.
    said -= {codes.OPERATION_NOT_ATTEMPTED}
    return max(said, key=abs, default=codes.NO_ERROR)


def end_request(identity: TransactionIdentity, *, is_commit: bool) -> Any:
    """Return the request that commits or aborts a transaction."""
    is_v1 = identity.protocol is TransactionProtocol.V1
    return EndTxnRequest(
        transactional_id=identity.transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        committed=is_commit,
        **(versions.END_TXN_V1 if is_v1 else versions.END_TXN_V2).bounds,
    )


def _list_request() -> Any:
    return ListTransactionsRequest(
        state_filters=[state.value for state in sorted(_OPEN_STATES, key=lambda state: state.value)],
        producer_id_filters=[],
    )


def _description(answer: Any) -> TransactionDescription:
    return TransactionDescription(
        identity=TransactionIdentity(answer.transactional_id, answer.producer_id, answer.producer_epoch),
        state=TransactionState(answer.transaction_state),
        started_at_ms=answer.transaction_start_time_ms,
        timeout_ms=answer.transaction_timeout_ms,
        topic_partitions=tuple(
            TopicPartition(topic.topic, partition)
            for topic in answer.topics
            for partition in sorted(topic.partitions)
        ),
    )


def next_identity(identity: TransactionIdentity, response: Any) -> TransactionIdentity:
    """Return the producer's identity after this EndTxn: with V2 another epoch, or another producer id."""
    if identity.protocol is TransactionProtocol.V1 or response.producer_id < 0:
        return identity
    return replace(identity, producer_id=response.producer_id, producer_epoch=response.producer_epoch)


def _end_state(error: PenstockError) -> EndState:
    code = error.facts.get("error_code")
    if code in _FENCED_CODES:
        return EndState.FENCED
    if code in _UNKNOWN_ID_CODES:
        return EndState.UNKNOWN_ID
    return EndState.REFUSED if code in _REFUSED_CODES else EndState.UNKNOWN


def _end_code(error_code: int) -> int:
    """Return the error code that the answer to EndTxn means.

    Kafka 4.3 answers "unexpected server error" while another producer is just taking the id (its log:
    IllegalStateException, "already a pending state PREPARE_EPOCH_FENCE"). A moment later it knows.
    """
    return codes.CONCURRENT_TRANSACTIONS if error_code == codes.UNKNOWN_SERVER_ERROR else error_code


def has_moved_on(
    describe: Callable[[Collection[str]], dict[str, TransactionDescription | None]],
    identity: TransactionIdentity,
) -> bool:
    """Return whether the transactional id has a later epoch or another producer now; False if unknown.

    `describe` is `Transactions.describe`, or does the same.
    """
    name = identity.transactional_id
    try:
        described = describe([name])[name]
    except PenstockError as error:
        _log.warning("Cannot tell who holds %s: %s", identity, error)
        return False
    return described is not None and not described.identity.has_same_epoch(identity)


def is_fencing(error_code: int) -> bool:
    """Return whether an error code says that a newer producer has taken over."""
    return error_code in _FENCED_CODES


def is_step_refusal(error_code: int) -> bool:
    """Return whether an error code refuses a step permanently; its `step_error` is a TransactionError."""
    return error_code in _FENCED_CODES | _UNKNOWN_ID_CODES | _REFUSED_CODES


def step_error(
    identity: TransactionIdentity, error_code: int, what: str, *, is_commit: bool = False
) -> PenstockError:
    """Return the error for a step of a transaction that the broker refuses; `is_commit`: its last step."""
    where = f"{what} of {identity}"
    error = error_from_code(error_code, where, transactional_id=identity.transactional_id)
    if error_code in _FENCED_CODES:
        doubt = ", unless an earlier attempt committed it and the answer was lost"
        return ProducerFencedError(
            f"{error.message} Another producer has taken this transactional id, or the broker has aborted "
            "the transaction after its time-out. The records of the transaction are not "
            f"committed{doubt if is_commit else ''}.",
            **error.facts,
        )
    if is_step_refusal(error_code):
        return TransactionError(error.message, **error.facts)
    return error


def _init_error(
    transactional_id: str, error_code: int, option: str, transaction_timeout_ms: int
) -> PenstockError:
    where = f"Taking transactional id {transactional_id!r}"
    facts = {"transactional_id": transactional_id}
    if error_code == _TIMEOUT_TOO_LONG:
        return OptionError(
            f"The broker does not allow a transaction time-out of {transaction_timeout_ms} ms. This "
            f"transaction was not started, so it wrote nothing. Lower the option '{option}', leave it out "
            "to use the broker's maximum, or raise the broker's transaction.max.timeout.ms.",
            option=option,
            value=transaction_timeout_ms,
            **facts,
        )
    error = error_from_code(error_code, where, **facts)
    if is_fencing(error_code):
        return ProducerFencedError(
            f"{error.message} Another producer has taken this transactional id at the same moment. Nothing "
            "was written.",
            **error.facts,
        )
    return error
