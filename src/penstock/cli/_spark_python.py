"""Let Spark's Python processes run the Python of the command, if they run on this machine.

Runs on the driver's machine, before Spark starts. Invariant: what the user or Spark's configuration says
stays. On a cluster each machine has its own Python, so nothing is set.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path

_PYTHON = "PYSPARK_PYTHON"
_OPTIONS = ("spark.pyspark.python", "spark.executorEnv.PYSPARK_PYTHON")


def use_this_python(conf: Sequence[str], environment: MutableMapping[str, str] = os.environ) -> None:
    """Set PYSPARK_PYTHON to this Python, unless it is set or Spark may run on other machines.

    Otherwise Spark starts the first `python3` of PATH, which has no penstock if its virtual environment is
    not activated.

    Args:
        conf: options of Spark as key=value.
        environment: of the process.
    """
    options = dict(each.partition("=")[::2] for each in conf)
    if _PYTHON not in environment and not options.keys() & set(_OPTIONS) and _is_local(options, environment):
        environment[_PYTHON] = sys.executable


def _is_local(options: Mapping[str, str], environment: Mapping[str, str]) -> bool:
    if "spark.remote" in options or environment.keys() & {"SPARK_REMOTE", "PYSPARK_SUBMIT_ARGS", "MASTER"}:
        return False
    if "spark.master" in options:
        return options["spark.master"].split("[")[0] == "local"
    folders = (environment.get("SPARK_CONF_DIR"), _conf_folder(environment.get("SPARK_HOME")))
    return not any(folder and Path(folder, "spark-defaults.conf").exists() for folder in folders)


def _conf_folder(home: str | None) -> str | None:
    return None if home is None else str(Path(home, "conf"))
