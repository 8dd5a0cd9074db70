"""Another project's package `penstock` beside ours is said in one sentence."""

from __future__ import annotations

import os
import subprocess
import sys
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
