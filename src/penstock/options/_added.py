"""The options that Spark itself adds. Penstock accepts them in silence.

Runs on the driver. See `declare` for what the words mean.
"""

from __future__ import annotations

from penstock.options.declare import Dialect, Option, Side, declared_in
from penstock.options.values import TEXT

_ANY, _BOTH = Dialect.SHARED, Side.BOTH

CHECKPOINT_LOCATION = Option(
    "checkpointLocation",
    _ANY,
    _BOTH,
    TEXT,
    "The folder where Spark keeps the state of the query. Spark adds it to a streaming write.",
)
QUERY_NAME = Option("queryName", _ANY, _BOTH, TEXT, "Spark adds it to a streaming write. Not used.")
PATHS = Option("paths", _ANY, _BOTH, TEXT, "Spark adds it to `load([path, ...])`. Not used.")
PATH = Option("path", _ANY, _BOTH, TEXT, "Spark adds it to `load(path)` and `save(path)`. Not used.")

SPARK_ADDED_OPTIONS = declared_in(globals())
