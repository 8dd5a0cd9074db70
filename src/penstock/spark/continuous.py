"""continuous: from topic to topic within milliseconds, by default exactly-once, as one long job of Spark.

Runs in the user's program, on Spark classic and Connect, which has to reach Kafka. Nothing of Spark's data
sources is used. Invariant: everything that can be wrong with the arguments is found before a job starts.
"""

from __future__ import annotations

import atexit
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock._pyspark import check_pyspark
from penstock.client.settings import check_connection
from penstock.errors import OptionError, UnsupportedOptionError
from penstock.options.config import SourceConfig
from penstock.options.continuous import parse_continuous
from penstock.options.table import DEAD_LETTER_TOPIC
from penstock.relay.driver import PlanDriver, QueryPlan
from penstock.relay.progress import figures_of
from penstock.relay.settings import QuerySettings, query_settings
from penstock.relay.supervisor import Supervisor
from penstock.spark._arguments import Duration, duration_ms
from penstock.spark._continuous_job import SparkJob
from penstock.spark._continuous_rows import records_of_query
from penstock.spark._target_topics import check_target_topic
from penstock.spark.connect import is_connect

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_SPECULATION = "spark.speculation"
_LANES_MAX = 5
INTERVAL_MAX_MS = 60_000
_IDS = uuid.UUID("4a0f3f0e-6f0b-4c55-9a57-3d5f5a1f9a51")
"""The namespace of the ids of queries."""
_AT_EXIT_S = 10.0

_lock = threading.Lock()


class ContinuousQuery:
    """A handle like Spark's StreamingQuery. `penstock.continuous` makes it."""

    def __init__(self, supervisor: Supervisor, query_id: str, run_id: str, name: str | None) -> None:
        self._supervisor = supervisor
        self._id = query_id
        self._run_id = run_id
        self._name = name

    @property
    def id(self) -> str:
        """Return the id of the query. It follows from the consumer group, so a restart keeps it."""
        return self._id

    @property
    def runId(self) -> str:
        """Return the id of this run, from the call of `penstock.continuous` to the end of the query."""
        return self._run_id

    @property
    def name(self) -> str | None:
        """Return the name that the user gave."""
        return self._name

    @property
    def isActive(self) -> bool:
        """Return whether the query has not ended."""
        return self._supervisor.is_alive

    @property
    def status(self) -> dict[str, Any]:
        """Return what the query does now: `message`, `isDataAvailable` and `isTriggerActive` as in Spark.

        Beside them: `generation`, the number of the plan; `numTasks`; `numTasksBegun`, how many of them run;
        and the figures of `lastProgress`, such as `numInputRows`, since this run began.
        """
        supervisor = self._supervisor
        tasks = 0 if supervisor.plan is None else len(supervisor.plan.tasks)
        is_running = self.isActive and supervisor.begun_tasks > 0
        return {
            "message": supervisor.message,
            "isDataAvailable": is_running,
            "isTriggerActive": is_running,
            "generation": None if supervisor.plan is None else supervisor.plan.membership.generation,
            "numTasks": tasks,
            "numTasksBegun": supervisor.begun_tasks,
            **figures_of(supervisor.progress.committed),
        }

    @property
    def lastProgress(self) -> dict[str, Any] | None:
        """Return the last report; None before the first. A report comes at most each second.

        Its figures are of committed transactions. Since the report before: `numInputRows`, `numInputBytes`
        (in Arrow), `numOutputRows`, `numOutputBytes` (compressed), `numTransactions`,
        `numDeadLetters`, `numSkippedRecords`, `numIgnoredRecords` (`ignore-parse-errors`), and
        `inputRowsPerSecond`. Beside them: `startOffset` and `endOffset` by topic and partition,
        `generation`, and `numTaskStarts`: it grows when tasks start again in place after a fault.
        """
        recent = self.recentProgress
        return recent[-1] if recent else None

    @property
    def recentProgress(self) -> list[dict[str, Any]]:
        """Return the last 100 reports, the newest last."""
        return list(self._supervisor.progress.recent)

    def exception(self) -> BaseException | None:
        """Return the error that ended the query; None if it runs, or was stopped."""
        return None if self.isActive else self._supervisor.error

    def awaitTermination(self, timeout: float | None = None) -> bool | None:
        """Wait until the query has ended.

        Args:
            timeout: in seconds; None to wait for as long as it takes.

        Returns:
            With a timeout, whether the query has ended. Without one, None.

        Raises:
            PenstockError: the query has failed.
        """
        has_ended = self._supervisor.join(timeout)
        error = self.exception()
        if error is not None:
            raise error
        return None if timeout is None else has_ended

    def stop(self) -> None:
        """Stop the query, and wait until it has stopped. Nothing of it stays open in Kafka.

        Its tasks abort what they have not committed, and the next start with the same consumer group reads
        that again. So with exactly-once each record still takes effect once.
        """
        stop_together([self])


def stop_together(queries: Iterable[ContinuousQuery]) -> None:
    """Stop queries at the same time, and wait until all of them have stopped. It raises nothing."""
    supervisors = [each._supervisor for each in queries]  # noqa: SLF001 - of the same module
    for supervisor in supervisors:
        supervisor.stop()
    for supervisor in supervisors:
        supervisor.join(None)


def continuous(  # noqa: PLR0913 - each is a keyword of its own
    spark: Any,
    source: Mapping[str, str],
    function: Callable[[pa.RecordBatch], pa.RecordBatch | list[pa.RecordBatch]] | None,
    sink: Mapping[str, str],
    *,
    schema: StructType | str | None = None,
    output_schema: StructType | str | None = None,
    name: str | None = None,
    tasks: int | None = None,
    lanes: int = 1,
    commit_interval: Duration = "20 ms",
) -> ContinuousQuery:
    """Start a query that copies from topic to topic without micro-batches, by default exactly-once.

    One job of Spark runs until the query stops. Each of its tasks reads some topic partitions, and commits
    what it writes and how far it has read in one Kafka transaction, every `commit_interval`. There is no
    checkpoint: the offsets of the consumer group say where the query is. A group with offsets continues from
    there; `startingOffsets` and `scan.startup.mode` count for a group without any.

        query = penstock.continuous(
            spark,
            {"subscribe": "orders", "kafka.bootstrap.servers": servers, "kafka.group.id": "orders-eu"},
            lambda batch: batch.filter(pc.starts_with(batch["value"].cast("string"), "eu")),
            {"topic": "orders-eu"},
        )
        query.awaitTermination()

    docs/continuous.md says when to use it, docs/continuous-promises.md what is promised, and
    docs/continuous-reference.md which options it takes.

    Args:
        spark: a session of Spark classic or Connect. The query uses no data source of Spark, so Spark 3.5 is
            enough.
        source: options of a read, in either dialect. A consumer group is required, for this query only.
        function: gets a batch with the columns of a read (key, value, topic, partition, offset ..., or with a
            format those of `schema`), and returns one, or a list of them, with the columns of a write. It is
            pickled like a function for `mapInArrow`, and each task calls it on one thread. None copies the
            columns of formats, or without formats key, value, headers and timestamp.
        sink: options of a write. A Kafka property that it does not set has the value of the source.
        schema: the columns of the source, if it has a format.
        output_schema: the columns of the sink, if it has a format; by default those of the source.
        name: for Spark's pages and reports.
        tasks: how many slots of Spark the query takes; by default one for each topic partition, but at most
            the default parallelism of Spark classic.
        lanes: transactional ids of each task. With 2 the next transaction begins while the last one ends.
        commit_interval: the time from one transaction of a task to the next, while records come.

    Raises:
        OptionError: an option is wrong, or a continuous query does not follow it. The message names it.
        PenstockError: Kafka does not answer, or another query has the consumer group.
    """
    return start_as(
        None,
        spark,
        source,
        function,
        sink,
        schema=schema,
        output_schema=output_schema,
        name=name,
        tasks=tasks,
        lanes=lanes,
        commit_interval=commit_interval,
    )


def start_as(  # noqa: D417, PLR0913 - the others are those of `continuous`
    query: str | None,
    spark: Any,
    source: Mapping[str, str],
    function: Callable[[pa.RecordBatch], pa.RecordBatch | list[pa.RecordBatch]] | None,
    sink: Mapping[str, str],
    *,
    takes_others: bool = False,
    schema: StructType | str | None = None,
    output_schema: StructType | str | None = None,
    name: str | None = None,
    tasks: int | None = None,
    lanes: int = 1,
    commit_interval: Duration = "20 ms",
) -> ContinuousQuery:
    """Start a query as `continuous` does, that goes on only from its own offsets.

    Args:
        query: tells it from others, see `QuerySettings`.
        takes_others: see there.

    Raises:
        OptionError: as there.
        PenstockError: as there.
    """
    check_pyspark(needs_sources=False)
    interval_ms = duration_ms("commit_interval", commit_interval)
    _check_number("lanes", lanes, _LANES_MAX)
    _check_number("commit_interval", interval_ms, INTERVAL_MAX_MS)
    if tasks is not None:
        _check_number("tasks", tasks, None)
    _check_no_speculation(spark)
    config = parse_continuous(source, sink)
    _check_metrics_installed(config.source)
    check_connection(config.source.properties)
    maker = records_of_query(config, function, _columns(spark, schema), _columns(spark, output_schema))
    settings = query_settings(config, lanes=lanes, commit_interval_ms=interval_ms, maker=maker)
    settings = replace(settings, query=query, takes_others=takes_others)
    check_target_topic(config.sink, "topic", recovers_from_topic=False)
    if config.dead_letter_topic is not None:
        letters = replace(config.sink, topic=config.dead_letter_topic)
        check_target_topic(letters, DEAD_LETTER_TOPIC.key, recovers_from_topic=False)
    return _begin(spark, settings, name, tasks or _default_tasks(spark))


def continuous_queries(spark: Any) -> list[ContinuousQuery]:
    """Return the continuous queries of a session that run in this program."""
    with _lock:
        return [each.query for each in _running if each.spark is spark and each.query.isActive]


class _Running(NamedTuple):
    spark: Any
    servers: tuple[str, ...]
    group_id: str
    prefix: str
    supervisor: Supervisor
    query: ContinuousQuery


_running: list[_Running] = []
"""The queries of this process that have not ended, and perhaps some that have."""


def _begin(spark: Any, settings: QuerySettings, name: str | None, tasks_max: int | None) -> ContinuousQuery:
    group_id = settings.group_id
    servers, prefix = settings.connection.bootstrap_servers, settings.prefix
    query_id, run_id = str(uuid.uuid5(_IDS, group_id)), str(uuid.uuid4())

    def start_job(plan: QueryPlan, on_end: Callable[[], None]) -> SparkJob:
        generation = plan.membership.generation
        description = f"penstock.continuous {name or group_id}, plan {generation}"
        return SparkJob(spark, plan, f"penstock-{run_id}-{generation}", description, on_end)

    with _lock:
        _running[:] = [each for each in _running if each.query.isActive]
        beside = [each for each in _running if each.servers == servers]
        if any(each.group_id == group_id for each in beside):
            raise OptionError(
                f"A continuous query with the consumer group {group_id!r} runs in this program already. It "
                "was not disturbed. Stop it first, or use another group id.",
                option=settings.source.properties.spelled("group.id"),
            )
        if any(each.prefix == prefix for each in beside):
            raise OptionError(
                f"A continuous query with the prefix {prefix!r} of transactional ids runs in this program "
                "already, and the two would stop each other's tasks. It was not disturbed. Give each query a "
                "prefix of its own, or leave 'sink.transactional-id-prefix' out.",
                option="sink.transactional-id-prefix",
            )
        names = {"id": query_id, "runId": run_id, "name": name}
        at_end = ExitStack()
        driver = PlanDriver(settings)
        supervisor = Supervisor(driver, start_job, tasks_max, names, at_end.close)
        if settings.source.metrics is not None:
            try:
                at_end.callback(_show(settings, supervisor))
            except BaseException:
                driver.close()  # nothing has begun
                raise
        supervisor.start()
        query = ContinuousQuery(supervisor, query_id, run_id, name)
        if not _running:
            atexit.register(_stop_all)
        _running.append(_Running(spark, servers, group_id, prefix, supervisor, query))
    return query


def _show(settings: QuerySettings, supervisor: Supervisor) -> Callable[[], None]:
    """Serve what a query shows. Return what ends that."""
    from penstock.relay.figures import QueryFigures  # noqa: PLC0415 - only with metrics
    from penstock.spark._continuous_shown import Shown  # noqa: PLC0415 - only with metrics

    return Shown(settings, QueryFigures(supervisor)).close


def _check_metrics_installed(config: SourceConfig) -> None:
    if config.metrics is not None:
        from penstock.observe.serve.start import check_installed  # noqa: PLC0415 - only with metrics

        check_installed()


def _stop_all() -> None:
    """Stop what runs at the end of the program, so that readers wait for no transaction."""
    with _lock:
        alive = [each.supervisor for each in _running if each.query.isActive]
    for supervisor in alive:
        supervisor.stop()
    for supervisor in alive:
        supervisor.join(_AT_EXIT_S)


def _check_number(name: str, value: int, most: int | None) -> None:
    if type(value) is int and value >= 1 and (most is None or value <= most):
        return
    limits = "at least 1" if most is None else f"from 1 to {most}"
    raise OptionError(f"Expected a whole number {limits} for `{name}`, got {value!r}.", option=name)


def _columns(spark: Any, schema: StructType | str | None) -> StructType | None:
    """Return columns that may be given as text. Spark 3.5 and Connect parse them with a DataFrame only."""
    if not isinstance(schema, str):
        return schema
    found: StructType = spark.createDataFrame([], schema).schema
    return found


def _check_no_speculation(spark: Any) -> None:
    if str(spark.conf.get(_SPECULATION, "false")).lower() != "true":
        return
    raise UnsupportedOptionError(
        f"Expected '{_SPECULATION}' = 'false' for a continuous query, got 'true'. Spark would start a second "
        "attempt of a task beside the first, and they would take the place of each other. Nothing was read "
        f"or written. Start Spark with '{_SPECULATION}' = 'false'.",
        option=_SPECULATION,
    )


def _default_tasks(spark: Any) -> int | None:
    return None if is_connect(spark) else int(spark.sparkContext.defaultParallelism)
