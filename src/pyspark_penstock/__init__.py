"""By this module Spark finds the data source without being told.

Runs on the driver. Spark imports every top-level module named `pyspark_*` and registers its
`DefaultSource`; so `spark.read.format("penstock")` works right after the package is installed. Nothing else
belongs here: every planner process of every Spark application of this Python imports it.

PYTEST_DONT_REWRITE: see `penstock`.
"""

from penstock.spark.datasource import PenstockDataSource as DefaultSource

__all__ = ["DefaultSource"]
