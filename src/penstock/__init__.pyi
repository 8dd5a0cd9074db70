"""The only list of the public names of `penstock` and their modules, and of the public modules.

Type checkers and editors read it. `penstock/__init__.py` reads it too, to load a name when it is first used.
Invariant: each import has one name, as `from home import Name as Name`.
"""

from penstock import cdc as cdc
from penstock import changelog as changelog
from penstock import devbroker as devbroker
from penstock import errors as errors
from penstock import flink as flink
from penstock import lineage as lineage
from penstock import metrics as metrics
from penstock import sql as sql
from penstock import targets as targets
from penstock import testing as testing
from penstock.flink._kafka_sink import KafkaSink as KafkaSink
from penstock.flink._kafka_source import KafkaSource as KafkaSource
from penstock.flink._watermark import with_watermark as with_watermark
from penstock.flink.offsets_initializer import KafkaOffsetsInitializer as KafkaOffsetsInitializer
from penstock.flink.record_serialization import (
    KafkaRecordSerializationSchema as KafkaRecordSerializationSchema,
)
from penstock.observe.bar import batch_progress as batch_progress
from penstock.observe.bar import progress as progress
from penstock.options.config import DeliveryGuarantee as DeliveryGuarantee
from penstock.spark.continuous import ContinuousQuery as ContinuousQuery
from penstock.spark.continuous import continuous as continuous
from penstock.spark.continuous import continuous_queries as continuous_queries
from penstock.spark.explain_failure import explain_failure as explain_failure
from penstock.spark.run_until_bounded import run_until_bounded as run_until_bounded
from penstock.spark.stop_after_batch import stop_after_batch as stop_after_batch
from penstock.spark.stop_on_signal import stop_on_signal as stop_on_signal
from penstock.spark.write_batch import write_batch as write_batch

__all__: list[str]
__version__: str
