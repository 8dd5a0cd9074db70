"""Run cases: `python -m tests.versions.probe SERVERS PREFIX FOLDER {classic|connect} [CASE ...]`.

It prints a line of JSON with the names of the cases, and then one for each case: its name, and what it saw or
the error that ended it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from tests.versions.probe.base import CASES, Probe, names_for

MODULES = ("installed", "reads", "writes", "tables", "continuous", "moves")
OLDEST = ("oldest", "continuous")
"""Modules for Spark 3.5."""


def main(servers: str, prefix: str, folder: Path, kind: str, names: list[str]) -> None:
    modules = MODULES if importlib.util.find_spec("pyspark.sql.datasource") else OLDEST
    for each in modules:
        importlib.import_module(f"tests.versions.probe.{each}")
    (folder / kind).mkdir(parents=True, exist_ok=True)
    if unknown := set(names) - set(CASES):
        sys.exit(f"There are no cases {sorted(unknown)}, only {sorted(CASES)}.")
    # In their order, because later cases add records to the topics of earlier ones.
    names = [name for name in CASES if name in names] or names_for(kind)
    say({"cases": names})
    spark = session(kind, folder)
    probe = Probe(spark, servers, prefix, folder / kind, kind)
    for name in names:
        answer: dict[str, Any] = {"case": name}
        try:
            answer["saw"] = CASES[name].run(probe)
        except Exception as error:  # noqa: BLE001 - each case is judged
            answer["error"] = f"{type(error).__name__}: {error}"[:800]
            traceback.print_exc()
        say(answer)
    spark.stop()


def session(kind: str, folder: Path) -> Any:
    os.environ["PYSPARK_PYTHON"] = sys.executable  # and not the `python3` of the path
    builder: Any = SparkSession.builder
    if kind == "connect":
        # Spark 4.0 loses a Python worker now and then (SPARK-52642). A cluster runs the task again, as here.
        builder = builder.remote("local[2,4]" if pyspark.__version__.startswith("4.0.") else "local[2]")
    else:
        builder = builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2").config("spark.sql.session.timeZone", "UTC")
    return builder.config("spark.sql.warehouse.dir", str(folder / "warehouse")).getOrCreate()


def say(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4], sys.argv[5:])
