"""Names of the sink's transactional ids, and whose an id is.

Runs on driver and executor. Pure. Invariant: no transactional id belongs to two prefixes, so what is done to
all transactions of a prefix (`penstock transactions abort`, recovery) never touches another's.

    <prefix>-<spark partition>-<attempt>   transactions with data
    <prefix>-committer                     the driver's, for the decision log

Both end in fields of a fixed shape, so an id tells its prefix: strip those fields. Prefix `app` does not
claim `app-2-0-1`: without its last two fields that is `app-2`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from penstock.errors import OptionError

PREFIX_OPTION = "sink.transactional-id-prefix"
PREFIX_MAX_CHARS = 200
"""So that names made of it stay within Kafka's 249 characters for a topic."""

_PREFIX = re.compile(r"[A-Za-z0-9._-]+")
_NUMBER = r"(0|[1-9][0-9]{0,9})"
_DATA_ID = re.compile(rf"(?P<prefix>.+)-(?P<spark_partition_id>{_NUMBER})-(?P<attempt>{_NUMBER})")
_COMMITTER_SUFFIX = "-committer"
LOG_SUFFIX = "-decisions"
"""Ends the names of decision logs that are named by their prefix."""


class DataTransactionName(NamedTuple):
    """What the transactional id of a transaction with data says."""

    spark_partition_id: int
    attempt: int


@dataclass(frozen=True, slots=True)
class TransactionNames:
    """The transactional ids of one prefix. Raises OptionError for a prefix that is not allowed."""

    prefix: str

    def __post_init__(self) -> None:
        if len(self.prefix) > PREFIX_MAX_CHARS or _PREFIX.fullmatch(self.prefix) is None:
            raise OptionError(
                f"{PREFIX_OPTION} is {self.prefix[:300]!r}, but has to be 1 to {PREFIX_MAX_CHARS} of the "
                "characters A-Z a-z 0-9 . _ - (transactional ids and a topic are named by it). "
                "Choose one of its own for each query that writes to this cluster.",
                option=PREFIX_OPTION,
                value=self.prefix,
            )

    @property
    def committer_id(self) -> str:
        """The driver's transactional id."""
        return self.prefix + _COMMITTER_SUFFIX

    @property
    def default_log_topic(self) -> str:
        """The decision log's topic, unless `sink.commit-log.topic` names another."""
        return self.prefix + LOG_SUFFIX

    def data_id(self, spark_partition_id: int, attempt: int) -> str:
        """The transactional id of one attempt at one Spark partition."""
        return f"{self.prefix}-{spark_partition_id}-{attempt}"

    def parse(self, transactional_id: str) -> DataTransactionName | None:
        """What an id says, if it is one of this prefix's with data; None otherwise."""
        match = _DATA_ID.fullmatch(transactional_id)
        if match is None or match["prefix"] != self.prefix:
            return None
        return DataTransactionName(int(match["spark_partition_id"]), int(match["attempt"]))

    def claims(self, transactional_id: str) -> bool:
        """Whether the id is one of this prefix's, with data or the committer's."""
        return transactional_id == self.committer_id or self.parse(transactional_id) is not None
