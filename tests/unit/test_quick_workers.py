"""The archives of PySpark that `make setup` empties."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

from tests.quick_workers import archives, empty


def test_an_archive_becomes_empty_and_the_file_that_another_environment_shares_stays(tmp_path: Path) -> None:
    ours, shared = tmp_path / "ours.zip", tmp_path / "shared.zip"
    with zipfile.ZipFile(shared, "w") as archive:
        archive.writestr("pyspark/__init__.py", "")
    os.link(shared, ours)
    empty(ours)
    assert [zipfile.ZipFile(each).namelist() for each in (ours, shared)] == [[], ["pyspark/__init__.py"]]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["ours.zip", "shared.zip"]


def test_the_archives_of_another_environment_are_left_alone(tmp_path: Path) -> None:
    assert not list(archives(tmp_path))
    assert sorted(each.name.partition("-")[0] for each in archives(Path("/"))) == ["py4j", "pyspark.zip"]
