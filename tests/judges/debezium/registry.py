"""Apicurio Registry and its Avro converter for Kafka Connect, which a judge lets Debezium use.

Both come from the Maven repository. penstock reads the schemas by the registry's API of Confluent's registry,
as a user's query does. Invariants: the files are the pinned ones; the registry ends with its context, and its
schemas, which it keeps in memory, end with it.
"""

from __future__ import annotations

import subprocess
import tarfile
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.devbroker.cluster import free_ports
from penstock.devbroker.ivy import Coordinate, find_ivy
from penstock.devbroker.jars import JarSet, ensure_jars, sha256_of
from penstock.devbroker.java import find_java
from penstock.devbroker.paths import cache_folder, locked
from tests.waiting import wait_until

REGISTRY_VERSION = "2.6.13.Final"
_START_S = 300.0
_FETCH_S = 900.0
_APP = "apicurio-registry-app"
_ARCHIVE_SHA256 = "3cda1b34aa020fb4ac4dd6a66018d757e81e437f97e20a1f92d366b70091c6ba"
_DESCRIPTION = f"""<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="penstock" module="judge"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="io.apicurio" name="{_APP}" rev="{REGISTRY_VERSION}" conf="default" transitive="false">
      <artifact name="{_APP}" type="tar.gz" ext="tar.gz" m:classifier="all"/>
    </dependency>
  </dependencies>
</ivy-module>
"""
_CONVERTER_JARS = JarSet(
    name=f"apicurio-registry-utils-converter-{REGISTRY_VERSION}",
    title=f"the converters of Apicurio Registry {REGISTRY_VERSION}",
    coordinates=(
        Coordinate("io.apicurio", "apicurio-registry-utils-converter", REGISTRY_VERSION, is_transitive=True),
    ),
    pins_file=str(Path(__file__).parent / "apicurio.sha256"),
)


class Registry:
    """A registry that runs.

    Args:
        server: its address.
    """

    def __init__(self, server: str) -> None:
        self.url = f"{server}/apis/ccompat/v7"
        """For clients of Confluent's registry, such as penstock."""
        self._own_url = f"{server}/apis/registry/v2"

    def converter(self, of: str) -> dict[str, str]:
        """Return the settings of a worker of Kafka Connect, as Debezium's manual has them.

        Args:
            of: `key` or `value`.
        """
        name = f"{of}.converter"
        return {
            name: "io.apicurio.registry.utils.converter.AvroConverter",
            f"{name}.apicurio.registry.url": self._own_url,
            f"{name}.apicurio.registry.auto-register": "true",
            f"{name}.apicurio.registry.find-latest": "true",
            # Five bytes before the message, as Confluent's converter writes them.
            f"{name}.apicurio.registry.as-confluent": "true",
            f"{name}.apicurio.registry.headers.enabled": "false",
            f"{name}.apicurio.registry.use-id": "contentId",
        }

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=10) as answer:  # noqa: S310 - a server of this judge
                return bool(answer.status == 200)
        except OSError:
            return False


def plugin_path(folder: Path) -> Path:
    """Return a folder of plugins for Kafka Connect, which loads the converter apart from Debezium's jars.

    Args:
        folder: where to make it.
    """
    jars = ensure_jars(_CONVERTER_JARS)
    plugins = folder / "plugins"
    plugins.mkdir()
    (plugins / "apicurio").symlink_to(jars[0].parent, target_is_directory=True)
    return plugins


@contextmanager
def running_registry(folder: Path) -> Iterator[Registry]:
    """Run a registry until the block ends.

    Args:
        folder: for its log.
    """
    (port,) = free_ports(1)
    runner = _program() / f"{_APP}-{REGISTRY_VERSION}-runner.jar"
    settings = {"quarkus.http.host": "127.0.0.1", "quarkus.http.port": port}
    given = [f"-D{name}={value}" for name, value in settings.items()]
    command = [str(find_java()), "-Xmx256m", "-XX:TieredStopAtLevel=1", *given, "-jar", str(runner)]
    log_file = folder / "registry.log"
    with (
        log_file.open("ab") as log,
        subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT) as process,
    ):
        try:
            registry = Registry(f"http://127.0.0.1:{port}")
            wait_until(
                lambda: registry.is_ready() or process.poll() is not None, "the registry", timeout_s=_START_S
            )
            if process.poll() is not None:
                raise AssertionError(
                    f"the registry has ended:\n{log_file.read_text(errors='replace')[-4_000:]}"
                )
            yield registry
        finally:
            process.kill()


def _program() -> Path:
    """Return the folder of the registry's program. Fetches it once for this user."""
    folder = cache_folder() / "jars" / f"{_APP}-{REGISTRY_VERSION}"
    with locked(folder.with_suffix(".lock"), timeout_s=_FETCH_S, purpose="fetching the registry"):
        if not folder.exists():
            with tempfile.TemporaryDirectory(prefix=f".{_APP}-", dir=folder.parent) as name:
                _fetch(Path(name), Path(name) / "program")
                (Path(name) / "program").rename(folder)
    return folder


def _fetch(work: Path, into: Path) -> None:
    description = work / "ivy.xml"
    description.write_text(_DESCRIPTION, encoding="utf-8")
    home = f"-Divy.default.ivy.user.dir={work}"
    command = [str(find_java()), home, "-jar", str(find_ivy()), "-ivy", str(description)]
    command += ["-confs", "default", "-types", "tar.gz", "-cache", str(work / "cache")]
    command += ["-retrieve", f"{work}/[artifact].[ext]"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=_FETCH_S)
    archive = work / f"{_APP}.tar.gz"
    found = sha256_of(archive)
    if found != _ARCHIVE_SHA256:
        raise AssertionError(f"the archive of {_APP} {REGISTRY_VERSION} has SHA-256 {found}")
    with tarfile.open(archive) as opened:
        opened.extractall(into, filter="data")
