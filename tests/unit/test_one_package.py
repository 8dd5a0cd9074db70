"""Another project's `penstock` beside ours, or kafka-python-ng, is said in one sentence."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
OURS = "penstock/__init__.py,,\npyspark_penstock/__init__.py,,\n"
"""What a wheel of ours had before the distribution was renamed."""
OTHER = "penstock/__init__.py,,\npenstock/_dag.py,,\n"
EDITABLE = "__editable__.penstock-0.1.0.pth,,\n"
DOORS = [
    "import penstock",
    "import pyspark_penstock",
    "from penstock.sql import Session",
    "from penstock.flink import KafkaSource",
    "from penstock.changelog import normalize",
    "from penstock.cli import main",
]


def install(site: Path, record: str | None) -> Path:
    """Link our package into a folder, with what pip writes about a distribution `penstock`."""
    site.mkdir()
    for name in ("penstock", "pyspark_penstock"):
        (site / name).symlink_to(SOURCE / name)
    info = site / "penstock-0.1.0.dist-info"
    info.mkdir()
    if record is not None:
        (info / "RECORD").write_text(record)
    return site


def tried(*sites: Path) -> list[str]:
    """Import through each door in one process, and return what came of it."""
    program = f"""
import sys
for door in {DOORS}:
    for name in [each for each in sys.modules if each.startswith(("penstock", "pyspark_penstock"))]:
        del sys.modules[name]
    try:
        exec(door)
    except Exception as error:
        print(f"{{door}}: {{type(error).__name__}} {{error}}")
    else:
        print(f"{{door}}: works")
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sites))}
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, env=environment
    )
    return done.stdout.splitlines()


def test_another_package_in_the_same_folder_is_named(tmp_path: Path) -> None:
    site = install(tmp_path / "site", OTHER)
    wanted = f"ImportError Two projects have a package `penstock`, and both are installed in {site}: "
    assert [line for line in tried(site) if wanted not in line or "pip uninstall penstock" not in line] == []


@pytest.mark.parametrize("record", [OURS, EDITABLE, None])
def test_an_older_install_of_ours_is_not_another_package(tmp_path: Path, record: str | None) -> None:
    assert tried(install(tmp_path / "site", record)) == [f"{door}: works" for door in DOORS]


def test_a_package_that_has_replaced_our_files_is_named(tmp_path: Path) -> None:
    site = install(tmp_path / "site", OTHER)
    (site / "penstock").unlink()
    (site / "penstock").mkdir()
    for path in (SOURCE / "penstock").iterdir():
        (site / "penstock" / path.name).symlink_to(path)
    (site / "penstock" / "__init__.py").unlink()
    (site / "penstock" / "__init__.py").write_text("from penstock._dag import flow\n")
    (site / "penstock" / "_dag.py").write_text("flow = None\n")
    plain, *others = tried(site)
    assert plain == "import penstock: works"  # nothing of ours runs
    assert [line for line in others if "ImportError Two projects have a package `penstock`" not in line] == []


def test_a_package_that_python_finds_before_ours_is_named(tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / "penstock").mkdir(parents=True)
    (other / "penstock" / "__init__.py").touch()
    found = tried(other, install(tmp_path / "site", None))[1]
    assert found.startswith(
        "import pyspark_penstock: ImportError pyspark-penstock needs its own package `penstock`, and Python "
        f"loads another one from {other / 'penstock'}: another project has that name too."
    )


def tried_with_kafka(site: Path, program: str, lines: int | None = 1) -> str:
    """Link kafka-python into a folder, import what needs it, and return the last lines of the error."""
    import kafka  # noqa: PLC0415 - only its folder is looked at

    site.mkdir(exist_ok=True)
    (site / "kafka").symlink_to(Path(kafka.__file__).parent)
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(SOURCE), str(site)])},
    )
    said = done.stderr.strip().split("\n")
    return "\n".join(said if lines is None else said[-lines:])


@pytest.mark.parametrize("module", ["penstock.client.net.connection", "penstock.spark._reads"])
def test_kafka_python_ng_beside_kafka_python_is_named(tmp_path: Path, module: str) -> None:
    site = tmp_path / "site"
    (site / "kafka_python_ng-2.2.3.dist-info").mkdir(parents=True)
    (site / "kafka_python-3.0.12.dist-info").mkdir()
    assert tried_with_kafka(site, f"import {module}") == (
        f"penstock._one_package.TwoPackagesError: {both_in(site)}"
    )


def test_a_command_says_that_kafka_python_ng_is_there_and_ends_with_2(tmp_path: Path) -> None:
    site = tmp_path / "site"
    (site / "kafka_python_ng-2.2.3.dist-info").mkdir(parents=True)
    (site / "kafka_python-3.0.12.dist-info").mkdir()
    program = """
import sys
sys.argv[1:] = ["topics", "list", "-b", "127.0.0.1:1"]
from penstock.cli import main
try:
    main()
except SystemExit as end:
    sys.stderr.write(f" {end.code}")
"""
    assert tried_with_kafka(site, program, lines=None) == f"penstock: {both_in(site)}\n 2"


def both_in(site: Path) -> str:
    """Return the message."""
    return (
        f"Two projects have a package `kafka`, and both are installed in {site}: kafka-python, "
        "which penstock needs, and kafka-python-ng 2.2.3. Each overwrites files of the other. Nothing was "
        "read or written. Run pip uninstall kafka-python-ng, then pip install --force-reinstall --no-deps "
        f"'{required_kafka_python()}'. A program that needs both needs two environments."
    )


def test_kafka_python_alone_or_ng_elsewhere_is_right(tmp_path: Path) -> None:
    (tmp_path / "site" / "kafka_python-3.0.12.dist-info").mkdir(parents=True)
    (tmp_path / "elsewhere" / "kafka_python_ng-2.2.3.dist-info").mkdir(parents=True)
    program = f"import sys; sys.path.append({str(tmp_path / 'elsewhere')!r}); import penstock.client"
    assert tried_with_kafka(tmp_path / "site", program) == ""


def required_kafka_python() -> str:
    project = tomllib.loads((SOURCE.parent / "pyproject.toml").read_text())["project"]
    [found] = [each for each in project["dependencies"] if each.startswith("kafka-python")]
    return str(found)
