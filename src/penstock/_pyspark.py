"""Say which PySpark this Python has, and that it is missing or too old.

Runs in any process of Spark's, and in the user's program. Invariant: loads without PySpark. It looks for the
feature that penstock needs, Python data sources that write Arrow batches, because vendors change versions.
"""

from __future__ import annotations

import importlib
from pathlib import Path

OLDEST = "4.0.1"


def version_and_place() -> str:
    """Return the version of PySpark and the folder that it was loaded from, e.g. `4.3.0 in /.../pyspark`."""
    pyspark = importlib.import_module("pyspark")
    return f"{getattr(pyspark, '__version__', '?')} in {Path(str(pyspark.__file__)).parent}"


def check_pyspark() -> None:
    """Check that penstock can run on this PySpark.

    Raises:
        ImportError: it is missing or too old. The message says what was found and where.
    """
    try:
        found = version_and_place()
    except ModuleNotFoundError as error:
        if error.name != "pyspark":
            raise
        raise ImportError(
            f"penstock needs PySpark {OLDEST} or newer for this, and this Python has none. Install PySpark, "
            "or run the program with the Python of your Spark cluster (spark-submit).",
            name="pyspark",
        ) from None
    try:
        has_sources = hasattr(importlib.import_module("pyspark.sql.datasource"), "DataSourceArrowWriter")
    except ModuleNotFoundError as error:
        if error.name != "pyspark.sql.datasource":
            raise
        has_sources = False
    if not has_sources:
        raise ImportError(
            f"penstock needs PySpark {OLDEST} or newer for this, and found PySpark {found}. Use a newer "
            "Spark: older ones have no data sources in Python that take Arrow batches.",
            name="pyspark",
        )


def explain_import_error(error: ImportError) -> None:
    """Check PySpark if importing a part of it has failed.

    An older PySpark has a module and not the name in it. Then Python raises ImportError and not
    ModuleNotFoundError.

    Raises:
        ImportError: PySpark is missing or too old. Otherwise the caller raises its own error.
    """
    if (error.name or "").partition(".")[0] == "pyspark":
        check_pyspark()
