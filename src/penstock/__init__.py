"""penstock: what Flink users have with Kafka, for PySpark users. Public names; nothing else.

Invariant: `import penstock` is light; a public name loads its module, and PySpark, when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.api import KafkaOffsetResetStrategy as KafkaOffsetResetStrategy
    from penstock.api import KafkaOffsetsInitializer as KafkaOffsetsInitializer
    from penstock.api import KafkaSource as KafkaSource
    from penstock.api import KafkaTopicPartition as KafkaTopicPartition
    from penstock.api import PartitionOffsetsRetriever as PartitionOffsetsRetriever
    from penstock.api import with_watermark as with_watermark
    from penstock.spark.run_until_bounded import run_until_bounded as run_until_bounded

__version__ = "0.1.0"

_HOMES = {
    "KafkaOffsetResetStrategy": "penstock.api",
    "KafkaOffsetsInitializer": "penstock.api",
    "KafkaSource": "penstock.api",
    "KafkaTopicPartition": "penstock.api",
    "PartitionOffsetsRetriever": "penstock.api",
    "run_until_bounded": "penstock.spark.run_until_bounded",
    "with_watermark": "penstock.api",
}
__all__ = [
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaSource",
    "KafkaTopicPartition",
    "PartitionOffsetsRetriever",
    "__version__",
    "run_until_bounded",
    "with_watermark",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
