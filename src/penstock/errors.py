"""All errors that penstock raises.

Runs on driver and executor. Invariant: each class pickles, because executors send errors to the driver; each
has its values in `facts`; none holds a secret.

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
    │   ├── QueryEndedError         the query is a shadow, or has handed over its prefix or its table
    │   ├── TargetTopicError        a topic was deleted or recreated while a batch was written to it
    │   ├── NoTransactionsError     a topic cannot take part in transactions (diskless)
    │   └── DecisionLogError        the decision log is gone, damaged, or has a wrong configuration
    ├── RowError                    a row cannot become a Kafka record
    ├── StateError                  the state of a query is damaged, or of another query or time
    ├── SqlError                    a SQL statement cannot be read, or penstock does not serve it
    │   └── SqlFailedError          a batch INSERT failed while it ran
    ├── MaterializeError            a table does not belong to the batch that was to change it
    │   ├── TableOrderError         ... because the batch does not follow the last one of the table
    │   └── StagedRowsError         ... because rows in the staging folder cannot be read
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

    What to do: read the message. It says what happened, what it means for the data, and what to do.
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
    """An option is missing, unknown, contradictory, or has a value that is not allowed.

    What to do: correct the option that the message names. Nothing was read or written.
    """


class UnsupportedOptionError(OptionError):
    """Kafka, Flink or Spark has the option, and penstock does not support it.

    What to do: remove the option, or use what the message names instead.
    """


class MissingOptionError(OptionError):
    """A required option is missing.

    What to do: set the option that the message names.
    """


class MissingExtraError(OptionError):
    """Something needs an extra of penstock that is not installed here. The fact `extra` names it.

    What to do: install the extra where the message says: on the driver, on the executors, or on both.
    """


class CodecError(PenstockError):
    """Bytes do not follow Kafka's record batch format.

    What to do: look at the records with another client. If that one reads them, report a bug of penstock.
    """


class CorruptBatchError(CodecError):
    """The checksum or the structure of a record batch is wrong.

    What to do: read the offset with another client, such as `kafka-dump-log.sh`. If the log is damaged,
    restore the broker's disk or a replica. penstock does not skip the batch.
    """


class RecordTooLargeError(CodecError):
    """A record is larger than a request may be.

    What to do: make the record smaller, or raise `max.request.size`, and `max.message.bytes` of the
    topic.
    """


class ClientError(PenstockError):
    """Talking to Kafka failed.

    What to do: read the cause in the message, and remove it. Then restart the query.
    """


class BrokerUnavailableError(ClientError):
    """No broker answered in time.

    What to do: check the addresses, the network, and whether the brokers run. Then restart the query.
    """


class AuthenticationError(ClientError):
    """The broker did not accept the credentials.

    What to do: check the login, the SASL mechanism and the expiry of the credentials (docs/security.md).
    """


class AuthorizationError(ClientError):
    """The broker does not allow this user to do this.

    What to do: grant the right that the message names. `penstock doctor` lists the rights that a query
    needs.
    """


class UnknownTopicOrPartitionError(ClientError):
    """A topic or one of its partitions does not exist.

    What to do: create the topic, or correct its name.
    """


class UnsupportedBrokerError(ClientError):
    """The broker supports no version of a request that penstock supports.

    What to do: upgrade the broker, or leave out the function that needs the request (docs/support.md).
    """


class FetchError(ClientError):
    """A split could not be read to its end.

    What to do: restart the query: it reads the same records again. If it fails at the same offset, read
    the cause.
    """


class ProduceError(ClientError):
    """The broker did not acknowledge records.

    What to do: remove the cause in the message, and restart. An exactly-once query has made no row of the
    batch visible. Without exactly-once the next attempt may write rows twice.
    """


class TransactionError(ClientError):
    """The broker refuses a step of a transaction, and a retry would not help.

    What to do: restart the query. A batch that is not decided is aborted and written again.
    """


class ProducerFencedError(TransactionError):
    """A newer producer has taken over the transactional id.

    What to do: let only one query use the transactional id prefix (or, of continuous queries, the
    consumer group). If there is only one, raise `transaction.timeout.ms`. Then restart.
    """


class RequestTimeoutError(ClientError):
    """The broker did not answer within the allowed time.

    What to do: look at the load of the broker, and at `request.timeout.ms`. Restart the query.
    """


class DataLossError(PenstockError):
    """Records that the query still needs do not exist any more.

    What to do: find out why the records are gone before you allow the loss (docs/source.md, "When records
    are gone").
    """


class OffsetOutOfRangeError(DataLossError):
    """The broker does not have an offset that the query needs.

    What to do: raise the topic's retention, so that this does not happen again. Then allow the loss with
    `scan.on-data-loss` (`failOnDataLoss`), or start with another position and a new checkpoint.
    """


class LogTruncatedError(DataLossError):
    """The log was truncated before records that were already read (unclean leader election).

    What to do: compare what was written with the source: readers have seen records that the broker has
    lost. Then allow the loss as for `OffsetOutOfRangeError`. Keep unclean leader election off.
    """


class TopicPartitionsRemovedError(DataLossError):
    """Topic partitions of the checkpoint do not exist any more.

    What to do: if the topic was deleted on purpose, allow the loss as the message says, or start with a
    new checkpoint.
    """


class SchemaError(PenstockError):
    """The columns of a table do not fit its formats, keys or metadata.

    What to do: change the columns or the option that the message names.
    """


class DecodeError(PenstockError):
    """The format cannot decode the key or value of a record.

    What to do: look at the record that the message names. Repair it at its source, or choose `skip` or
    `dead-letter` with `scan.on-decode-error`, and restart the query: it continues where it stopped.
    """


class SchemaRegistryError(PenstockError):
    """The Schema Registry did not answer, or refused a schema.

    What to do: check the registry's address, login and compatibility rule. Then restart the query.
    """


class ExactlyOnceError(PenstockError):
    """The sink had to stop, because to continue would lose or double records.

    What to do: restart the query. If the error comes again, do what its message says before you write.
    """


class PrefixTakenError(ExactlyOnceError):
    """Another writer has taken the transactional id prefix, so this writer must stop.

    What to do: give each query its own `sink.transactional-id-prefix`. If the other writer was an older
    run of this query, end it.
    """


class DecidedError(ExactlyOnceError):
    """The batch is decided, so it counts as written, but it is not finished. Do not write its rows again.

    The next start with the prefix, or `penstock transactions recover`, finishes it. The fact `is_decided` is
    True, or None if it is unknown whether the batch is decided. `__cause__` is the error that stopped it.

    What to do: restart the stream. It recognises the batch and finishes it. A batch write without a name must
    not run again: finish it with `penstock transactions recover`.
    """


class TransactionsLostError(ExactlyOnceError):
    """The broker aborted decided transactions. The batch has to be replayed.

    What to do: restart the query, or run the write again under the same `sink.write-id`: it writes only
    what is lost. Raise `transaction.timeout.ms` above the longest outage that you expect.
    """


class TransactionsInDoubtError(ExactlyOnceError):
    """A replay differs from the transactions that were lost. A person has to decide what to do.

    What to do: compare the target with the source. Then choose `take-as-written` or
    `write-again`: the message has the whole command.
    """


class TargetTopicError(ExactlyOnceError):
    """A topic was deleted or recreated while a batch was written to it.

    What to do: start the query or the write again. Do not delete a topic while a query writes to it.
    """


class NoTransactionsError(ExactlyOnceError):
    """A topic cannot take part in transactions, so that nothing can be written to it exactly-once.

    What to do: write to another topic, or set `sink.delivery-guarantee` to `at-least-once`.
    """


class BatchOrderError(ExactlyOnceError):
    """The checkpoint is older than the last written batch, or continues after a batch that is incomplete.

    What to do: continue with the newest checkpoint, or let the query repeat the incomplete batch.
    """


class PrefixChangedError(ExactlyOnceError):
    """The batch is decided under the prefix that the query had before.

    What to do: start once with the old prefix, let it finish the batch, stop it, and then change the
    prefix.
    """


class NewQueryError(ExactlyOnceError):
    """Another query has written under the prefix of a new one, and `sink.on-new-query` is `fail`.

    What to do: continue with the older checkpoint, or give the new query a prefix of its own.
    """


class QueryEndedError(ExactlyOnceError):
    """The query may not write: it has handed over its prefix or its table, or it is a shadow.

    What to do: let the query write that has the prefix or the table now. Give a shadow its own prefix and
    topic.
    """


class DecisionLogError(ExactlyOnceError):
    """The decision log is gone, damaged, or has a wrong configuration.

    What to do: do not write. Restore the log's configuration, or compare the target with the source and
    start with a prefix that was never used.
    """


class RowError(PenstockError):
    """A row cannot become a Kafka record, does not fit the changelog, or cannot go into a table.

    It does not fit the changelog if it deletes a row that was never there, or has the sort key of another
    row. It cannot go into a table if it has a null in a key or in a NOT NULL column, or a text
    that is not JSON in a VARIANT.

    What to do: the message names the rule. Correct the row, or the query that makes it.
    """


class StateError(PenstockError):
    """The keyed state of a query is gone, damaged, or belongs to another query or another time.

    What to do: give the query the state that belongs to its checkpoint, or start with a new checkpoint
    and a new state. `penstock state verify` looks for damage.
    """


class SqlError(PenstockError):
    """A SQL statement cannot be read, or penstock does not serve it.

    What to do: correct the statement at the line and column of the message.
    """


class SqlFailedError(SqlError):
    """A statement that was accepted failed while it ran.

    What to do: read the cause in the message, remove it, and run the statement again.
    """


class MaterializeError(PenstockError):
    """A table that is kept equal to a changelog belongs to another query, or to another time.

    What to do: start with the checkpoint that belongs to the table, or build the table again
    (docs/table-maintenance.md).
    """


class TableOrderError(MaterializeError):
    """A batch does not follow the one that a table has, or the table belongs to another query.

    What to do: start with the checkpoint that belongs to the table, or build the table again with a new
    checkpoint.
    """


class StagedRowsError(MaterializeError):
    """The driver or a task cannot read a file with rows of a batch in the staging folder.

    What to do: if another driver of the query runs, let it run alone. Otherwise see that the folder can be
    reached, and start the query again: Spark repeats the batch.
    """


class CheckpointError(PenstockError):
    """This version cannot read the state of a checkpoint.

    What to do: use the version of penstock that wrote the checkpoint, or start with a new checkpoint
    location.
    """


class DevBrokerError(PenstockError):
    """The development broker failed.

    What to do: read the broker's log in the folder that the message names. Stop an older broker, or free
    its port.
    """


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
