"""The keys of SET.

Runs on the driver. Invariant: a key that would have no effect is refused with what to use instead, or listed
here as one that may be left.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.options.values import parse_duration_ms
from penstock.sql.language.source import nearest
from penstock.sql.passes.check_determinism import STRATEGY

MODE = "execution.runtime-mode"
INTERVAL = "execution.checkpointing.interval"
FOLDER = "execution.checkpointing.dir"
NAME = "pipeline.name"
PARALLELISM = "parallelism.default"
ZONE = "table.local-time-zone"
SYNC = "table.dml-sync"
IDLE = "table.exec.source.idle-timeout"
RESULT_MODE = "sql-client.execution.result-mode"
RESULT_ROWS = "sql-client.execution.max-table-result.rows"
CHANGED = "penstock.changed-query"
CONTINUOUS = "penstock.continuous"
TTL = "table.exec.state.ttl"
DUPLICATES = "table.exec.source.cdc-events-duplicate"

_SERVED = {
    MODE: "'streaming' (default) or 'batch'",
    INTERVAL: "the time from one micro-batch to the next; without it they follow one another",
    FOLDER: "the folder of checkpoints: a query continues where its checkpoint ends",
    NAME: "the name of the job, and of its folder of checkpoints",
    PARALLELISM: "Spark's spark.sql.shuffle.partitions",
    ZONE: "the time zone of the session",
    SYNC: "'true': INSERT waits for the end of the query",
    IDLE: "the idle time-out of Kafka tables that align their topic partitions",
    RESULT_MODE: "'table' (default), 'changelog' or 'tableau': how `penstock sql` shows the rows of SELECT",
    RESULT_ROWS: "the most rows that a live table keeps",
    TTL: "how long the operators of a query keep what gets no new rows; '0' (default): for ever",
    DUPLICATES: "'true': events of a table for change data may come twice, and its PRIMARY KEY finds them",
    STRATEGY: "'TRY_RESOLVE' (default): clocks such as NOW() over a changelog are kept with each row, and "
    "other functions that vary are refused. 'IGNORE': they run with a warning, and their tables may be wrong",
    CONTINUOUS: "'true': INSERT without a state, from a topic to a topic, runs without micro-batches",
    CHANGED: "'continue': a changed query continues from the checkpoint of its name; 'fail' (default)",
}
_SYNONYMS = {
    "state.checkpoints.dir": FOLDER,
    "table.execution.mode": MODE,
    "table.exec.resource.default-parallelism": PARALLELISM,
}
_NO_EFFECT = (
    "sql-client.verbose",
    "sql-client.display.max-column-width",
    "table.display.max-column-width",
    "execution.attached",
    "execution.checkpointing.mode",
    "execution.checkpointing.timeout",
    "execution.checkpointing.min-pause",
    "execution.checkpointing.incremental",
    "execution.checkpointing.unaligned",
    "execution.checkpointing.unaligned.enabled",
    "execution.checkpointing.max-concurrent-checkpoints",
    "execution.checkpointing.tolerable-failed-checkpoints",
    "execution.checkpointing.externalized-checkpoint-retention",
    "state.backend",
    "state.backend.type",
    "state.backend.incremental",
    "pipeline.max-parallelism",
    "table.optimizer.agg-phase-strategy",
    "table.exec.sink.require-on-conflict",
    "table.exec.sink.upsert-materialize",
    "pipeline.object-reuse",
    "execution.target",
)
_MINI_BATCH, _LATENCY, _SIZE = (
    f"table.exec.mini-batch.{each}" for each in ("enabled", "allow-latency", "size")
)
_MINI_BATCHES = {
    _MINI_BATCH: "Each micro-batch is one. It gives the difference that all of its records make.",
    _LATENCY: f"The time from one micro-batch to the next is '{INTERVAL}'.",
    _SIZE: "'scan.max-records-per-batch' in WITH limits the records that a micro-batch reads of a table.",
}
"""Options of Flink's mini-batches, and what does the same here."""
_REFUSED = {
    "execution.savepoint.path": "a query continues from its folder below 'execution.checkpointing.dir'.",
    "execution.state-recovery.path": "a query continues from its folder below 'execution.checkpointing.dir'.",
    "table.sql-dialect": "penstock reads Flink's own dialect.",
    "restart-strategy": "Spark retries tasks (spark.task.maxFailures). Restart the command after a failure.",
    "pipeline.jars": "Spark loads jars when it starts: spark.jars.",
    "python.files": "Spark has spark.submit.pyFiles.",
}
_RESTART = "restart-strategy"
_FIXED = {
    "table.exec.sink.not-null-enforcer": (
        "error",
        "NULL in a NOT NULL column stops the job. Filter the rows out.",
    ),
    "table.exec.sink.type-length-enforcer": ("ignore", "CAST(... AS CHAR(n)) in the query cuts and pads."),
    "table.exec.legacy-cast-behaviour": ("disabled", "a wrong value stops the query. TRY_CAST gives NULL."),
}
"""Options that change values: the only value that is served, and what to do instead of another one."""
_ALLOWED = {
    MODE: ("streaming", "batch"),
    CHANGED: ("fail", "continue"),
    CONTINUOUS: ("true", "false"),
    SYNC: ("true", "false"),
    DUPLICATES: ("true", "false"),
    STRATEGY: ("try_resolve", "ignore"),
    _MINI_BATCH: ("true", "false"),
    RESULT_MODE: ("table", "changelog", "tableau"),
}
_DURATIONS, _COUNTS = (INTERVAL, IDLE, TTL, _LATENCY), (PARALLELISM, RESULT_ROWS, _SIZE)
_ANSI, _ESCAPED = "spark.sql.ansi.enabled", "spark.sql.parser.escapedStringLiterals"
_POLICY = "spark.sql.streaming.multipleWatermarkPolicy"
_MULTIPLE = "spark.sql.streaming.statefulOperator.allowMultiple"
_CHECKED, _TIMES = "spark.sql.streaming.unsupportedOperationCheck", "spark.sql.timestampType"
NEEDED = {
    _ANSI: ("true", "overflows and wrong casts would become NULL without a message."),
    _ESCAPED: ("false", "texts with a backslash would change."),
    _POLICY: ("min", "the watermark of the fastest table would drop rows of the other tables as late."),
    _MULTIPLE: ("true", "windows behind windows and joins would drop the rows that these give."),
    _TIMES: ("timestamp_ltz", "a TIMESTAMP_LTZ would be read as the time of no zone."),
    _CHECKED: ("true", "Spark would start queries whose rows it drops or gives twice."),
}
"""The options of Spark that translations rely on: their value, and what another value would do."""
_LEGACY = "spark.sql.legacy."


@dataclass
class Settings:
    """The values that SET has given."""

    values: dict[str, str] = field(default_factory=dict)

    def set(self, key: str, value: str) -> str:
        """Keep a value, and return the key under its current name.

        Raises:
            ValueError: the key or value is not served. The message says what to do.
        """
        key = current_name(key)
        known_as = _RESTART if key.startswith(_RESTART) else key
        if known_as in _REFUSED:
            raise ValueError(f"'{key}' is not served: {_REFUSED[known_as]}")
        if key in NEEDED and value.strip().lower() != NEEDED[key][0]:
            raise ValueError(f"'{key}' has to be {NEEDED[key][0]}. With another value {NEEDED[key][1]}")
        if key.startswith(_LEGACY):
            raise ValueError(f"'{key}' is not served, because Spark's old behaviours change values.")
        if not _is_known(key):
            raise ValueError(_unknown(key))
        value = value.strip().lower() if key in _ALLOWED else value.strip()
        _check(key, value)
        self.values[key] = value
        return key

    def reset(self, key: str | None) -> list[str]:
        """Forget a value, or all of them, and return the keys that had one.

        Raises:
            ValueError: there is no such option.
        """
        if key is None:
            keys = list(self.values)
        else:
            name = current_name(key)
            if not _is_known(name):
                raise ValueError(_unknown(name))
            keys = [name] if name in self.values else []
        for each in keys:
            del self.values[each]
        return keys

    @property
    def is_batch(self) -> bool:
        return self.values.get(MODE) == "batch"

    @property
    def is_continuous(self) -> bool:
        return self.values.get(CONTINUOUS) == "true"

    @property
    def parallelism(self) -> int | None:
        """Return how many tasks a query has; None for as many as Spark takes."""
        text = self.values.get(PARALLELISM)
        return None if text is None else int(text)

    @property
    def idle_timeout(self) -> str | None:
        """Return `scan.idle-timeout` for tables; `never` for Flink's 0; None if it is not set."""
        text = self.values.get(IDLE)
        return None if text is None else text if parse_duration_ms(text) else "never"

    @property
    def ttl(self) -> str | None:
        """Return how long a state keeps a key, as a duration; None for ever."""
        text = self.values.get(TTL)
        return None if text is None or parse_duration_ms(text) == 0 else text

    @property
    def drops_duplicates(self) -> bool:
        """Return whether events of a table for change data may come twice."""
        return self.values.get(DUPLICATES) == "true"

    @property
    def ignores_varying(self) -> bool:
        """Return whether functions that may give other values are accepted over a changelog."""
        return self.values.get(STRATEGY) == "ignore"

    @property
    def interval_ms(self) -> int | None:
        """Return the time between micro-batches; None for one after another."""
        text = self.values.get(INTERVAL)
        return None if text is None else parse_duration_ms(text) or None


def current_name(key: str) -> str:
    """Return the key that a key of SET or RESET means, which may be an older name of it."""
    return _SYNONYMS.get(key.strip(), key.strip())


def note_of(key: str) -> str | None:
    """Return what a user should know of an option that has no effect; None of another one."""
    return f"It has no effect. {_MINI_BATCHES[key]}" if key in _MINI_BATCHES else None


_KNOWN = (*_SERVED, *_SYNONYMS, *_NO_EFFECT, *_MINI_BATCHES, *_REFUSED, *_FIXED)


def _is_known(key: str) -> bool:
    return key in _KNOWN or key.startswith("spark.")


def _unknown(key: str) -> str:
    return (
        f"'{key}' is not an option that penstock knows.{nearest(key, _KNOWN)} Served are "
        f"{', '.join(_SERVED)}, and Spark's own options, which begin with 'spark.'."
    )


def _check(key: str, value: str) -> None:
    allowed = _ALLOWED.get(key)
    if allowed is not None and value not in allowed:
        raise ValueError(f"'{key}' cannot be '{value}'. Allowed: {', '.join(allowed)}.")
    if key in _COUNTS and not (value.isdigit() and int(value) > 0):
        raise ValueError(f"'{key}' cannot be '{value}'. Allowed: a number from 1.")
    if key in _DURATIONS:
        try:
            parse_duration_ms(value)
        except ValueError as error:
            raise ValueError(f"'{key}' cannot be '{value}'. Allowed: {error}.") from None
    if key in _FIXED and value.lower() != _FIXED[key][0]:
        raise ValueError(f"'{key}' can only be '{_FIXED[key][0]}': {_FIXED[key][1]}")


def settings_and_values() -> dict[str, tuple[str, ...]]:
    """Return the keys that have an effect, and the values that each can have if they are few."""
    return {key: _ALLOWED.get(key, ()) for key in _SERVED}
