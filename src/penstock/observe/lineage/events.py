"""Make OpenLineage's events of a run.

Runs in the user's program. Pure. Needs `openlineage-python`. Invariant: an event holds names of topics,
columns and offsets, and no record and no option.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import attrs
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, RunEvent, RunState
from openlineage.client.event_v2 import Run as LineageRun
from openlineage.client.facet_v2 import (
    DatasetFacet,
    InputDatasetFacet,
    error_message_run,
    input_statistics_input_dataset,
    job_type_job,
    output_statistics_output_dataset,
    processing_engine_run,
    schema_dataset,
)

import penstock
from penstock.observe.lineage.run import Run, Span

PRODUCER = f"urn:penstock:{penstock.__version__}"
_TEXT_MAX = 20_000


@attrs.define
class KafkaOffsetsInputDatasetFacet(InputDatasetFacet):  # type: ignore[misc]  # an extra, so Any for mypy
    """The offsets of a topic that the run has passed. `endOffset` is the next one to read."""

    partitions: list[dict[str, int]] = attrs.field(factory=list)

    @staticmethod
    def _get_schema() -> str:
        return "urn:penstock:facets:1-0-0:KafkaOffsetsInputDatasetFacet"


def event_of(run: Run, state: str, namespace: str, engine_version: str, error: str | None = None) -> RunEvent:
    """Return an event.

    Args:
        run: of the query.
        state: START, RUNNING, COMPLETE or FAIL.
        namespace: of the job.
        engine_version: of Spark.
        error: why the run has failed: a line, and a stack trace if the user asked for it.
    """
    facets: dict[str, Any] = {
        "processing_engine": processing_engine_run.ProcessingEngineRunFacet(
            version=engine_version,
            name="spark",
            openlineageAdapterVersion=penstock.__version__,
            producer=PRODUCER,
        )
    }
    if error is not None:
        facets["errorMessage"] = _error(error)
    job_type = job_type_job.JobTypeJobFacet(
        processingType="STREAMING", integration="SPARK", jobType="QUERY", producer=PRODUCER
    )
    return RunEvent(
        eventType=RunState(state),
        eventTime=datetime.now(UTC).isoformat(),
        run=LineageRun(runId=run.run_id, facets=facets),
        job=Job(namespace=namespace, name=run.job_name, facets={"jobType": job_type}),
        inputs=_inputs(run),
        outputs=_outputs(run),
        producer=PRODUCER,
    )


def _error(text: str) -> error_message_run.ErrorMessageRunFacet:
    message, _, rest = text.partition("\n")
    return error_message_run.ErrorMessageRunFacet(
        message=message[:_TEXT_MAX],
        programmingLanguage="PYTHON",
        stackTrace=rest[:_TEXT_MAX] or None,
        producer=PRODUCER,
    )


def _inputs(run: Run) -> list[InputDataset]:
    reads = run.reads()
    numbers = [number for _, _, number in reads]
    found = []
    for given, topic, number in reads:
        of_run: dict[str, Any] = {}
        if number is not None:
            of_run["penstock_kafkaOffsets"] = _offsets(run.spans(topic, number))
            if numbers.count(number) == 1:  # Spark counts the rows of a source, not of a topic
                of_run["inputStatistics"] = input_statistics_input_dataset.InputStatisticsInputDatasetFacet(
                    rowCount=run.rows_in[number], producer=PRODUCER
                )
        facets = _schema(given.schema)
        found.append(InputDataset(given.namespace, topic, facets=facets, inputFacets=of_run))
    return found


def _offsets(spans: Sequence[Span]) -> Any:
    partitions = [
        {"partition": each.partition, "startOffset": each.start, "endOffset": each.end} for each in spans
    ]
    facet: Any = KafkaOffsetsInputDatasetFacet  # its base class, which has `producer`, is Any for mypy
    return facet(partitions=partitions, producer=PRODUCER)


def _outputs(run: Run) -> list[OutputDataset]:
    outputs = run.described.outputs
    is_one = sum(len(each.topics) for each in outputs) == 1
    found = []
    for each in outputs:
        for topic in each.topics:
            of_run: dict[str, Any] = {}
            if is_one and run.rows_out is not None:
                of_run["outputStatistics"] = (
                    output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
                        rowCount=run.rows_out, producer=PRODUCER
                    )
                )
            facets = _schema(each.schema)
            found.append(OutputDataset(each.namespace, topic, facets=facets, outputFacets=of_run))
    return found


def _schema(schema: Any) -> dict[str, DatasetFacet]:
    """Return the facet of a schema of Spark; none without one."""
    if schema is None:
        return {}
    return {"schema": schema_dataset.SchemaDatasetFacet(fields=_fields(schema), producer=PRODUCER)}


def _fields(schema: Any) -> list[schema_dataset.SchemaDatasetFacetFields]:
    return [
        schema_dataset.SchemaDatasetFacetFields(
            name=each.name,
            type=each.dataType.simpleString(),
            fields=_fields(each.dataType) if hasattr(each.dataType, "fields") else [],
        )
        for each in schema.fields
    ]
