"""By this module Spark finds the data source without being told.

Runs on the driver. Spark imports every top-level module named `pyspark_*` and registers its
`DefaultSource`; so `spark.read.format("penstock")` works right after the package is installed. Nothing else
belongs here: every planner process of every Spark application of this Python imports it.

PYTEST_DONT_REWRITE: see `penstock`.
"""

try:
    from penstock.spark.datasource import PenstockDataSource as DefaultSource
except ModuleNotFoundError as error:
    if not f"{error.name}".startswith("penstock"):
        raise
    import penstock

    raise ImportError(
        f"pyspark-penstock needs its own package `penstock`, and Python loads another one from "
        f"{next(iter(penstock.__path__))}: another project has that name too. Run pip uninstall penstock "
        "there, or use an environment without it.",
        name="penstock",
    ) from error

__all__ = ["DefaultSource"]
