"""Every error that penstock raises on purpose.

Runs on driver and executor. Invariant: each class survives pickling (executors send errors to the
driver), carries its facts as attributes, and never holds a secret.

    PenstockError
    ├── OptionError                 a user's option is wrong; found on the driver before a job starts
    │   ├── UnsupportedOptionError  a known Kafka or Flink setting that has no meaning here
    │   └── MissingOptionError
    ├── CodecError                  bytes from the wire are not what Kafka's format allows
    │   ├── CorruptBatchError       CRC or structure of a record batch is broken
    │   └── RecordTooLargeError     one record does not fit into a request
    ├── ClientError                 talking to Kafka failed
    │   ├── BrokerUnavailableError  no broker answered in time
    │   ├── AuthenticationError
    │   ├── AuthorizationError
    │   ├── UnknownTopicOrPartitionError
    │   ├── UnsupportedBrokerError  the broker does not speak what is needed
    │   ├── FetchError              reading a split failed
    │   ├── ProduceError            a record was not acknowledged
    │   ├── TransactionError        a transaction cannot go on
    │   │   └── ProducerFencedError a newer producer has taken the transactional id
    │   └── RequestTimeoutError
    ├── DataLossError               records that the query still needs are gone
    │   ├── OffsetOutOfRangeError
    │   ├── LogTruncatedError
    │   └── TopicPartitionsRemovedError
    ├── SchemaError                 a table's columns do not fit its formats; found on the driver
    ├── DecodeError                 a record cannot be decoded to rows
    ├── SchemaRegistryError         the Schema Registry did not give or take a schema
    ├── ExactlyOnceError            the exactly-once sink cannot keep its promise by going on
    │   ├── PrefixTakenError        another writer has taken the transactional id prefix
    │   ├── DecidedError            the batch is written, or may be, and could not be finished
    │   ├── TransactionsLostError   decided transactions were aborted by the broker; a replay repairs it
    │   ├── TransactionsInDoubtError  the replay of lost transactions is not what was lost
    │   ├── PrefixChangedError      the batch is decided under the prefix that the query had before
    │   ├── BatchOrderError         a batch older than what the decision log says was written
    │   └── DecisionLogError        the decision log is gone, damaged, or not set up as it has to be
    ├── RowError                    a row of a DataFrame cannot become a Kafka record
    ├── CheckpointError             stored state cannot be read by this version
    └── DevBrokerError              the development broker did not start or stop
"""

from __future__ import annotations

from typing import Any


class PenstockError(Exception):
    """Root of all errors of penstock.

    `str(error)` says what happened, where, what it means for the data and what to do. `facts` holds
    the same as values (topic, partition, offset, option ...), for programs.
    """

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.message = message
        self.facts = facts

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.message, self.facts))

    def __str__(self) -> str:
        return self.message


def _rebuild(kind: type[PenstockError], message: str, facts: dict[str, Any]) -> PenstockError:
    return kind(message, **facts)


class OptionError(PenstockError):
    """An option is missing, unknown, contradictory, or has a value that is not allowed."""


class UnsupportedOptionError(OptionError):
    """A setting that Kafka, Flink or Spark knows but penstock cannot honour."""


class MissingOptionError(OptionError):
    """A required option is absent."""


class CodecError(PenstockError):
    """Bytes do not follow Kafka's record batch format."""


class CorruptBatchError(CodecError):
    """A record batch fails its checksum or its structure."""


class RecordTooLargeError(CodecError):
    """One record is larger than a request may be."""


class ClientError(PenstockError):
    """A conversation with Kafka failed."""


class BrokerUnavailableError(ClientError):
    """No broker could be reached in time."""


class AuthenticationError(ClientError):
    """The broker did not accept who we are."""


class AuthorizationError(ClientError):
    """The broker does not allow this principal to do that."""


class UnknownTopicOrPartitionError(ClientError):
    """A topic or one of its partitions does not exist."""


class UnsupportedBrokerError(ClientError):
    """The broker and penstock share no version of a request."""


class FetchError(ClientError):
    """A split could not be read to its end."""


class ProduceError(ClientError):
    """Records were not acknowledged by the broker."""


class TransactionError(ClientError):
    """The broker refuses a step of a transaction for good."""


class ProducerFencedError(TransactionError):
    """A newer producer has taken over the transactional id."""


class RequestTimeoutError(ClientError):
    """The broker did not answer within the allowed time."""


class DataLossError(PenstockError):
    """Records that the query still has to read do not exist any more."""


class OffsetOutOfRangeError(DataLossError):
    """A wanted offset lies outside of what the broker still holds."""


class LogTruncatedError(DataLossError):
    """The log was cut back behind records that were already read (unclean leader election)."""


class TopicPartitionsRemovedError(DataLossError):
    """Topic partitions of the checkpoint do not exist any more."""


class SchemaError(PenstockError):
    """The columns of a table do not fit its formats, keys or metadata."""


class DecodeError(PenstockError):
    """A record's key or value cannot be decoded by its format."""


class SchemaRegistryError(PenstockError):
    """The Schema Registry could not be reached, or did not give or take a schema."""


class ExactlyOnceError(PenstockError):
    """Going on would lose or double records."""


class PrefixTakenError(ExactlyOnceError):
    """Another writer has taken the transactional id prefix; this one must stop."""


class DecidedError(ExactlyOnceError):
    """The batch is decided, which means written, but it could not be finished: do not write its rows again.

    The next start with the prefix, or `penstock transactions recover`, finishes it. Fact `is_decided` is
    True, or None where the cluster did not say whether it is decided. `__cause__` is what went wrong.
    """


class TransactionsLostError(ExactlyOnceError):
    """The broker aborted transactions that were decided; the batch has to be replayed."""


class TransactionsInDoubtError(ExactlyOnceError):
    """What a replay produced is not what was lost; only a human can tell what to do."""


class TargetTopicError(ExactlyOnceError):
    """A topic was deleted, or created again, while a batch was written into it."""


class BatchOrderError(ExactlyOnceError):
    """The checkpoint is older than what was written already, or goes on past a batch that is not whole."""


class PrefixChangedError(ExactlyOnceError):
    """The batch is decided under the prefix that the query had before."""


class DecisionLogError(ExactlyOnceError):
    """The decision log cannot be relied on."""


class RowError(PenstockError):
    """A row cannot be turned into a Kafka record."""


class CheckpointError(PenstockError):
    """State in a checkpoint is not readable."""


class DevBrokerError(PenstockError):
    """The development broker failed."""
