"""Compare answers of penstock.sql with those that tests/judges/sql has recorded of Flink."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

DATA = Path(__file__).parent.parent / "data" / "sql"
_CLOSENESS = {"DOUBLE": 1e-14, "FLOAT": 1e-7}
_NAMES = {
    "INTEGER": "int",
    "TIMESTAMP": "timestamp_ntz",
    "TIMESTAMP_LTZ": "timestamp",
    "VARCHAR": "string",
    "CHAR": "string",
    "BYTES": "binary",
    "VARBINARY": "binary",
    "NULL": "void",
}


def answers(name: str) -> Any:
    """Return what Flink answered."""
    return json.loads((DATA / f"{name}.json").read_text())


def collected(frame: DataFrame) -> list[list[Any]]:
    """Return the rows of a query as JSON holds them. Times are those of the session's zone."""
    return [[plain(value) for value in row] for row in zoned(frame).collect()]


def zoned(frame: DataFrame) -> DataFrame:
    """Return the rows with times of the session's zone."""
    columns = [
        F.col(f"`{name}`").cast("timestamp_ntz").alias(name) if kind == "timestamp" else F.col(f"`{name}`")
        for name, kind in frame.dtypes
    ]
    return frame.select(*columns)


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).hex()
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in sorted(value.items(), key=str)}
    if isinstance(value, (list, Row)):
        return [plain(each) for each in value]
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def same(value: Any, wanted: Any, kind: str) -> bool:
    """Doubles may differ in their last digits, because the two systems add in another order."""
    closeness = next((each for name, each in _CLOSENESS.items() if kind.startswith(name)), None)
    if closeness is not None and isinstance(value, str) and isinstance(wanted, str):
        return value == wanted or math.isclose(float(value), float(wanted), rel_tol=closeness)
    return bool(value == wanted)


def same_type(spark: str, flink: str) -> bool:
    """Texts and times have no lengths in Spark. A DECIMAL has the same digits."""
    base = re.sub(r" NOT NULL|, not-null|\s", "", flink)
    if base.startswith("DECIMAL("):
        return base.lower() == spark
    base = re.sub(r"\(\d+\)", "", base)
    return _NAMES.get(base, base.lower()) == spark.partition("(")[0] or "<" in spark
