"""The keys of SET.

Runs on the driver. Invariant: a key that would have no effect is refused with what to use instead, or listed
here as one that may be left.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.options.values import parse_duration_ms
from penstock.sql.language.source import nearest

MODE = "execution.runtime-mode"
INTERVAL = "execution.checkpointing.interval"
FOLDER = "execution.checkpointing.dir"
NAME = "pipeline.name"
PARALLELISM = "parallelism.default"
ZONE = "table.local-time-zone"
SYNC = "table.dml-sync"
CHANGED = "penstock.changed-query"

_MODES = ("streaming", "batch")
_SERVED = {
    MODE: "'streaming' (default) or 'batch'",
    INTERVAL: "the time from one micro-batch to the next; without it they follow one another",
    FOLDER: "the folder of checkpoints: a query continues where its checkpoint ends",
    NAME: "the name of the job, and of its folder of checkpoints",
    PARALLELISM: "Spark's spark.sql.shuffle.partitions",
    ZONE: "the time zone of the session",
    SYNC: "'true': INSERT waits for the end of the query",
    CHANGED: "'continue': a changed query continues from the checkpoint of its name; 'fail' (default)",
}
_SYNONYMS = {"state.checkpoints.dir": FOLDER, "table.execution.mode": MODE}
_NO_EFFECT = (
    "sql-client.execution.result-mode",
    "sql-client.verbose",
    "sql-client.execution.max-table-result.rows",
    "execution.checkpointing.mode",
    "execution.checkpointing.timeout",
    "execution.checkpointing.min-pause",
    "table.exec.mini-batch.enabled",
    "table.exec.mini-batch.allow-latency",
    "table.exec.mini-batch.size",
    "table.optimizer.agg-phase-strategy",
    "pipeline.object-reuse",
    "execution.target",
)
_REFUSED = {
    "table.exec.state.ttl": "Spark keeps the state of joins and aggregations until the watermark passes. "
    "Use a window or a condition on times.",
    "table.exec.source.idle-timeout": "set 'scan.idle-timeout' and 'scan.watermark.alignment.max-drift' in "
    "WITH of the table.",
    "execution.savepoint.path": "a query continues from its folder below 'execution.checkpointing.dir'.",
    "execution.state-recovery.path": "a query continues from its folder below 'execution.checkpointing.dir'.",
    "table.sql-dialect": "penstock reads Flink's own dialect.",
    "restart-strategy": "Spark retries tasks (spark.task.maxFailures). Restart the command after a failure.",
    "pipeline.jars": "Spark loads jars when it starts: spark.jars.",
    "python.files": "Spark has spark.submit.pyFiles.",
}
_ANSI, _ESCAPED = "spark.sql.ansi.enabled", "spark.sql.parser.escapedStringLiterals"
NEEDED = {
    _ANSI: ("true", "overflows and wrong casts would become NULL without a message."),
    _ESCAPED: ("false", "texts with a backslash would change."),
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
        key = _SYNONYMS.get(key.strip(), key.strip())
        if key in _REFUSED:
            raise ValueError(f"'{key}' is not served: {_REFUSED[key]}")
        if key in NEEDED:
            raise ValueError(f"'{key}' has to be {NEEDED[key][0]}. With another value {NEEDED[key][1]}")
        if key.startswith(_LEGACY):
            raise ValueError(f"'{key}' is not served, because Spark's old behaviours change values.")
        if key not in _SERVED and key not in _NO_EFFECT and not key.startswith("spark."):
            known = [*_SERVED, *_SYNONYMS, *_NO_EFFECT, *_REFUSED]
            raise ValueError(
                f"'{key}' is not an option that penstock knows.{nearest(key, known)} Served are "
                f"{', '.join(_SERVED)}, and Spark's own options, which begin with 'spark.'."
            )
        _check(key, value.strip())
        self.values[key] = value.strip()
        return key

    def reset(self, key: str | None) -> None:
        """Forget a value, or all of them."""
        if key is None:
            self.values.clear()
        else:
            self.values.pop(_SYNONYMS.get(key, key), None)

    @property
    def is_batch(self) -> bool:
        """Return whether queries run as batches."""
        return self.values.get(MODE, "streaming").lower() == "batch"

    @property
    def interval_ms(self) -> int | None:
        """Return the time between micro-batches; None for one after another."""
        text = self.values.get(INTERVAL)
        return None if text is None else parse_duration_ms(text) or None


def _check(key: str, value: str) -> None:
    if key == MODE and value.lower() not in _MODES:
        raise ValueError(f"'{MODE}' cannot be '{value}'. Allowed: {', '.join(_MODES)}.")
    if key == CHANGED and value not in ("fail", "continue"):
        raise ValueError(f"'{CHANGED}' cannot be '{value}'. Allowed: fail, continue.")
    if key == SYNC and value.lower() not in ("true", "false"):
        raise ValueError(f"'{SYNC}' cannot be '{value}'. Allowed: true, false.")
    if key == PARALLELISM and not (value.isdigit() and int(value) > 0):
        raise ValueError(f"'{PARALLELISM}' cannot be '{value}'. Allowed: a number from 1.")
    if key == INTERVAL:
        try:
            parse_duration_ms(value)
        except ValueError as error:
            raise ValueError(f"'{INTERVAL}' cannot be '{value}'. Allowed: {error}.") from None
