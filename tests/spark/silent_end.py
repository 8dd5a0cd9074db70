"""A sink whose commit gets no answer from Kafka after its batch is decided, as if the network were cut.

For tests. It works in each process in which Spark runs the sink's commit, on classic and Connect.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

FORMAT = "penstock-silent-end"


def register(spark: Any) -> None:
    """Make `format(FORMAT)` known to a session."""
    spark.dataSource.register(_source())


def _source() -> type:
    # Defined in a function, so it is pickled by value, and Spark's processes do not need this module.
    from pyspark.sql.types import StructType  # noqa: PLC0415 - see above

    from penstock.errors import BrokerUnavailableError  # noqa: PLC0415 - see above
    from penstock.options.parse import parse_write  # noqa: PLC0415 - see above
    from penstock.sink.exactly_once._probes import Step, observe  # noqa: PLC0415 - see above
    from penstock.spark._exactly_once import (  # noqa: PLC0415 - see above
        ExactlyOnceStreamWriter,
        ExactlyOnceWriter,
    )
    from penstock.spark.datasource import PenstockDataSource  # noqa: PLC0415 - see above

    @contextmanager
    def no_answer() -> Iterator[None]:
        from penstock.sink.exactly_once.kafka import KafkaSinkTransactions  # noqa: PLC0415 - driver only

        end = KafkaSinkTransactions.end

        def silent(*_: object, **__: object) -> None:
            raise BrokerUnavailableError("EndTxn was not answered.")

        def cut(step: Step) -> None:
            if step is Step.DECIDED:
                KafkaSinkTransactions.end = silent  # type: ignore[method-assign,assignment]  # for this commit

        observe(cut)
        try:
            yield
        finally:
            observe(None)
            KafkaSinkTransactions.end = end  # type: ignore[method-assign]  # as it was

    class Writer(ExactlyOnceWriter):
        def commit(self, messages: Any) -> None:
            with no_answer():
                super().commit(messages)

    class StreamWriter(ExactlyOnceStreamWriter):
        def commit(self, messages: Any, batchId: int) -> None:  # Spark's name
            with no_answer():
                super().commit(messages, batchId)

    class Source(PenstockDataSource):
        @classmethod
        def name(cls) -> str:
            return "penstock-silent-end"

        def writer(self, schema: StructType, overwrite: bool) -> Any:
            return Writer(parse_write(self.options).sink, schema, overwrite=overwrite)

        def streamWriter(self, schema: StructType, overwrite: bool) -> Any:
            return StreamWriter(parse_write(self.options).sink, schema)

    return Source
