"""Say what to use instead of a member of Flink's classes that does not exist here.

Runs in the user's program. Invariant: only names that a class does not have come here. An error says what
docs/flink-older-methods.md says, because `tests/older_api_page.py` makes the page from these sentences.
"""

from __future__ import annotations

import re
from typing import NoReturn

_RUNTIME = "Flink's runtime calls it. Spark runs the query: use `load`, `write` or `write_stream`."
_LIMIT = "penstock has no such setting. Leave it out."
_SETTING = "Spark has no such setting for a sink. Use the DataFrame: `repartition`, `queryName`."
_CONTEXT = "Use a FlinkKafkaPartitioner, which gets the number of the task and the partitions."
_OF_FUNCTION = ("open", "close", "initializeState", "snapshotState")
_OF_RICH_FUNCTION = (
    *_OF_FUNCTION,
    "notifyCheckpointComplete",
    "notifyCheckpointAborted",
    "setRuntimeContext",
    "getRuntimeContext",
    "getIterationRuntimeContext",
)

ABSENT: dict[str, dict[str, str]] = {
    "FlinkKafkaConsumer": {
        "get_java_function": "There is no Java object. Use `source`.",
        "getPartitionsForTopic": "Use the command `penstock topics`.",
        "MAX_NUM_PENDING_CHECKPOINTS": _LIMIT,
        "PARTITION_DISCOVERY_DISABLED": _LIMIT,
        "DEFAULT_POLL_TIMEOUT": _LIMIT,
        "DEFAULT_GET_PARTITIONS_RETRIES": _LIMIT,
        **dict.fromkeys(("run", "cancel", *_OF_RICH_FUNCTION), _RUNTIME),
    },
    "FlinkKafkaProducer": {
        "get_java_function": "There is no Java object. Use `sink`.",
        "DEFAULT_KAFKA_TRANSACTION_TIMEOUT": "The default is `transaction.max.timeout.ms` of the brokers.",
        "getTransactionTimeout": "Read `transaction.timeout.ms` of your properties.",
        **dict.fromkeys(("invoke", "finish", *_OF_RICH_FUNCTION), _RUNTIME),
    },
    "FlinkKafkaProducer08": dict.fromkeys(("invoke", *_OF_FUNCTION), _RUNTIME),
    "FlinkKafkaProducer010Configuration": dict.fromkeys(
        (
            "name",
            "uid",
            "setUidHash",
            "setParallelism",
            "disableChaining",
            "slotSharingGroup",
            "getTransformation",
        ),
        _SETTING,
    ),
    "KafkaSerializationSchema": {
        "open": "Open connections at the first call of `serialize`.",
        "setParallelInstanceId": _CONTEXT,
        "setNumParallelInstances": _CONTEXT,
        "setPartitions": _CONTEXT,
    },
}
"""What to use instead of each member of a class, by Flink's name of the member."""


def snake_case(name: str) -> str:
    """Return a name of Java in Python's spelling; a constant keeps its name."""
    if name.isupper() or "_" in name:
        return name
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda found: f"_{found[1].lower()}", name)


class NamesWhatToUse:
    """Raises AttributeError with the advice of `ABSENT`, for the names in Java and in Python."""

    def __getattr__(self, name: str) -> NoReturn:
        notes = (
            note
            for kind in type(self).__mro__
            for java, note in ABSENT.get(kind.__name__, {}).items()
            if name in (java, snake_case(java))
        )
        note = next(notes, None)
        advice = "" if note is None else f". It is a member of Flink's class only. {note}"
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{advice}")
