"""The partitioners of the older producers.

Users subclass FlinkKafkaPartitioner; tasks call it. Invariant: FlinkFixedPartitioner is the option `fixed`,
and no partitioner is Java's hash of the key.
"""

from __future__ import annotations

from abc import ABC

from penstock.sink.custom_partitioner import KafkaPartitioner


class FlinkKafkaPartitioner(KafkaPartitioner, ABC):
    """Chooses the partition of each record: Flink's `FlinkKafkaPartitioner`. Subclass it.

    `partition(record, key, value, target_topic, partitions)` is called for each record. `record` is a mapping
    of the columns that are written, not the element. `open(parallel_instance_id)` gets the task's number.
    Flink's second argument, the number of tasks, does not exist.
    """


class FlinkFixedPartitioner:
    """Writes all records of a task to one partition. It is the default of Java's constructors."""


class DefaultPartitioner:
    """Stands for an argument that is not given. Each constructor has the default of Flink's."""
