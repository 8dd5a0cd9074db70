"""PySpark or pandas is missing or too old: one sentence says what was found, and where."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkImportError
from pyspark.sql.pandas.utils import require_minimum_pandas_version

import penstock
from penstock._pyspark import UnfitPackageError, explain_import_error
from penstock.spark.map_rows import map_rows
from tests.waiting import PATIENCE_S

DOORS = [
    "import pyspark_penstock",
    "import penstock.spark.datasource",
    "from penstock.metrics import MetricsListener",
    "from penstock.lineage import LineageListener",
    "penstock.write_batch",
    "penstock.KafkaSource.builder()",
]
GET_IT = "Elsewhere run pip install 'pyspark-penstock[spark]'."


def said_by_each_door(setup: str) -> list[str]:
    program = f"""
import sys
{setup}
import penstock
for door in {DOORS}:
    try:
        exec(door)
    except Exception as error:
        print(type(error).__name__, error)
    else:
        print("no error", door)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=PATIENCE_S
    )
    return done.stdout.splitlines()


def test_each_door_says_that_pyspark_is_missing() -> None:
    begins = (
        f"UnfitPackageError penstock needs PySpark 4.0.1 or newer for this, and {sys.executable} has none. "
    )
    said = said_by_each_door("sys.modules['pyspark'] = None")
    assert [line for line in said if not line.startswith(begins) or not line.endswith(GET_IT)] == []
    assert len(said) == len(DOORS)


@pytest.mark.parametrize("files", [("__init__.py", "sql/__init__.py"), ("__init__.py",), ("left_behind",)])
def test_each_door_says_which_older_pyspark_was_found_and_where(
    tmp_path: Path, files: tuple[str, ...]
) -> None:
    """PySpark 3.5 has `pyspark.sql` without `datasource`. An uninstall may leave a folder behind."""
    folder = tmp_path / "pyspark"
    for name in files:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("__version__ = '3.5.6'\n")
    # The folder of packages has PySpark, and the installed penstock too.
    for name in ("penstock", "pyspark_penstock"):
        (tmp_path / name).symlink_to(Path(penstock.__file__).parent.with_name(name))
    version = "3.5.6" if "__init__.py" in files else "?"
    begins = (
        "UnfitPackageError penstock needs PySpark 4.0.1 or newer for this, and found PySpark "
        f"{version} in {folder}. "
    )
    said = said_by_each_door(
        f"sys.path = [{str(tmp_path)!r}, *[p for p in sys.path if 'site-packages' not in p]]"
    )
    assert [line for line in said if not line.startswith(begins)] == []
    assert len(said) == len(DOORS)


class FrameWithoutPandas:
    """A DataFrame whose PySpark asks for pandas, as it does in `mapInArrow`."""

    def mapInArrow(self, function: Any, columns: Any) -> Any:
        require_minimum_pandas_version()


def map_without_pandas() -> None:
    rows: Any = FrameWithoutPandas()
    map_rows(rows, iter, "id INT")


def test_a_missing_pandas_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UnfitPackageError) as caught:
        map_without_pandas()
    assert str(caught.value).startswith(
        f"PySpark needs pandas 2.2.0 or newer for this, and {sys.executable} has none. On a cluster, "
    )
    assert str(caught.value).endswith(GET_IT)


def test_an_older_pandas_is_named_with_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    older = SimpleNamespace(__version__="2.0.3", __path__=["/opt/older/pandas"])
    monkeypatch.setitem(sys.modules, "pandas", older)
    with pytest.raises(
        UnfitPackageError,
        match=r"needs pandas 2\.2\.0 or newer .* found pandas 2\.0\.3 in /opt/older/pandas\.",
    ):
        map_without_pandas()


def test_another_import_error_of_pyspark_stays_as_it_is() -> None:
    explain_import_error(
        PySparkImportError(
            errorClass="PACKAGE_NOT_INSTALLED",
            messageParameters={"package_name": "grpcio", "minimum_version": "1.48.1"},
        )
    )
    explain_import_error(ImportError("No module named 'x'", name="x"))


def test_a_command_says_that_pyspark_is_missing_and_ends_with_2(tmp_path: Path) -> None:
    (tmp_path / "job.sql").write_text("SHOW TABLES;")
    program = "import sys; sys.modules['pyspark'] = None; from penstock.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "sql", "job.sql"],
        check=False,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stdout) == (2, "")
    said = done.stderr.strip()
    assert said.startswith("penstock: penstock needs PySpark 4.0.1 or newer for this, and ")
    assert said.endswith(GET_IT)
    assert "Traceback" not in said
