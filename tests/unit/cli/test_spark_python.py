"""`penstock sql` from an environment that is not activated: Spark's processes run its Python."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from penstock.cli.quick_start.python import quick_python
from penstock.cli.sql import use_this_python

HOME = Path(pyspark.__file__).parent


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache."""
    folder = tmp_path / "the cache"
    monkeypatch.setenv("PENSTOCK_CACHE", str(folder))
    return folder


def environment_of(program: str, path: str) -> str:
    """Return the variable PYTHONPATH of a process that Spark starts with a path."""
    told = "import os, pyspark; print(os.environ['PYTHONPATH'], pyspark.__file__)"
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(
        [program, "-c", told], env=environment, capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.mark.parametrize("own", ["", "/a b:/c/pyspark.zip"])
def test_sparks_processes_import_the_compiled_pyspark(own: str) -> None:
    archives = [HOME / "python/lib/pyspark.zip", HOME / "python/lib/py4j-0-src.zip", HOME / "jars/spark.jar"]
    path = ":".join([*map(str, archives), own])
    assert environment_of(quick_python(), path) == f"{own} {pyspark.__file__}".strip()
    assert quick_python() == quick_python()


def test_archives_of_another_spark_stay_on_the_path() -> None:
    path = "/opt/spark/python/lib/pyspark.zip:/opt/spark/jars/spark.jar"
    assert environment_of(quick_python(), path) == f"{path} {pyspark.__file__}"


@pytest.mark.parametrize("name", ["app.mode", "my-key", "1st"])
def test_variables_that_a_shell_may_drop_leave_this_python(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    assert quick_python([name]) == sys.executable
    environment: dict[str, str] = {}
    use_this_python([f"spark.executorEnv.{name}=x"], environment)
    assert environment["PYSPARK_PYTHON"] == sys.executable
    monkeypatch.setenv(name, "x")
    assert quick_python() == sys.executable


def test_a_script_that_cannot_run_or_was_changed_is_made_again() -> None:
    script = Path(quick_python())
    text = script.read_text()
    script.chmod(0o600)
    assert quick_python() == str(script)
    assert os.access(script, os.X_OK)
    script.write_text("other")
    assert quick_python() == str(script)
    assert script.read_text() == text


def test_a_pyspark_that_this_python_would_not_import_leaves_this_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pyspark, "__file__", "/somewhere/else/pyspark/__init__.py")
    assert quick_python() == sys.executable


def test_a_cache_where_no_program_can_run_leaves_this_python(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    monkeypatch.setattr(Path, "chmod", lambda *_: None)
    assert quick_python() == sys.executable
    assert not list(cache.iterdir())
    cache.rmdir()
    cache.write_text("a file")
    assert quick_python() == sys.executable


@pytest.mark.parametrize("conf", [[], ["spark.master=local"], ["spark.master=local[4]", "spark.x=y=z"]])
def test_spark_on_this_machine_runs_this_python(conf: list[str]) -> None:
    environment: dict[str, str] = {"PATH": "/usr/bin"}
    use_this_python(conf, environment)
    assert environment["PYSPARK_PYTHON"] == quick_python()


@pytest.mark.parametrize(
    "conf",
    [
        ["spark.master=yarn"],
        ["spark.master=local-cluster[1,1,1024]"],
        ["spark.master=spark://host:7077"],
        ["spark.remote=sc://host"],
        ["spark.executorEnv.PYSPARK_PYTHON=/other/python"],
    ],
)
def test_the_python_of_a_cluster_stays(conf: list[str]) -> None:
    environment: dict[str, str] = {}
    use_this_python(conf, environment)
    assert environment == {}


@pytest.mark.parametrize("environment", [{}, {"PYSPARK_PYTHON": "/first/python"}])
@pytest.mark.parametrize("conf", [[], ["spark.master=spark://host:7077"]])
def test_an_option_names_the_python_as_for_spark_submit(conf: list[str], environment: dict[str, str]) -> None:
    given = dict(environment)
    use_this_python([*conf, "spark.pyspark.python=/other/python"], given)
    assert given == {"PYSPARK_PYTHON": "/other/python"}


@pytest.mark.parametrize("name", ["PYSPARK_PYTHON", "PYSPARK_SUBMIT_ARGS", "SPARK_REMOTE", "MASTER"])
def test_what_the_environment_says_stays(name: str) -> None:
    environment = {name: "given"}
    use_this_python([], environment)
    assert environment == {name: "given"}


@pytest.mark.parametrize(("name", "folder"), [("SPARK_CONF_DIR", "."), ("SPARK_HOME", "conf")])
def test_a_file_of_defaults_may_name_a_cluster(tmp_path: Path, name: str, folder: str) -> None:
    spark_home = tmp_path / folder
    spark_home.mkdir(exist_ok=True)
    environment = {name: str(tmp_path)}
    use_this_python([], environment)
    assert environment["PYSPARK_PYTHON"] == quick_python()
    spark_home.joinpath("spark-defaults.conf").write_text("spark.master yarn\n")
    environment = {name: str(tmp_path)}
    use_this_python([], environment)
    assert environment == {name: str(tmp_path)}
