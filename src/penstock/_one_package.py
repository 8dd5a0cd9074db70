"""Find out that another project's package `penstock` shares the folder of this one.

Runs in every process that imports penstock, once. A package index has a distribution `penstock` of somebody
else. Installed beside this one, which is `pyspark-penstock`, it overwrites files of this package, and pip
removes them with it. Invariant: costs one listing of a folder, once in a process.
"""

from __future__ import annotations

import os
from functools import cache

_OTHERS = "penstock-"
_SUFFIX = ".dist-info"


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
    try:
        names = os.listdir(site)  # noqa: PTH208
    except OSError:  # in an archive
        return
    for name in names:
        if name.startswith(_OTHERS) and name.endswith(_SUFFIX) and _is_other(os.path.join(site, name)):  # noqa: PTH118
            found = name.removeprefix(_OTHERS).removesuffix(_SUFFIX)
            raise ImportError(
                f"Two projects have a package `penstock`, and both are installed in {site}: "
                f"pyspark-penstock, and penstock {found}, which is another project. Each overwrites "
                "files of the other. Run pip uninstall penstock, then install pyspark-penstock again with "
                "--force-reinstall --no-deps. A program that needs both needs two environments.",
                name="penstock",
            )


def _is_other(info: str) -> bool:
    try:
        with open(os.path.join(info, "RECORD"), encoding="utf-8") as record:  # noqa: PTH118, PTH123
            files = record.read()
    except OSError:
        return False
    return "\npenstock/__init__.py," in f"\n{files}" and "\npyspark_penstock/" not in f"\n{files}"
