"""The options that Spark itself adds. Penstock accepts them in silence.

Runs on the driver. See `declare` for what the words mean.
"""

from __future__ import annotations

from penstock.options.declare import Declare, Dialect, Side, declared_in
from penstock.options.values import TEXT

_both = Declare(Dialect.SHARED, Side.BOTH)

CHECKPOINT_LOCATION = _both(
    "checkpointLocation",
    TEXT,
    "The folder where Spark keeps the state of the query. Spark adds it to a streaming write.",
)
QUERY_NAME = _both("queryName", TEXT, "Spark adds it to a streaming write. Not used.")
PATHS = _both("paths", TEXT, "Spark adds it to `load([path, ...])`. Not used.")
PATH = _both("path", TEXT, "Spark adds it to `load(path)` and `save(path)`. Not used.")

SPARK_ADDED_OPTIONS = declared_in(globals())
