"""The list of what a wheel holds goes into the wheel, and pip still finds each file as RECORD says."""

from __future__ import annotations

import base64
import csv
import hashlib
import importlib.util
import json
import re
from email.parser import Parser
from pathlib import Path
from types import ModuleType
from zipfile import ZipFile

import pytest

METADATA = """\
Metadata-Version: 2.4
Name: pyspark-penstock
Version: 0.1.0
Requires-Dist: kafka-python<3.1,>=3.0.5
Requires-Dist: pyarrow>=18
Requires-Dist: pyspark>=4.0.1; extra == "spark"
"""
UPLOT = "/*! https://github.com/leeoniya/uPlot (v1.6.32) */\n"
FOLDER = "pyspark_penstock-0.1.0.dist-info"


@pytest.fixture(scope="module")
def sboms() -> ModuleType:
    file = Path(__file__).parents[2] / "build_backend" / "penstock_sbom.py"
    spec = importlib.util.spec_from_file_location("penstock_sbom", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    path = tmp_path / "pyspark_penstock-0.1.0-py3-none-any.whl"
    with ZipFile(path, "w") as archive:
        archive.writestr("penstock/observe/serve/page/uplot.js", UPLOT)
        archive.writestr(f"{FOLDER}/METADATA", METADATA)
        archive.writestr(f"{FOLDER}/RECORD", f"{FOLDER}/RECORD,,\n")
    return path


def test_it_names_what_is_bundled_and_what_is_needed(sboms: ModuleType) -> None:
    made = sboms.sbom(Parser().parsestr(METADATA), UPLOT)
    listed = {each["name"]: each for each in made["components"]}
    assert set(listed) == {"uplot", "kafka-python", "pyarrow"}
    assert listed["uplot"]["version"] == "1.6.32"
    assert listed["kafka-python"]["properties"][0]["value"] == "<3.1,>=3.0.5"
    refs = {each["bom-ref"] for each in made["components"]}
    assert set(made["dependencies"][0]["dependsOn"]) == refs
    assert made["metadata"]["component"]["version"] == "0.1.0"


def test_the_wheel_has_it_and_its_record(sboms: ModuleType, wheel: Path) -> None:
    sboms.add_to(wheel)
    archive = ZipFile(wheel)
    path = f"{FOLDER}/sboms/{sboms.NAME}"
    content = archive.read(path)
    assert json.loads(content)["bomFormat"] == "CycloneDX"
    record = {row[0]: row[1:] for row in csv.reader(archive.read(f"{FOLDER}/RECORD").decode().splitlines())}
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    assert record[path] == [f"sha256={digest}", str(len(content))]
    assert archive.namelist()[-1] == f"{FOLDER}/RECORD"
    assert archive.testzip() is None
    assert list(wheel.parent.iterdir()) == [wheel]


def test_the_notice_names_each_file_with_an_algorithm_of_others() -> None:
    root = Path(__file__).parents[2]
    notice = (root / "NOTICE").read_text(encoding="utf-8")
    sources = [each for each in (root / "src").rglob("*") if each.suffix in {".c", ".h", ".js", ".pyx"}]
    of_others = re.compile(
        r"public domain|[Cc]opyright|MurmurHash|murmur[23]'s|static inline int32_t murmur2|uPlot \(v"
    )
    found = {
        str(each.relative_to(root)): each.name
        for each in sources
        if of_others.search(each.read_text(encoding="utf-8"))
    }
    assert len(found) > 3
    assert [path for path, name in found.items() if path not in notice and name != "uplot.js"] == []
    assert "src/penstock/observe/serve/page/uplot.LICENSE" in notice


def test_a_wheel_without_the_page_names_no_uplot(sboms: ModuleType) -> None:
    listed = sboms.sbom(Parser().parsestr(METADATA), "")["components"]
    assert "uplot" not in {each["name"] for each in listed}
