"""Find out that another project's package shares the folder of `penstock`, or that of `kafka`.

Runs in every process that imports penstock, once, and in those that connect to Kafka. A package index has a
distribution `penstock` of somebody else. Installed beside this one, which is `pyspark-penstock`, it
overwrites files of this package, and pip removes them with it. kafka-python-ng does the same to kafka-python.
Invariant: each check costs one listing of a folder, once in a process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache

_OTHERS = "penstock-"
_NG = "kafka_python_ng-"
_SUFFIX = ".dist-info"
_KAFKA_PYTHON = "kafka-python>=3.0.5,<3.1"


class TwoPackagesError(ImportError):
    """kafka-python and kafka-python-ng are installed in one folder. The message says how to repair it."""


@cache
def check_one_package(file: str = __file__) -> None:
    """Check that pip has installed no other package `penstock` into the folder of this one.

    What was installed from a checkout of this project before its distribution was renamed is not another one.

    Args:
        file: a module in penstock's folder.

    Raises:
        ImportError: there is one.
    """
    site = os.path.dirname(os.path.dirname(file))  # noqa: PTH120 - pathlib is not loaded yet
    for found in _installed(site, _OTHERS):
        if _is_other(os.path.join(site, f"{_OTHERS}{found}{_SUFFIX}")):  # noqa: PTH118
            raise ImportError(
                f"Two projects have a package `penstock`, and both are installed in {site}: "
                f"pyspark-penstock, and penstock {found}, which is another project. Each overwrites "
                "files of the other. Run pip uninstall penstock, then install pyspark-penstock again with "
                "--force-reinstall --no-deps. A program that needs both needs two environments.",
                name="penstock",
            )


@cache
def check_one_kafka() -> None:
    """Check that kafka-python-ng is not installed in the folder of kafka-python.

    Raises:
        TwoPackagesError: it is.
    """
    from importlib.util import find_spec  # noqa: PLC0415 - `import penstock` needs it not

    spec = find_spec("kafka")
    for folder in (spec and spec.submodule_search_locations) or ():
        site = os.path.dirname(folder)  # noqa: PTH120
        for found in _installed(site, _NG):
            raise TwoPackagesError(
                f"Two projects have a package `kafka`, and both are installed in {site}: kafka-python, which "
                f"penstock needs, and kafka-python-ng {found}. Each overwrites files of the other. Nothing "
                "was read or written. Run pip uninstall kafka-python-ng, then pip install --force-reinstall "
                f"--no-deps '{_KAFKA_PYTHON}'. A program that needs both needs two environments.",
                name="kafka",
            )


def _installed(site: str, beginning: str) -> Iterator[str]:
    """Return the versions of the distributions whose name begins so."""
    try:
        names = os.listdir(site)  # noqa: PTH208
    except OSError:  # in an archive
        return
    for name in names:
        if name.startswith(beginning) and name.endswith(_SUFFIX):
            yield name.removeprefix(beginning).removesuffix(_SUFFIX)


def _is_other(info: str) -> bool:
    try:
        with open(os.path.join(info, "RECORD"), encoding="utf-8") as record:  # noqa: PTH118, PTH123
            files = record.read()
    except OSError:
        return False
    return "\npenstock/__init__.py," in f"\n{files}" and "\npyspark_penstock/" not in f"\n{files}"
