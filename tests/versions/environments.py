"""Environments with one PySpark and penstock, and the jars of older Kafkas and of Spark's connector.

Those of `make versions` have penstock's wheel and what it declares. They stay, and get each new wheel. The
wheel never replaces the PySpark of an environment. Those of `make older` see this checkout and its packages.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

from penstock.devbroker.ivy import Coordinate
from penstock.devbroker.jars import KAFKA_VERSION, JarSet, ensure_jars
from tests.environments import new_environment, pip
from tests.jars import spark_kafka_connector_jars

ROOT = Path(__file__).parents[2]
OWN_NAMES = ("pyspark-penstock", "penstock")
_PINS = ROOT / "tests" / "data" / "jars"


class NoIndexError(Exception):
    """No index of packages can be reached, or it does not give what is needed in time."""


def build_wheel(folder: Path) -> Path:
    """Return the wheel of this checkout."""
    with tempfile.TemporaryDirectory() as made:
        command = [sys.executable, "-m", "pip", "wheel", str(ROOT), "--no-deps", "--quiet", "-w", made]
        subprocess.run([*command, "--no-build-isolation"], check=True)
        [wheel] = Path(made).glob("*.whl")
        folder.mkdir(parents=True, exist_ok=True)
        return Path(shutil.move(wheel, folder / wheel.name))  # perhaps another file system


def environment(folder: Path, version: str, wheel: Path, *more: str, base: str = sys.executable) -> Path:
    """Return the Python of the environment with this PySpark and the wheel; make it if it is missing.

    Args:
        folder: of the environment.
        version: of PySpark.
        wheel: of penstock.
        more: packages that a judge needs there.
        base: the Python that a new environment gets.

    Raises:
        NoIndexError: it is missing, and no index of packages can be reached.
        CalledProcessError: pip reaches an index and cannot install the wheel beside this PySpark.
    """
    python = folder / "bin" / "python"
    if _pyspark_of(python) != version:
        check_index()
        _make(folder, version, wheel, base)
    installed, digest = folder / "penstock.sha256", hashlib.sha256(wheel.read_bytes()).hexdigest()
    if not installed.exists() or installed.read_text() != digest:
        installed.unlink(missing_ok=True)
        pip(python, "uninstall", "--yes", *OWN_NAMES)
        pip(python, "install", "--no-deps", str(wheel))
        installed.write_text(digest)
    if more:
        pip(python, "install", *more)
    return _checked(python, version)


def cheap_environment(folder: Path, version: str, limit_s: float) -> Path:
    """Return the Python of an environment where this PySpark is in front of what this Python has.

    It sees this checkout and its packages, so it costs the download of PySpark and nothing else. It does not
    show whether the wheel is right.

    Args:
        folder: of the environment.
        version: of PySpark.
        limit_s: how long making it may take.

    Raises:
        NoIndexError: it is missing, and no index of packages can be reached, or it takes too long.
    """
    python = folder / "bin" / "python"
    if _pyspark_of(python) != version:
        check_index()
        shutil.rmtree(folder, ignore_errors=True)
        new_environment(folder, has_pip=False)
        what = ("--python", str(python), "install", "--no-compile", f"pyspark=={version}")
        _install(Path(sys.executable), version, limit_s, *what)
        [site] = folder.glob("lib/python*/site-packages")
        ours = sysconfig.get_path("purelib")
        # PySpark stays in front of it. A link to this checkout is followed.
        (site / "checkout.pth").write_text(f"import site; site.addsitedir({ours!r})\n")
    return _checked(python, version)


def _checked(python: Path, version: str) -> Path:
    found = _pyspark_of(python)
    assert found == version, f"expected PySpark {version}, got {found}"
    return python


def _pyspark_of(python: Path) -> str:
    """Return the version of PySpark; "" if there is none."""
    if not python.exists():
        return ""
    program = "import importlib.metadata as m; print(m.version('pyspark'))"
    done = subprocess.run([str(python), "-c", program], check=False, capture_output=True, text=True)
    return done.stdout.strip()


def _make(folder: Path, version: str, wheel: Path, base: str) -> None:
    wanted = [f"pyspark=={version}", f"{wheel}[sql,cli,connect]"]
    if version.startswith("3."):  # the extras with Spark need PySpark 4
        wanted = [f"pyspark=={version}", str(wheel), "pandas>=2.2,<3"]
    shutil.rmtree(folder, ignore_errors=True)
    _install(new_environment(folder, base), version, None, "install", *wanted)


def _install(pip_of: Path, version: str, limit_s: float | None, *what: str) -> None:
    try:
        pip(pip_of, *what, limit_s=limit_s)
    except subprocess.TimeoutExpired as error:
        raise NoIndexError(f"PySpark {version} was not installed within {error.timeout:.0f} s.") from error
    except subprocess.CalledProcessError:
        check_index()
        raise  # the wheel and this PySpark do not fit: that is never skipped


def check_index() -> None:
    """Check that an index of packages can be reached, by a small package that PySpark needs.

    Raises:
        NoIndexError: it cannot.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "--retries", "1", "--timeout", "15", "download", "--quiet"]
        done = subprocess.run(
            [*command, "--no-deps", "--no-cache-dir", "-d", folder, "py4j"], check=False, capture_output=True
        )
    if done.returncode:
        raise NoIndexError(f"pip could not download py4j: {done.stderr.decode().strip()[-300:]}")


def connector_path(version: str) -> dict[str, str]:
    """Return the variables that bring Spark's own connector to a PySpark, if it was built for its Scala."""
    if version.startswith("3."):
        return {}
    return {"SPARK_DIST_CLASSPATH": os.pathsep.join(map(str, spark_kafka_connector_jars(version)))}


@contextlib.contextmanager
def kafka_home(version: str) -> Iterator[None]:
    """Let the brokers that start within have this version of Kafka."""
    if version == KAFKA_VERSION:
        yield
        return
    jars = ensure_jars(
        JarSet(
            name=f"kafka-{version}",
            title=f"Apache Kafka {version}",
            coordinates=(
                Coordinate("org.apache.kafka", "kafka_2.13", version, is_transitive=True),
                Coordinate("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4", is_transitive=True),
            ),
            pins_file=str(_PINS / f"kafka_{version}.sha256"),
        )
    )
    before = os.environ.get("KAFKA_HOME")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "libs").symlink_to(jars[0].parent)
        os.environ["KAFKA_HOME"] = folder
        try:
            yield
        finally:
            os.environ.pop("KAFKA_HOME")
            if before is not None:
                os.environ["KAFKA_HOME"] = before
