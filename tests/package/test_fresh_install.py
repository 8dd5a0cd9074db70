"""The wheel, installed with only its declared dependencies, reads and writes. With `cli` README's steps run.

One build and one environment serve all tests of this file: PySpark alone is 450 MB. Tests that install an
extra link the files of the environment into one of their own.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from zipfile import ZipFile

import pytest

from penstock.devbroker import DevCluster
from penstock.devbroker.cluster import free_ports
from penstock.devbroker.paths import cache_folder
from penstock.extras import EXTRAS as EXTRAS_OF_PENSTOCK
from tests import quick_jvm
from tests.fix_broker import MakeTopic
from tests.package.readme import README, pattern_of, quick_start

pytestmark = [
    pytest.mark.timeout(1500),  # downloads and compiles
    pytest.mark.xdist_group("package"),
    pytest.mark.long,
]

# With __pycache__, because the tests leave Python's compiled code in the folders that are copied.
NOT_OF_A_CHECKOUT = shutil.ignore_patterns(".*", "build", "dist", "*.so", "*.egg-info", "spark-warehouse")
MARK = "===== step"
EXTRAS = {  # in this order, because a later extra installs what an earlier one tests
    "cli": "import penstock.cli.app; from penstock.observe.bar import _Bar; _Bar('orders', None)",
    "protobuf": "from penstock.formats.protobuf._types import library; library('message')",
    # PySpark ends a process with status 0 if a package of Connect is missing.
    "connect": "import grpc, grpc_status, pandas; from pyspark.sql.connect.session import SparkSession",
    "pkcs12": "from penstock.security._pkcs12 import _loaded; _loaded.__module__; import cryptography",
    "aws": "from penstock.security.token_sources import fetch_token; from penstock.security.oauth import "
    "AwsToken; import os; os.environ.update(AWS_ACCESS_KEY_ID='a', AWS_SECRET_ACCESS_KEY='b'); "
    "assert fetch_token(AwsToken('eu-west-1')).lifetime_s > 60",
    "kerberos": "from penstock.security.tickets import load_gssapi; load_gssapi().Credentials",
    "delta": "import pyarrow as pa; from penstock.targets import DeltaTable; "
    "DeltaTable('t').check(pa.schema([('id', pa.int64())]), ['id'])",
    "iceberg": "import pyarrow as pa; from penstock.targets import IcebergTable; "
    "IcebergTable('n.t').check(pa.schema([('id', pa.int64())]), ['id'])",
    "postgresql": "import psycopg; from penstock.targets import SqlTable; "
    "SqlTable('t', lambda: psycopg.connect('')).check(__import__('pyarrow').schema([]), [])",
    "prometheus": "from penstock.observe.serve.http import MetricsServer",
    "otel": "from penstock.observe.serve.otlp import start_push; "
    "from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter",
    "lineage": "from penstock.lineage import LineageListener; LineageListener('n').close()",
    "sql": "from penstock.sql import Session; import penstock.sql.shell.prompt",
    "testing": "import penstock.testing.plugin, confluent_kafka, importlib.metadata as installed; "
    "assert 'penstock.testing.plugin' in installed.entry_points(group='pytest11').names",
    "demo": "from penstock.demo.flights import load_flights; assert load_flights().num_rows == 336_776",
}
NEEDS_OF_THE_SYSTEM = {"kerberos": "krb5-config"}
"""Extras that compile against a library of the system, and the program that shows that it is there."""
SPARKS_LIMIT = "Python worker failed to connect back"
"""Spark gives a Python worker 10 s to start, whatever its settings say. A busy machine takes longer."""
QUICK_BUILD = {"PENSTOCK_OPTIMIZE": "-O0"}
"""The other tests have the code with all optimizations. Compiling it again would take a minute."""
INSTALL = ("-m", "pip", "install", "--no-compile")
"""Python compiles a module when it imports it. The packages have thousands that no test imports."""


def run(*command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> str:
    """Run a command. All processes that it starts end with it."""
    with subprocess.Popen(
        command,
        cwd=cwd,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as child:
        try:
            out, err = child.communicate()
        except BaseException:
            os.killpg(child.pid, signal.SIGTERM)
            child.communicate()
            raise
    assert child.returncode == 0, f"{command} failed:\n{out}\n{err}"
    return out


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel as README says, from a copy with the files of a checkout."""
    checkout = tmp_path_factory.mktemp("package") / "checkout"
    shutil.copytree(README.parent, checkout, ignore=NOT_OF_A_CHECKOUT)
    build = (sys.executable, "-m", "pip", "wheel", "--no-deps", ".")
    run(*build, cwd=checkout, env={**os.environ, **QUICK_BUILD})
    [built] = checkout.glob("penstock-*.whl")
    return built


@pytest.fixture(scope="module")
def core(wheel: Path) -> Path:
    """A virtual environment with the wheel and what it declares, and no extra."""
    folder = wheel.parent / ".core"
    run(_base_python(), "-m", "venv", folder, cwd=wheel.parent)
    run(folder / "bin" / "python", *INSTALL, wheel, cwd=wheel.parent)
    return folder


def with_extra(core: Path, folder: Path, wheel: Path, extra: str) -> Path:
    """Link the files of an environment into another one, and install an extra there."""
    shutil.copytree(core, folder, symlinks=True, copy_function=os.link)
    for path in folder.glob("bin/*"):
        if not path.is_symlink() and str(core) in (text := path.read_text()):
            mode = path.stat().st_mode
            path.unlink()  # the file is that of the other environment too
            path.write_text(text.replace(str(core), str(folder)))
            path.chmod(mode)
    run(folder / "bin" / "python", *INSTALL, f"{wheel}[{extra}]", cwd=folder)
    return folder


@pytest.fixture(scope="module")
def environment(core: Path, wheel: Path) -> Path:
    """A virtual environment with the extra of the quick start, in its place."""
    return with_extra(core, wheel.parent / ".venv", wheel, "cli")


def _base_python() -> str:
    return str(getattr(sys, "_base_executable", sys.executable))


def shell_environment(cache: Path) -> dict[str, str]:
    """Return the environment of a user, without the variables of the tests."""
    ours = ("PYTHON", "PYSPARK", "VIRTUAL_ENV", "PENSTOCK", "PYTEST", "SPARK", "TMPDIR")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    folders = [
        folder for folder in kept["PATH"].split(os.pathsep) if folder != str(Path(sys.executable).parent)
    ]
    cache.mkdir()
    (cache / "jars").symlink_to(cache_folder() / "jars")
    return {
        **kept,
        "PATH": os.pathsep.join(folders),
        "PENSTOCK_CACHE": str(cache),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SUBMIT_OPTS": " ".join(quick_jvm.FLAGS),
    }


def retried(command: str) -> str:
    """Run a Spark job. Run it again if it ran into Spark's limit, as a user would."""
    if not command.startswith("python "):
        return command
    again = f"grep -q '{SPARKS_LIMIT}' errors.txt"
    return (
        f"for attempt in 1 2 3 4 5; do if {command} 2> errors.txt; then break; fi; "
        f"if ! {again} || [ $attempt = 5 ]; then cat errors.txt >&2; exit 1; fi; done"
    )


@pytest.mark.promise
def test_the_wheel_has_no_code_that_python_compiled(wheel: Path) -> None:
    names = ZipFile(wheel).namelist()
    assert "penstock/__init__.py" in names
    assert [name for name in names if "__pycache__" in name or name.endswith(".pyc")] == []


@pytest.mark.promise
def test_the_quick_start_runs_from_top_to_bottom(environment: Path, wheel: Path, tmp_path: Path) -> None:
    [port] = free_ports(1)
    replaced = {
        "9092": str(port),
        "/tmp/orders-copy": str(tmp_path / "checkpoint"),  # noqa: S108 - the text of the page
        # Made once for all tests of this file, and from the wheel: compiling twice would cost a minute.
        "python3 -m venv .venv": "true",
        "pip install '.[cli]'": f"pip install '{wheel}[cli]'",
    }

    def here(text: str) -> str:
        for old, new in replaced.items():
            text = text.replace(old, new)
        return text

    steps = quick_start()
    script = ["set -e", "trap 'penstock broker stop >&2 || true' EXIT"]
    for number, step in enumerate(steps):
        if step.file_text is not None:
            (environment.parent / step.command).write_text(here(step.file_text))
            continue
        script += [f"echo '{MARK} {number}'", retried(here(step.command))]
    env = shell_environment(tmp_path / "cache")

    said = run("bash", "-c", "\n".join(script), cwd=environment.parent, env=env)

    printed = {int(part.split("\n", 1)[0]): part.split("\n", 1)[1] for part in said.split(f"{MARK} ")[1:]}
    shown = {number: here(step.prints) for number, step in enumerate(steps) if step.prints}
    assert {
        number: printed[number]
        for number, text in shown.items()
        if not pattern_of(text).fullmatch(printed[number])
    } == {}
    assert any("one\ntwo\nthree\n" in text for text in shown.values())
    run(environment / "bin" / "python", "-m", "pip", "check", cwd=tmp_path)


READ_AND_WRITE = """
import json, sys
from pyspark.sql import SparkSession
servers, written = {"kafka.bootstrap.servers": sys.argv[1]}, {"id": 7, "name": "seven"}
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.createDataFrame([(json.dumps(written).encode(),)], "value BINARY").write.format("penstock").mode(
    "append").options(**servers, topic=sys.argv[2]).save()
rows = spark.read.format("penstock").schema("id BIGINT, name STRING").options(
    **servers, subscribe=sys.argv[2], format="json").load().collect()
assert [row.asDict() for row in rows] == [written], rows
spark.stop()
"""


def test_the_core_reads_and_writes_and_says_what_a_command_needs(
    core: Path, broker: DevCluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """An executor gets neither typer nor rich."""
    python = core / "bin" / "python"
    packages = set(run(python, "-m", "pip", "list", "--format=freeze", cwd=tmp_path).lower().split("\n"))
    assert {each.partition("==")[0] for each in packages} >= {"penstock", "kafka-python", "pyspark"}
    assert not {"typer", "rich", "click", "sqlglot"} & {each.partition("==")[0] for each in packages}
    tmp_path.joinpath("job.py").write_text(READ_AND_WRITE)
    env = {**shell_environment(tmp_path / "cache"), "PYSPARK_PYTHON": str(python)}

    job = retried(f"python job.py {broker.bootstrap_servers} {make_topic(1)}")
    run("bash", "-c", job.replace("if python", f"if {python}"), cwd=tmp_path, env=env)

    command = [str(core / "bin" / "penstock"), "topics", "list"]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == (
        f"penstock: This command needs the extra 'cli' of penstock: {python} lacks typer and rich. In a "
        "checkout of penstock run pip install '.[cli]'. `penstock extras` lists all extras.\n"
    )
    shown = run(core / "bin" / "penstock", "extras", cwd=tmp_path)
    assert set(re.findall(r"^  (\w+) +no ", shown, re.MULTILINE)) == set(EXTRAS)


GROUPS = """
CREATE TABLE made (id BIGINT, shop STRING) WITH (
  'connector' = 'datagen', 'number-of-rows' = '10', 'fields.id.kind' = 'sequence', 'fields.id.start' = '1',
  'fields.id.end' = '10', 'fields.shop.length' = '1', 'fields.shop.null-rate' = '1'
);
SELECT shop, COUNT(*) AS n, SUM(id) AS total FROM made GROUP BY shop;
"""


def test_a_script_of_sql_keeps_groups_without_an_activated_environment(
    core: Path, wheel: Path, tmp_path: Path
) -> None:
    python = with_extra(core, tmp_path / "venv", wheel, "sql") / "bin" / "python"
    tmp_path.joinpath("groups.sql").write_text(GROUPS)
    (tmp_path / "command.py").write_text("from penstock.cli import main\n\nmain()\n")
    command = retried("python command.py sql groups.sql").replace("if python", f"if {python}")

    env = shell_environment(tmp_path / "cache")

    said = run("bash", "-c", command, cwd=tmp_path, env=env)
    assert said.splitlines()[-1].endswith("[NULL, 10, 55]")

    assert "prepared: " in run(python, "command.py", "sql", "--prepare", cwd=tmp_path, env=env)
    loaded = tmp_path / "loaded.txt"
    env = {**env, "SPARK_SUBMIT_OPTS": f"-Xlog:class+load:file={loaded}"}
    said = run("bash", "-c", command, cwd=tmp_path, env=env)
    assert said.splitlines()[-1].endswith("[NULL, 10, 55]")
    assert (
        "org.apache.spark.sql.execution.python.MapInArrowExec source: shared objects file"
        in loaded.read_text()
    )


def check_extras(core: Path, wheel: Path, folder: Path, extras: Iterable[str]) -> Path:
    """Install extras in a copy of the environment: each one brings what it is for. Return its Python."""
    python = folder / "venv" / "bin" / "python"
    shutil.copytree(core, folder / "venv", symlinks=True, copy_function=os.link)
    for extra in extras:
        works = f"{EXTRAS[extra]}; print('works')"
        lacking = subprocess.run([python, "-c", works], capture_output=True, cwd=folder, check=False)
        assert b"works" not in lacking.stdout, f"what the extra {extra} is for works without it"
        run(python, *INSTALL, f"{wheel}[{extra}]", cwd=folder)
        assert run(python, "-c", works, cwd=folder) == "works\n"
    return python


def test_each_extra_brings_what_it_is_for(core: Path, wheel: Path, tmp_path: Path) -> None:
    extras = [extra for extra in EXTRAS if extra not in NEEDS_OF_THE_SYSTEM]
    python = check_extras(core, wheel, tmp_path, extras)
    told = run(python, *INSTALL, "--dry-run", f"{wheel}[all]", cwd=tmp_path)
    assert re.findall(r"Would install (.*)", told) in ([], ["penstock-0.1.0"]), "`all` is all of them"
    shown = run(python, "-c", "from penstock.cli import main; main()", "extras", cwd=tmp_path)
    assert re.findall(r"^  (\w+) +no ", shown, re.MULTILINE) == [*NEEDS_OF_THE_SYSTEM]


@pytest.mark.parametrize(("extra", "program"), NEEDS_OF_THE_SYSTEM.items())
def test_an_extra_that_compiles_against_the_system_brings_what_it_is_for(
    core: Path, wheel: Path, tmp_path: Path, extra: str, program: str
) -> None:
    if shutil.which(program) is None:
        pytest.skip(
            f"this machine lacks {program}, which comes with the library that {extra} compiles against"
        )
    check_extras(core, wheel, tmp_path, [extra])


@pytest.mark.promise
def test_each_extra_is_tried() -> None:
    assert set(EXTRAS_OF_PENSTOCK) == set(EXTRAS)
