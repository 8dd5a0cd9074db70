"""`spark/versions.py` has one name for each difference between Spark's versions. No other file knows of one.

`make versions` runs it with each PySpark. Here PySpark's newer features are taken away from this one.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import DataSourceStreamReader

from penstock.spark.versions import _numbers_by_task, hash_of_int
from tests.waiting import PATIENCE_S

SOURCE = Path(__file__).parents[3] / "src"
HOME = SOURCE / "penstock" / "spark"
ARROW_WRITER, LIMITS = "DataSourceStreamArrowWriter", "pyspark.sql.streaming.datasource"
DIFFERENT = {
    ARROW_WRITER,
    "DataSourceArrowWriter",
    "WriterCommitMessage",
    "SupportsTriggerAvailableNow",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "ReadMaxFiles",
    "ReadMaxRows",
    "ReadMinRows",
    "repartitionById",
    "to_arrow_schema",
}
"""What PySpark has in some versions only, or in another form."""


def different(text: str) -> set[str]:
    """The names of PySpark in a file that are not in each version."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pyspark"):
            names = {each.name for each in node.names}
            found |= {LIMITS} if node.module == LIMITS else names
        elif isinstance(node, ast.Attribute):
            found |= {node.attr} & {"repartitionById"}
            found |= {"__version__"} & {node.attr} if ast.unparse(node.value) == "pyspark" else set()
    return found & (DIFFERENT | {LIMITS, "__version__"})


def test_only_one_module_knows_what_differs() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}
    shown_only = {
        SOURCE / "penstock" / "lineage.py",
        SOURCE / "penstock/cli/quick_start/classes.py",
        HOME / "_exactly_once.py",  # a receipt names the version
    }
    found = {path: different(text) for path, text in texts.items()}
    assert {path: names for path, names in found.items() if names and path not in shown_only} == {
        HOME / "_older_classes.py": {"DataSourceArrowWriter"},  # only `versions` imports it
        HOME / "versions.py": {
            "DataSourceArrowWriter",
            "DataSourceStreamArrowWriter",
            "WriterCommitMessage",
            "pyspark.sql.streaming.datasource",
            "repartitionById",
        },
    }


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("from pyspark.sql.pandas.types import to_arrow_schema", "to_arrow_schema"),
        (
            "from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter",
            "DataSourceStreamArrowWriter",
        ),
        ("def f():\n    from pyspark.sql.streaming.datasource import A", LIMITS),
        ("rows.repartitionById(3, 'a')", "repartitionById"),
        ("if pyspark.__version__ >= '4.2': pass", "__version__"),
    ],
)
def test_a_use_elsewhere_is_found(line: str, name: str) -> None:
    assert different(line) == {name}


def test_the_hash_is_sparks() -> None:
    # SELECT hash(0), hash(1)
    assert [hash_of_int(each) for each in (0, 1)] == [933211791, -559580957]


@given(st.integers(1, 300))
def test_each_task_gets_one_number(count: int) -> None:
    numbers = _numbers_by_task(count)
    assert [hash_of_int(number) % count for number in numbers] == list(range(count))


def test_this_pyspark_has_all_of_it() -> None:
    from pyspark.sql import datasource  # noqa: PLC0415 - the same
    from pyspark.sql.streaming import datasource as limits  # noqa: PLC0415 - the same

    from penstock.spark import versions  # noqa: PLC0415 - beside what it is compared with

    assert versions.HAS_SOURCES
    assert versions.PLANS_WITH_LIMITS
    assert versions.WriterCommitMessage is datasource.WriterCommitMessage
    assert versions.ArrowWriter is datasource.DataSourceArrowWriter
    assert versions.StreamArrowWriter is datasource.DataSourceStreamArrowWriter
    assert versions.ReadMaxRows is limits.ReadMaxRows
    assert hasattr(DataSourceStreamReader, "reportLatestOffset")


TAKE_AWAY = """
import sys
from pyspark.sql import datasource
from pyspark.sql.pandas import types
newer = types.to_arrow_schema
def to_arrow_schema(schema, error_on_duplicated_field_names_in_struct=False, timestamp_utc=True,
                    prefers_large_types=False):
    return newer(schema, timezone="UTC" if timestamp_utc else None)
types.to_arrow_schema = to_arrow_schema
del datasource.DataSourceStreamArrowWriter
for name in ("getDefaultReadLimit", "reportLatestOffset", "latestOffset"):
    delattr(datasource.DataSourceStreamReader, name)
sys.modules["pyspark.sql.streaming.datasource"] = None
"""
OLDER = """
from penstock.spark import versions
from pyspark.sql.types import StructField, StructType, TimestampType
schema = StructType([StructField("t", TimestampType())])
assert versions.to_arrow_schema(schema) == newer(schema, timezone="UTC")
assert not versions.PLANS_WITH_LIMITS
assert issubclass(versions.StreamArrowWriter, datasource.DataSourceArrowWriter)
assert issubclass(versions.StreamArrowWriter, datasource.DataSourceStreamWriter)
assert versions.ReadMaxRows(5).max_rows == 5
import penstock.spark._reads, penstock.spark._writes, penstock.sql.connectors.datagen.source
"""


OLDEST = """
import sys
sys.modules["pyspark.sql.datasource"] = sys.modules["pyspark.sql.streaming.datasource"] = None
from penstock.spark import versions
assert not versions.HAS_SOURCES
assert not versions.PLANS_WITH_LIMITS
assert versions.ReadMaxRows(5).max_rows == 5
from penstock.spark._mapped_write import save
from penstock import write_batch
"""


@pytest.mark.parametrize("program", [TAKE_AWAY + OLDER, OLDEST], ids=["4.0", "3.5"])
def test_what_is_missing_is_replaced(program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr


def test_a_timestamp_without_a_zone_keeps_its_type_in_each_version() -> None:
    """The default of `prefer_timestamp_ntz` differs between versions of PySpark."""
    calls = [
        (path.name, call)
        for path in SOURCE.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and ast.unparse(call.func) in {"from_arrow_schema", "from_arrow_type"}
    ]
    assert calls
    without = [
        name for name, call in calls if "prefer_timestamp_ntz" not in {each.arg for each in call.keywords}
    ]
    assert without == []
