"""The consumers with a version of Kafka in their name.

Runs in the user's program. Invariant: each has the defaults and the limits of its version.
"""

from __future__ import annotations

from typing import TypeVar

from penstock.errors import UnsupportedOptionError
from penstock.flink.legacy.consumer import FlinkKafkaConsumer

_C = TypeVar("_C", bound=FlinkKafkaConsumer)


class FlinkKafkaConsumer011(FlinkKafkaConsumer):
    """The consumer for Kafka 0.11. It reads from every broker that penstock supports."""


class FlinkKafkaConsumer010(FlinkKafkaConsumer):
    """The consumer for Kafka 0.10. It reads from every broker that penstock supports."""


class FlinkKafkaConsumer09(FlinkKafkaConsumer):
    """The consumer for Kafka 0.9. It reads from every broker that penstock supports."""

    def set_start_from_timestamp(self: _C, startup_offsets_timestamp: int) -> _C:
        """Raise an error, as Kafka 0.9 and older have no timestamps.

        Raises:
            UnsupportedOptionError: always.
        """
        raise UnsupportedOptionError(
            f"{type(self).__name__} cannot start at a timestamp, because records had none before Kafka 0.10. "
            "Use FlinkKafkaConsumer, which takes the same arguments."
        )

    setStartFromTimestamp = set_start_from_timestamp


class FlinkKafkaConsumer08(FlinkKafkaConsumer09):
    """The consumer for Kafka 0.8. It needs `group.id`, but no ZooKeeper."""

    _needs_group_id = True


class FlinkKafkaConsumer081(FlinkKafkaConsumer08):
    """The consumer for Kafka 0.8.1."""


class FlinkKafkaConsumer082(FlinkKafkaConsumer08):
    """The consumer for Kafka 0.8.2."""
