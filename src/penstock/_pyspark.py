"""Say which PySpark and which pandas this Python has, and that one of them is missing or too old.

Runs in any process of Spark's, and in the user's program. Invariant: loads without PySpark. It looks for the
feature that penstock needs, Python data sources that write Arrow batches, because vendors change versions.
Whether pandas is new enough is what PySpark says.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable

OLDEST = "4.0.1"
_GET_IT = (
    "On a cluster, run the program with the Python of its Spark (spark-submit). Elsewhere run "
    "pip install 'pyspark-penstock[spark]'."
)


class UnfitPackageError(ImportError):
    """PySpark or pandas is missing or too old. The message says what was found, and where."""


def version_and_folder(package: str = "pyspark") -> str:
    """Return the version of a package and its folder, e.g. `4.3.0 in /.../pyspark`."""
    module = importlib.import_module(package)
    return f"{getattr(module, '__version__', '?')} in {next(iter(module.__path__))}"


def check_pyspark(*, needs_sources: bool = True) -> None:
    """Check that penstock can run on this PySpark.

    Args:
        needs_sources: whether data sources in Python are needed, which PySpark 3.5 does not have.

    Raises:
        UnfitPackageError: it is missing or too old.
    """
    try:
        found = version_and_folder()
    except ModuleNotFoundError as error:
        if error.name != "pyspark":
            raise
        raise UnfitPackageError(
            f"penstock needs PySpark {OLDEST} or newer for this, and {_python()} has none. {_GET_IT}",
            name="pyspark",
        ) from None
    if not needs_sources:
        return
    try:
        has_sources = hasattr(importlib.import_module("pyspark.sql.datasource"), "DataSourceArrowWriter")
    except ModuleNotFoundError as error:
        if error.name not in ("pyspark.sql", "pyspark.sql.datasource"):
            raise
        has_sources = False
    if not has_sources:
        raise UnfitPackageError(
            f"penstock needs PySpark {OLDEST} or newer for this, and found PySpark {found}. Use a newer "
            "Spark: older ones have no data sources in Python that take Arrow batches.",
            name="pyspark",
        )


def explain_import_error(error: ImportError) -> None:
    """Check PySpark if importing a part of it has failed, and pandas if PySpark does not find one.

    An older PySpark has a module and not the name in it. Then Python raises ImportError and not
    ModuleNotFoundError.

    Raises:
        UnfitPackageError: PySpark or pandas is missing or too old. Otherwise the caller raises its own error.
    """
    if isinstance(error, UnfitPackageError):
        return
    if (error.name or "").partition(".")[0] == "pyspark":
        check_pyspark()
    parameters: Callable[[], dict[str, str] | None] = getattr(error, "getMessageParameters", dict)
    said = parameters() or {}  # of PySpark's own error
    if said.get("package_name") == "Pandas":
        has_one = "current_version" in said
        found = f"found pandas {version_and_folder('pandas')}" if has_one else f"{_python()} has none"
        raise UnfitPackageError(
            f"PySpark needs pandas {said['minimum_version']} or newer for this, and {found}. {_GET_IT}",
            name="pandas",
        ) from error


def _python() -> str:
    return sys.executable or "this Python"
