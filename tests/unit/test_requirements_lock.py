"""requirements.lock has each package of the base, in a version that pyproject.toml allows, with hashes."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
PINNED = re.findall(r"^([\w.-]+)==([^ \\;]+)", LOCK, re.MULTILINE)


def test_each_requirement_of_the_base_is_there_in_its_range() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for text in project["dependencies"]:
        requirement = Requirement(text)
        versions = [version for name, version in PINNED if name == canonicalize_name(requirement.name)]
        assert versions, text
        assert [each for each in versions if each not in requirement.specifier] == []


def test_each_package_has_hashes() -> None:
    for entry in re.split(r"^(?=[\w.-]+==)", LOCK, flags=re.MULTILINE)[1:]:
        assert len(re.findall(r"--hash=sha256:[0-9a-f]{64}", entry)) >= 1, entry[:40]


def test_it_has_no_package_of_the_platform_and_no_index() -> None:
    assert {name for name, _ in PINNED} & {"pyspark", "pandas"} == set()
    assert not re.search(r"https?://", LOCK)
