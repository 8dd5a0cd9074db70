"""Ask a resolver whether penstock can be installed beside other projects: `python -m tests.package.beside`.

Runs `uv pip compile` for penstock's dependencies and extras beside each project, and installs nothing.
It prints the table of docs/release-tests.md. The exit status is 1 if an answer differs from the one that is
noted here.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.environments import new_environment, pip
from tests.package.release import ROOT

PYTHON = "3.12"
_LONGEST_S = 300
SHOWN = ("pyspark", "pandas", "pyarrow", "kafka-python", "sqlglot")
WORKS_ON_DRIVER = ("cli", "sql", "prometheus", "otel", "lineage", "protobuf", "aws", "pkcs12", "postgresql")


@dataclass(frozen=True)
class Project:
    """Another project.

    Attributes:
        title: for the table.
        packages: what pip would install.
        extras: of penstock, beside it.
        fits: whether there is an answer.
    """

    title: str
    packages: tuple[str, ...]
    extras: tuple[str, ...] = WORKS_ON_DRIVER
    fits: bool = True


PROJECTS = (
    Project("PySpark 4.0.1 and pandas 2.2", ("pyspark==4.0.1", "pandas==2.2.3"), (*WORKS_ON_DRIVER, "spark")),
    Project("PySpark 4.3 and pandas 3", ("pyspark==4.3.0", "pandas>=3"), (*WORKS_ON_DRIVER, "spark")),
    Project("databricks-connect 17.3", ("databricks-connect==17.3.*",)),
    Project("pyspark-client", ("pyspark-client",)),
    Project("Databricks 17.3's pins", ("pyarrow==19.0.1", "pandas==2.2.3", "numpy==2.1.3")),
    Project(
        "Airflow 3 with its providers for Kafka and OpenLineage",
        (
            "apache-airflow>=3",
            "apache-airflow-providers-apache-kafka",
            "apache-airflow-providers-openlineage",
        ),
    ),
    Project("dbt with dbt-spark", ("dbt-core>=1.10", "dbt-spark")),
    Project("dbt-databricks", ("dbt-databricks",)),
    Project("Dagster", ("dagster>=1.11",)),
    Project("MLflow 3", ("mlflow>=3",)),
    Project("SQLMesh", ("sqlmesh",)),
    Project("deltalake and PyIceberg", ("deltalake", "pyiceberg"), (*WORKS_ON_DRIVER, "delta", "iceberg")),
    Project("delta-spark, with its PySpark", ("delta-spark==4.0.1", "pyspark==4.0.1"), ("sql", "spark")),
    Project("Great Expectations", ("great-expectations>=1",)),
    Project("kafka-python 2", ("kafka-python<3",), fits=False),
    Project("Flink 2 (by Beam it needs pyarrow before 17)", ("apache-flink>=2",), fits=False),
)


def main() -> None:
    """Print the table."""
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        python = new_environment(Path(folder) / "tools")
        pip(python, "install", "uv")
        print(f"| project | with Python {PYTHON} |\n|---|---|")  # noqa: T201 - a command
        for project in PROJECTS:
            fits, said = resolved(python, project)
            print(f"| {project.title} | {said} |", flush=True)  # noqa: T201 - a command
            wrong += [project.title] if fits is not project.fits else []
    sys.exit(f"Not as noted: {', '.join(wrong)}" if wrong else 0)


def resolved(python: Path, project: Project) -> tuple[bool, str]:
    """Return whether a resolver finds versions, and the ones that matter or its reason."""
    asked = [*requirements(project.extras), *project.packages]
    command = [str(python), "-m", "uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate"]
    done = subprocess.run(
        [*command, "--python-version", PYTHON, "-"],
        check=False,
        input="\n".join(asked),
        capture_output=True,
        text=True,
        timeout=_LONGEST_S,
    )
    if done.returncode:
        reason = re.sub(r"\s+", " ", done.stderr).strip()
        return False, f"no: {reason[:300]}"
    found = dict(line.split("==", 1) for line in done.stdout.split() if "==" in line)
    names = {re.split(r"[\[<>=]", each)[0] for each in project.packages}
    shown = [name for name in found if name in {*SHOWN, *names}]
    return True, ", ".join(f"{name} {found[name]}" for name in shown)


def requirements(extras: tuple[str, ...]) -> list[str]:
    """Return the requirements of the base and of extras."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = list(project["dependencies"])
    for extra in extras:
        for each in project["optional-dependencies"][extra]:
            other = re.fullmatch(r"pyspark-penstock\[([\w,]+)\]", each)
            found += (
                requirements(tuple(other[1].split(",")))[len(project["dependencies"]) :] if other else [each]
            )
    return found


if __name__ == "__main__":
    main()
