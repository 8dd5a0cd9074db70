"""`pip install` installs what the package imports: each import is a declared dependency or an extra."""

from __future__ import annotations

import ast
import functools
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

from penstock.extras import EXTRAS as EXTRAS_OF_PENSTOCK
from tests.unit.syntax_trees import nodes_of

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
NATIVE_SOURCES = sorted((ROOT / "src").rglob("*.py[xid]"))
OURS = {"penstock", "pyspark_penstock"}
EXTRAS = {
    module.partition(".")[0] if module != "google.protobuf" else module: name
    for name, extra in EXTRAS_OF_PENSTOCK.items()
    for module in extra.packages.values()
}
"""Packages that are imported only if they are installed, and an extra that installs them."""
OTHER_NAMES = {"aws_msk_iam_sasl_signer": "aws-msk-iam-sasl-signer-python"}
"""Packages that the environment of the tests does not have, and the distributions that install them."""

BROUGHT_BY_THE_KERNEL = {"IPython"}
"""Packages that are there where they are imported: code for notebooks runs in a kernel of Jupyter alone."""


def imported(source: Path) -> set[str]:
    """The modules that a file imports, anywhere in it, and those that it asks for by name."""
    found: set[str] = set()
    for node in nodes_of(source):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add(node.module or "")
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(
            ("import_module", "distribution")
        ):
            found.add(_literal_beginning(node.args[0]))
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "import_extra":
            found.add(_literal_beginning(node.args[1]))
    return found - {""}


def _literal_beginning(node: ast.expr) -> str:
    """Return the constant text at the beginning of an argument."""
    if isinstance(node, ast.JoinedStr) and node.values:
        node = node.values[0]
    return node.value.rstrip(".") if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


@functools.cache
def third_party_of(source: Path) -> set[str]:
    return third_party(imported(source))


def third_party(modules: set[str]) -> set[str]:
    return {name for name in modules if name.partition(".")[0] not in sys.stdlib_module_names | OURS}


def normalised(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[\s\[<>=!~;]", requirement, maxsplit=1)[0]).lower()


@functools.cache
def project_table() -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return table


def declared(*extras: str) -> set[str]:
    project = project_table()
    lists = [project["dependencies"], *(requirements_of(extra) for extra in extras)]
    return {normalised(requirement) for requirements in lists for requirement in requirements}


def requirements_of(extra: str) -> list[str]:
    """The requirements of an extra, with those of the extras that it names."""
    found = []
    for requirement in project_table()["optional-dependencies"][extra]:
        other = re.fullmatch(r"pyspark-penstock\[([\w,]+)\]", requirement)
        for name in other[1].split(",") if other else ():
            found += requirements_of(name)
        found += [] if other else [requirement]
    return found


installed_by = functools.cache(packages_distributions)


def distributions_of(module: str) -> set[str]:
    package = module.partition(".")[0]
    return {normalised(name) for name in installed_by().get(package, [OTHER_NAMES.get(package, package)])}


def test_each_import_is_a_declared_dependency() -> None:
    missing = set()
    for source in SOURCES:
        for module in third_party_of(source):
            extras = [extra for beginning, extra in EXTRAS.items() if module.startswith(beginning)]
            is_there = module.partition(".")[0] in BROUGHT_BY_THE_KERNEL
            if not is_there and not distributions_of(module) & declared(*extras):
                missing.add((str(source), module))
    assert SOURCES
    assert missing == set()


def test_compiled_sources_import_only_what_is_ours_or_declared() -> None:
    line = re.compile(r"^\s*(?:c?import|from)\s+([\w.]+)", re.MULTILINE)
    found = {module for source in NATIVE_SOURCES for module in line.findall(source.read_text())}
    # Cython's own headers, resolved while it compiles.
    modules = third_party(
        {name for name in found if name.partition(".")[0] not in {"libc", "cpython", "cython"}}
    )
    assert NATIVE_SOURCES
    assert {module for module in modules if not distributions_of(module) & declared()} == set()


def test_each_dependency_is_imported() -> None:
    modules = set().union(*(third_party_of(source) for source in SOURCES))
    used = set().union(*(distributions_of(module) for module in modules))
    # The extra `connect` is PySpark's own, for its client. PySpark imports pandas.
    assert declared("protobuf", "demo", "spark", "connect", "prometheus") - {"pandas"} <= used


def test_an_import_that_nothing_brings_is_found(tmp_path: Path) -> None:
    source = tmp_path / "module.py"
    source.write_text(
        "def f():\n    import pytest as pt\n    import_module('google.protobuf.text')\n"
        "    import_module(f'google.protobuf.{name}')\n    import_module(name)\n"
    )
    assert third_party(imported(source)) == {"pytest", "google.protobuf.text", "google.protobuf"}
    assert not distributions_of("pytest") & declared()
