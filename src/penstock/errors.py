"""All errors that penstock raises.

Runs on driver and executor. Invariant: each class pickles, because executors send errors to the driver; each
has its facts as attributes; none holds a secret.

    PenstockError
    ├── OptionError                 an option of the user is wrong; found on the driver before a job starts
    │   ├── UnsupportedOptionError  Kafka, Flink or Spark has the option, and penstock does not support it
    │   ├── MissingExtraError       an extra of penstock is not installed
    │   └── MissingOptionError      a required option is missing
    ├── CodecError                  bytes do not follow Kafka's record batch format
    │   ├── CorruptBatchError       the checksum or the structure of a record batch is wrong
    │   └── RecordTooLargeError     a record is larger than a request may be
    ├── ClientError                 talking to Kafka failed
    │   ├── BrokerUnavailableError  no broker answered in time
    │   ├── AuthenticationError     the broker did not accept the credentials
    │   ├── AuthorizationError      the user may not do this
    │   ├── UnknownTopicOrPartitionError  a topic or topic partition does not exist
    │   ├── UnsupportedBrokerError  the broker does not support a request that is needed
    │   ├── FetchError              reading a split failed
    │   ├── ProduceError            a record was not acknowledged
    │   ├── TransactionError        a transaction cannot continue
    │   │   └── ProducerFencedError a newer producer has taken the transactional id
    │   └── RequestTimeoutError     the broker did not answer in time
    ├── DataLossError               records that the query still needs are gone
    │   ├── OffsetOutOfRangeError   an offset is not in the log any more
    │   ├── LogTruncatedError       records that were read are not in the log any more
    │   └── TopicPartitionsRemovedError  a topic partition does not exist any more
    ├── SchemaError                 a table's columns do not fit its formats; found on the driver
    ├── DecodeError                 a record cannot be decoded
    ├── SchemaRegistryError         the Schema Registry failed or refused a schema
    ├── ExactlyOnceError            an exactly-once sink has to stop to keep its promise
    │   ├── PrefixTakenError        another writer has taken the transactional id prefix
    │   ├── DecidedError            the batch is written (or may be), but could not be finished
    │   ├── TransactionsLostError   the broker aborted decided transactions; a replay repairs it
    │   ├── TransactionsInDoubtError  a replay differs from the lost transactions
    │   ├── PrefixChangedError      the batch is decided under the prefix that the query had before
    │   ├── BatchOrderError         the batch is older than the last one in the decision log
    │   ├── NewQueryError           another query has written under the prefix of a new one
    │   ├── TargetTopicError        a topic was deleted or recreated while a batch was written to it
    │   ├── NoTransactionsError     a topic cannot take part in transactions (diskless)
    │   └── DecisionLogError        the decision log is gone, damaged, or has a wrong configuration
    ├── RowError                    a row cannot become a Kafka record
    ├── StateError                  the state of a query is damaged, or of another query or time
    ├── SqlError                    a SQL statement cannot be read, or penstock does not serve it
    │   └── SqlFailedError          a batch INSERT failed while it ran
    ├── MaterializeError            a table does not belong to the batch that was to change it
    ├── CheckpointError             stored state cannot be read by this version
    └── DevBrokerError              the development broker did not start or stop
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock._one_package import check_one_package

# Every room imports this module, also if another package has replaced `penstock/__init__.py`.
check_one_package()


class PenstockError(Exception):
    """Root of all errors of penstock.

    `str(error)` says what happened, where, what it means for the data, and what to do. `facts` holds the
    values in it (topic, partition, offset, option ...), for programs.
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
    """Kafka, Flink or Spark has the option, and penstock does not support it."""


class MissingOptionError(OptionError):
    """A required option is missing."""


class MissingExtraError(OptionError):
    """Something needs an extra of penstock that is not installed here. The fact `extra` names it."""


class CodecError(PenstockError):
    """Bytes do not follow Kafka's record batch format."""


class CorruptBatchError(CodecError):
    """The checksum or the structure of a record batch is wrong."""


class RecordTooLargeError(CodecError):
    """A record is larger than a request may be."""


class ClientError(PenstockError):
    """Talking to Kafka failed."""


class BrokerUnavailableError(ClientError):
    """No broker answered in time."""


class AuthenticationError(ClientError):
    """The broker did not accept the credentials."""


class AuthorizationError(ClientError):
    """The broker does not allow this user to do this."""


class UnknownTopicOrPartitionError(ClientError):
    """A topic or one of its partitions does not exist."""


class UnsupportedBrokerError(ClientError):
    """The broker supports no version of a request that penstock supports."""


class FetchError(ClientError):
    """A split could not be read to its end."""


class ProduceError(ClientError):
    """The broker did not acknowledge records."""


class TransactionError(ClientError):
    """The broker refuses a step of a transaction, and a retry would not help."""


class ProducerFencedError(TransactionError):
    """A newer producer has taken over the transactional id."""


class RequestTimeoutError(ClientError):
    """The broker did not answer within the allowed time."""


class DataLossError(PenstockError):
    """Records that the query still needs do not exist any more."""


class OffsetOutOfRangeError(DataLossError):
    """The broker does not have an offset that the query needs."""


class LogTruncatedError(DataLossError):
    """The log was truncated before records that were already read (unclean leader election)."""


class TopicPartitionsRemovedError(DataLossError):
    """Topic partitions of the checkpoint do not exist any more."""


class SchemaError(PenstockError):
    """The columns of a table do not fit its formats, keys or metadata."""


class DecodeError(PenstockError):
    """The format cannot decode the key or value of a record."""


class SchemaRegistryError(PenstockError):
    """The Schema Registry did not answer, or refused a schema."""


class ExactlyOnceError(PenstockError):
    """The sink had to stop, because to continue would lose or double records."""


class PrefixTakenError(ExactlyOnceError):
    """Another writer has taken the transactional id prefix, so this writer must stop."""


class DecidedError(ExactlyOnceError):
    """The batch is decided, which means written, but could not be finished. Do not write its rows again.

    The next start with the prefix, or `penstock transactions recover`, finishes it. The fact `is_decided` is
    True, or None if it is unknown whether the batch is decided. `__cause__` is the error that stopped it.
    """


class TransactionsLostError(ExactlyOnceError):
    """The broker aborted decided transactions. The batch has to be replayed."""


class TransactionsInDoubtError(ExactlyOnceError):
    """A replay differs from the transactions that were lost. A person has to decide what to do."""


class TargetTopicError(ExactlyOnceError):
    """A topic was deleted or recreated while a batch was written to it."""


class NoTransactionsError(ExactlyOnceError):
    """A topic cannot take part in transactions, so that nothing can be written to it exactly-once."""


class BatchOrderError(ExactlyOnceError):
    """The checkpoint is older than the last written batch, or continues after a batch that is incomplete."""


class PrefixChangedError(ExactlyOnceError):
    """The batch is decided under the prefix that the query had before."""


class NewQueryError(ExactlyOnceError):
    """Another query has written under the prefix of a new one, and `sink.on-new-query` is `fail`."""


class DecisionLogError(ExactlyOnceError):
    """The decision log is gone, damaged, or has a wrong configuration."""


class RowError(PenstockError):
    """A row cannot become a Kafka record."""


class StateError(PenstockError):
    """The keyed state of a query is gone, damaged, or belongs to another query or another time."""


class SqlError(PenstockError):
    """A SQL statement cannot be read, or penstock does not serve it."""


class SqlFailedError(SqlError):
    """A statement that was accepted failed while it ran."""


class MaterializeError(PenstockError):
    """A table that is kept equal to a changelog belongs to another query, or to another time."""


class CheckpointError(PenstockError):
    """This version cannot read the state of a checkpoint."""


class DevBrokerError(PenstockError):
    """The development broker failed."""


@dataclass(frozen=True)
class Failure:
    """The error of penstock that ended a query or a job, as `penstock.explain_failure` finds it.

    Attributes:
        name: of the error's class, e.g. `penstock.errors.PrefixTakenError`.
        message: what happened, what it means for the data, what to do.
        facts: the error's facts (topic, offset ...) if the error itself is available. Empty if Spark has
            passed on only its text, which it does for every error of its Python processes.
    """

    name: str
    message: str
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def error_class(self) -> type[PenstockError]:
        """Return the class, for `issubclass`; PenstockError if this version does not have it."""
        found = globals().get(self.name.rpartition(".")[2])
        return found if isinstance(found, type) and issubclass(found, PenstockError) else PenstockError

    def __str__(self) -> str:
        return f"{self.name}: {self.message}"
