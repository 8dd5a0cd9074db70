"""Run a job as platforms do: Spark in a folder of its own, penstock in an archive or in an image's Python.

`python -m tests.package.platforms WHEEL PYSPARK` takes a wheel of penstock and the folder of an installed
PySpark. It downloads the packages that the wheel needs. docs/platforms.md has the recipe and the last result.
Invariant: the job's Pythons have no PySpark of their own, and an independent consumer counts the rows.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

from penstock.devbroker import DevCluster
from tests import judge
from tests.environments import new_environment, pip
from tests.package.platform_job import ROWS

JOB = Path(__file__).with_name("platform_job.py")
LAYOUTS = ("archive", "image")
BESIDE = ("pandas>=2.2,<3", "venv-pack")
"""What the recipe installs beside penstock: a Python of its own does not see the platform's pandas."""
OF_A_PLATFORM = ("SPARK", "PYSPARK", "PYTHON", "VIRTUAL_ENV")
"""Beginnings of variables by which this Python would show through."""
NOT_PYTHON = {"bin", "jars", "sbin", "examples", "data", "licenses", "python", "__pycache__"}
"""Folders of the installed PySpark that a vendor has elsewhere."""


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def make_platform(pyspark: Path, home: Path) -> Path:
    """Make a Spark as vendors have it: jars and commands in folders, PySpark and Py4J in archives."""
    (home / "python" / "lib").mkdir(parents=True)
    for name in ("bin", "sbin", "jars"):
        (home / name).symlink_to(pyspark / name)
    [py4j] = pyspark.parent.glob("py4j-*.dist-info")
    version = py4j.name.removeprefix("py4j-").removesuffix(".dist-info")
    for package, name in ((pyspark, "pyspark.zip"), (pyspark.parent / "py4j", f"py4j-{version}-src.zip")):
        with ZipFile(home / "python" / "lib" / name, "w", ZIP_DEFLATED) as archive:
            for file in sorted(package.rglob("*")):
                inside = file.relative_to(package)
                if file.is_file() and not NOT_PYTHON & set(inside.parts[:1]):
                    archive.write(file, Path(package.name) / inside)
    return home


def make_environment(wheel: Path, folder: Path) -> Path:
    """Make the environment of the recipe and return its archive."""
    pip(new_environment(folder), "install", str(wheel), *BESIDE)
    assert not any(folder.glob("lib/python*/site-packages/pyspark")), "pip has brought a PySpark"
    archive = folder.with_suffix(".tar.gz")
    subprocess.run([folder / "bin" / "venv-pack", "-q", "-p", folder, "-o", archive], check=True)
    return archive


def submit(layout: str, home: Path, archive: Path, work: Path, *arguments: str) -> str:
    """Run the job and return what it prints. Executors are processes with a folder of their own."""
    work.mkdir()
    python, settings = archive.with_suffix("").with_suffix("") / "bin" / "python", list[str]()
    if layout == "archive":  # the platform unpacks it for the driver, and Spark for the executors
        (work / "environment").mkdir()
        subprocess.run(["tar", "xzf", archive, "-C", work / "environment"], check=True)
        python, settings = Path("environment/bin/python"), ["--archives", f"{archive}#environment"]
    env = {name: text for name, text in os.environ.items() if not name.startswith(OF_A_PLATFORM)}
    env |= {"SPARK_HOME": str(home)}
    env |= dict.fromkeys(
        ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), f"./{python}" if settings else str(python)
    )
    settings += ["--conf", "spark.ui.enabled=false", "--conf", "spark.sql.shuffle.partitions=2"]
    command = [str(home / "bin" / "spark-submit"), "--master", "local-cluster[2,1,1024]", *settings, str(JOB)]
    done = subprocess.run(
        [*command, *arguments], cwd=work, env=env, capture_output=True, text=True, timeout=500, check=False
    )
    if done.returncode:
        raise SystemExit(f"{layout}: status {done.returncode}\n{done.stdout}\n{done.stderr[-8000:]}")
    logged = [line for line in done.stderr.splitlines() if " penstock." in line]
    return done.stdout + "".join(f"log: {line}\n" for line in logged)


def main(wheel: Path, pyspark: Path) -> None:
    with tempfile.TemporaryDirectory() as name, DevCluster() as kafka:
        folder = Path(name)
        home = make_platform(pyspark, folder / "spark")
        archive = make_environment(wheel, folder / "penstock-env")
        say(f"archive: {archive.stat().st_size / 1e6:.0f} MB")
        for layout in LAYOUTS:
            source, target = f"{layout}-source", f"{layout}-target"
            for topic in (source, target):
                judge.create_topic(kafka.bootstrap_servers, topic, partitions=2)
            work = folder / layout
            shown = submit(layout, home, archive, work, kafka.bootstrap_servers, source, target, str(work))
            say(f"== {layout}\n{shown}")
            copied = judge.consume_until(kafka.bootstrap_servers, target, ROWS)
            assert sorted(int(record.value or b"") for record in copied) == list(range(ROWS))
            say(f"{len(copied)} rows, each once")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
