"""The wheel, installed with only its declared dependencies, asks Kafka; with `spark` it reads and writes.

One build serves all tests of this file, and one environment each with the base and with PySpark, which is
450 MB. Tests that install an extra link the files of an environment into one of their own.
"""

from __future__ import annotations

import hashlib
import json
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
from tests import judge, quick_jvm
from tests.fix_broker import MakeTopic
from tests.package.readme import README, pattern_of, quick_start
from tests.package.release import NOT_OF_A_CHECKOUT, check_modules

pytestmark = [
    pytest.mark.timeout(900),  # downloads and compiles
    pytest.mark.xdist_group("package"),
    pytest.mark.long,
]

MARK = "===== step"
EXTRAS = {  # in this order, because a later extra installs what an earlier one tests
    "spark": "import pyspark_penstock; from pyspark.sql.pandas.utils import require_minimum_pandas_version; "
    "require_minimum_pandas_version()",
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
SPARKS_LIMIT = "Python worker failed to connect back|CANNOT_OPEN_SOCKET.*timed out"
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
    [built] = checkout.glob("pyspark_penstock-*.whl")
    return built


@pytest.fixture(scope="module")
def core(wheel: Path) -> Path:
    """A virtual environment with the wheel and what it declares, as docs/supply-chain.md installs them.

    It has no extra, and no PySpark either.
    """
    folder, lock = wheel.parent / ".core", README.parent / "requirements.lock"
    python = folder / "bin" / "python"
    run(_base_python(), "-m", "venv", folder, cwd=wheel.parent)
    run(python, *INSTALL, "--require-hashes", "--requirement", lock, cwd=wheel.parent)
    run(python, *INSTALL, "--no-deps", wheel, cwd=wheel.parent)
    run(python, "-m", "pip", "check", cwd=wheel.parent)
    return folder


@pytest.fixture(scope="module")
def with_spark(core: Path, wheel: Path) -> Path:
    """The same with PySpark."""
    return with_extra(core, wheel.parent / ".spark", wheel, "spark")


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
def environment(with_spark: Path, wheel: Path) -> Path:
    """A virtual environment with the extras of the quick start, in its folder."""
    return with_extra(with_spark, wheel.parent / ".venv", wheel, "spark,cli")


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
    again = f"grep -qE '{SPARKS_LIMIT}' errors.txt"
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
def test_the_wheel_lists_what_it_holds_and_needs(wheel: Path) -> None:
    archive = ZipFile(wheel)
    [sbom] = [each for each in archive.namelist() if re.search(r"\.dist-info/sboms/[^/]+\.cdx\.json$", each)]
    listed = {each["name"]: each for each in json.loads(archive.read(sbom))["components"]}
    [metadata] = [each for each in archive.namelist() if each.endswith(".dist-info/METADATA")]
    required = re.findall(r"^Requires-Dist: ([\w-]+)[^;\n]*$", archive.read(metadata).decode(), re.MULTILINE)
    assert set(listed) == {*required, "uplot"}
    uplot = archive.read("penstock/observe/serve/page/uplot.js")
    assert listed["uplot"]["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(uplot).hexdigest()}]
    of_others = (".jar", ".dll", ".dylib", ".min.js", ".class")
    assert [each for each in archive.namelist() if each.endswith(of_others) or ".libs/" in each] == []
    licences = {each.rpartition("/")[2] for each in archive.namelist() if ".dist-info/licenses/" in each}
    assert licences == {"LICENSE", "NOTICE", "uplot.LICENSE"}


@pytest.mark.promise
def test_the_wheel_serves_all_versions_of_python(wheel: Path) -> None:
    check_modules(wheel)


@pytest.mark.promise
def test_the_quick_start_runs_from_top_to_bottom(environment: Path, wheel: Path, tmp_path: Path) -> None:
    [port] = free_ports(1)
    replaced = {
        "9092": str(port),
        "/tmp/orders-copy": str(tmp_path / "checkpoint"),  # noqa: S108 - the text of the page
        # Made once for all tests of this file, and from the wheel: compiling twice would cost a minute.
        "python3 -m venv .venv": "true",
        "pip install '.[spark,cli]'": f"pip install '{wheel}[spark,cli]'",
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


THIN_CLIENT = "4.1.3"
NO_SPARK = """
import penstock
try:
    penstock.write_batch
except ImportError as error:
    print(error)
"""
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


def packages_of(python: Path, folder: Path) -> dict[str, str]:
    """Return the versions of the installed distributions."""
    found = json.loads(run(python, "-m", "pip", "list", "--format=json", cwd=folder))
    return {each["name"].lower(): each["version"] for each in found}


def test_with_pyspark_alone_it_reads_and_writes(
    with_spark: Path, broker: DevCluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """An executor gets neither typer nor rich."""
    python = with_spark / "bin" / "python"
    assert not {"typer", "rich", "click", "sqlglot"} & packages_of(python, tmp_path).keys()
    tmp_path.joinpath("job.py").write_text(READ_AND_WRITE)
    env = {**shell_environment(tmp_path / "cache"), "PYSPARK_PYTHON": str(python)}

    job = retried(f"python job.py {broker.bootstrap_servers} {make_topic(1)}")
    run("bash", "-c", job.replace("if python", f"if {python}"), cwd=tmp_path, env=env)


def test_the_core_says_what_spark_and_commands_need(core: Path, tmp_path: Path) -> None:
    python = core / "bin" / "python"
    packages = packages_of(python, tmp_path)
    assert packages.keys() >= {"pyspark-penstock", "kafka-python", "pyarrow", "cramjam"}
    assert not {"pyspark", "pandas", "py4j", "typer", "rich", "penstock"} & packages.keys()
    lacks = run(python, "-c", NO_SPARK, cwd=tmp_path)
    assert lacks.startswith(f"penstock needs PySpark 4.0.1 or newer for this, and {python} has none. ")

    command = [str(core / "bin" / "penstock"), "topics", "list"]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == (
        f"penstock: This command needs the extra 'cli' of penstock: {python} lacks typer and rich. Run "
        "pip install 'pyspark-penstock[cli]'. `penstock extras` lists all extras.\n"
    )
    shown = run(core / "bin" / "penstock", "extras", cwd=tmp_path)
    assert set(re.findall(r"^  (\w+) +no ", shown, re.MULTILINE)) == set(EXTRAS)


@pytest.mark.parametrize(
    ("older", "says"),
    [
        ("pyspark==3.5.6", "found PySpark 3.5.6 in "),
        ("pandas==2.1.4", ""),
    ],
    ids=["PySpark", "pandas"],
)
def test_what_a_platform_brings_stays_as_it_is(older: str, says: str, wheel: Path, tmp_path: Path) -> None:
    """Pip looks at the metadata alone. The package here is only as much of it as penstock looks at."""
    python = tmp_path / "venv" / "bin" / "python"
    run(_base_python(), "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    name, _, version = older.partition("==")
    stand_in(tmp_path / "venv", name, version)
    run(python, *INSTALL, wheel, cwd=tmp_path)
    assert packages_of(python, tmp_path)[name] == version
    said = run(python, "-c", NO_SPARK, cwd=tmp_path)
    assert says in said


def stand_in(environment: Path, name: str, version: str) -> None:
    [site] = environment.glob("lib/python*/site-packages")
    info = site / f"{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "RECORD").touch()
    (site / name / "sql").mkdir(parents=True)
    for path in (site / name, site / name / "sql"):
        (path / "__init__.py").write_text(f"__version__ = {version!r}\n")


def test_the_thin_client_of_spark_connect_needs_no_spark(
    wheel: Path, connect_url: str, broker: DevCluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """It has a package `pyspark` without Java's parts. It is older than the server, and stays so."""
    python = tmp_path / "venv" / "bin" / "python"
    run(_base_python(), "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    run(python, *INSTALL, f"pyspark-client=={THIN_CLIENT}", cwd=tmp_path)
    run(python, *INSTALL, wheel, cwd=tmp_path)
    packages = packages_of(python, tmp_path)
    assert (packages["pyspark-client"], packages.get("py4j")) == (THIN_CLIENT, None)
    source, target = make_topic(2), make_topic(2)
    judge.produce(broker.bootstrap_servers, source, b"one", b"two", b"three")
    program = Path(__file__).with_name("thin_client.py")
    where = (connect_url, broker.bootstrap_servers, source, target)
    env = shell_environment(tmp_path / "cache")
    said = run(python, program, *where, cwd=tmp_path, env=env)
    assert said == f"{THIN_CLIENT} [(3, 2), (5, 1)]\n"
    written = judge.consume_all(broker.bootstrap_servers, target)
    assert sorted(each.value or b"" for each in written) == [b"3 2", b"5 1"]


GROUPS = """
CREATE TABLE made (id BIGINT, shop STRING) WITH (
  'connector' = 'datagen', 'number-of-rows' = '10', 'fields.id.kind' = 'sequence', 'fields.id.start' = '1',
  'fields.id.end' = '10', 'fields.shop.length' = '1', 'fields.shop.null-rate' = '1'
);
SELECT shop, COUNT(*) AS n, SUM(id) AS total FROM made GROUP BY shop;
"""


def test_a_script_of_sql_keeps_groups_without_an_activated_environment(
    with_spark: Path, wheel: Path, tmp_path: Path
) -> None:
    python = with_extra(with_spark, tmp_path / "venv", wheel, "sql") / "bin" / "python"
    tmp_path.joinpath("groups.sql").write_text(GROUPS)
    (tmp_path / "command.py").write_text("from penstock.cli import main\n\nmain()\n")
    command = retried("python command.py sql groups.sql").replace("if python", f"if {python}")

    env = shell_environment(tmp_path / "cache")

    said = run("bash", "-c", command, cwd=tmp_path, env=env)
    assert said.splitlines()[-1].endswith("[NULL, 10, 55]")

    prepare = retried("python command.py sql --prepare").replace("if python", f"if {python}")
    assert "prepared: " in run("bash", "-c", prepare, cwd=tmp_path, env=env)
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
        # As messages say. It keeps the wheel that is installed, so no index is asked for penstock.
        run(python, *INSTALL, f"pyspark-penstock[{extra}]", cwd=folder)
        assert run(python, "-c", works, cwd=folder) == "works\n"
    return python


def test_each_extra_brings_what_it_is_for(core: Path, wheel: Path, tmp_path: Path) -> None:
    extras = [extra for extra in EXTRAS if extra not in NEEDS_OF_THE_SYSTEM]
    python = check_extras(core, wheel, tmp_path, extras)
    told = run(python, *INSTALL, "--dry-run", f"{wheel}[all]", cwd=tmp_path)
    assert re.findall(r"Would install (.*)", told) in ([], ["pyspark-penstock-0.1.0"]), "`all` is all of them"
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
