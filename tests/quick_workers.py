"""Let Spark's Python processes import PySpark from this environment: `python -m tests.quick_workers`.

A part of `make setup`. Spark puts `pyspark.zip` and `py4j-*.zip` of the installed PySpark first on the path
of its Python processes. They hold no compiled modules, so each process that plans the source of a stream
compiles PySpark, for 0.3 s. Here the archives become empty. The processes then find the same PySpark behind
them, compiled: they run with the Python of this environment. Invariant: nothing outside it changes.
"""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyspark


def archives(environment: Path = Path(sys.prefix)) -> Iterator[Path]:
    """Yield the archives of PySpark and Py4J, if PySpark belongs to the environment."""
    package = Path(pyspark.__file__).parent
    if package.is_relative_to(environment):
        yield from package.glob("python/lib/*.zip")


def empty(archive: Path) -> None:
    """Replace an archive by one without files. The old file may be shared with another environment."""
    new = archive.with_suffix(".new")
    zipfile.ZipFile(new, "w").close()
    new.replace(archive)


if __name__ == "__main__":
    for each in archives():
        empty(each)
