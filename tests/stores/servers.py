"""Start a store on free ports, and end it with the block. Runs in tests only.

- S3: a small server of ours (`tests/s3_server.py`).
- Azure: Azurite of Microsoft, from npm (`make stores`).
- GCS: gcp-storage-emulator from PyPI (a dependency of developers), or fake-gcs-server if it is on the PATH.
- HDFS: a real NameNode and DataNode, if `CLASSPATH` and `libhdfs.so` are where pyarrow looks for them.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow.fs

from penstock.devbroker.cluster import free_ports
from tests.s3_server import running_s3
from tests.waiting import PATIENCE_S, wait_until

_AZURITE = Path(__file__).parent / "node_modules/.bin/azurite-blob"
_ACCOUNT = "devstoreaccount1"
# Azurite's own account. Its key is in its documentation.
_AZURITES_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@dataclass(frozen=True)
class Store:
    """A store that runs.

    Attributes:
        uri: gives the URI of a folder. Its first part is a bucket that is there.
        secrets: of that URI, as it has them. No message may show one.
        is_uploading: whether a part of an upload that has not ended is there, if the store tells.
        refused_uri: the same with a wrong secret, which the store refuses; None if it takes all.
    """

    uri: Callable[[str], str]
    secrets: Sequence[str] = ()
    is_uploading: Callable[[], bool] = lambda: True
    refused_uri: Callable[[str], str] | None = None


@contextmanager
def s3() -> Iterator[Store]:
    """Run the small S3 of the tests."""
    with running_s3() as running:
        yield Store(
            lambda path: running.uri(path, "penstock:hidden"),
            ("hidden",),
            lambda: any(running.uploads.values()),
        )


def azure_is_missing() -> str | None:
    """Return what is missing for `azure`."""
    if shutil.which("node") and (_AZURITE.exists() or shutil.which("azurite-blob")):
        return None
    return "no Azurite here (npm install --prefix tests/stores)"


@contextmanager
def azure() -> Iterator[Store]:
    """Run Azurite. It has no hierarchical namespace."""
    (port,) = free_ports(1)
    program = str(_AZURITE) if _AZURITE.exists() else "azurite-blob"
    arguments = ["--inMemoryPersistence", "--silent", "--disableTelemetry", "--skipApiVersionCheck"]
    token = _shared_access()
    host = f"127.0.0.1:{port}"

    def uri(path: str, token: str = token) -> str:
        return f"abfs://{_ACCOUNT}@{host}/{path}?enable_tls=false&{token}"

    with _server([program, "--blobPort", str(port), *arguments], port):
        file_system, root = pyarrow.fs.FileSystem.from_uri(uri("bucket"))
        file_system.create_dir(root)
        refused = token.replace("sig=", "sig=aa")
        secret = token.rpartition("sig=")[2][:20].partition("%")[0]
        yield Store(uri, (secret,), refused_uri=lambda path: uri(path, refused))


def _shared_access() -> str:
    """Return the token of a shared access signature for all that the account has, as Azure computes it."""
    version, end = "2021-12-02", "2099-01-01T00:00:00Z"
    signed = "\n".join([_ACCOUNT, "rwdlac", "b", "sco", "", end, "", "https,http", version, "", ""])
    key = base64.b64decode(_AZURITES_KEY)
    signature = base64.b64encode(hmac.new(key, signed.encode(), hashlib.sha256).digest()).decode()
    return (
        f"sv={version}&ss=b&srt=sco&sp=rwdlac&se={quote(end, safe='')}&spr=https,http"
        f"&sig={quote(signature, safe='')}"
    )


def gcs_is_missing() -> str | None:
    """Return what is missing for `gcs`."""
    if shutil.which("fake-gcs-server") or find_spec("gcp_storage_emulator"):
        return None
    return "no gcp-storage-emulator and no fake-gcs-server here"


@contextmanager
def gcs() -> Iterator[Store]:
    """Run an emulator of Google Cloud Storage."""
    (port,) = free_ports(1)
    host = f"127.0.0.1:{port}"
    if shutil.which("fake-gcs-server"):
        arguments = ["-host", "127.0.0.1", "-port", str(port), "-public-host", host]
        command = ["fake-gcs-server", "-backend", "memory", "-scheme", "http", *arguments]
    else:
        arguments = ["--host", "127.0.0.1", "--port", str(port), "--in-memory"]
        command = [sys.executable, "-m", "gcp_storage_emulator", "start", *arguments]
    with _server(command, port):
        options = {"anonymous": True, "scheme": "http", "endpoint_override": host, "project_id": "tests"}
        pyarrow.fs.GcsFileSystem(**options).create_dir("bucket")
        yield Store(lambda path: f"gs://anonymous@{path}?scheme=http&endpoint_override={host}")


def hdfs_is_missing() -> str | None:
    """Return what is missing for `hdfs`."""
    if os.environ.get("CLASSPATH") and {"ARROW_LIBHDFS_DIR", "HADOOP_HOME"} & {*os.environ}:
        return None
    return "no CLASSPATH of Hadoop, or no ARROW_LIBHDFS_DIR or HADOOP_HOME, with libhdfs.so"


@contextmanager
def hdfs(folder: Path) -> Iterator[Store]:
    """Run a NameNode and a DataNode of Hadoop with their files in a folder."""
    rpc, *others = free_ports(5)
    _write_sites(folder, rpc, others)
    name = "org.apache.hadoop.hdfs.server"
    environment = {**os.environ, "CLASSPATH": f"{folder}:{os.environ['CLASSPATH']}"}
    java = ["java", "-Xmx512m", "--add-opens", "java.base/java.lang=ALL-UNNAMED"]
    subprocess.run(
        [*java, f"{name}.namenode.NameNode", "-format", "-nonInteractive"],
        env=environment,
        capture_output=True,
        timeout=PATIENCE_S,
        check=True,
    )
    with (
        _server([*java, f"{name}.namenode.NameNode"], rpc, environment),
        _server([*java, f"{name}.datanode.DataNode"], others[1], environment),
    ):
        file_system, root = pyarrow.fs.FileSystem.from_uri(f"hdfs://127.0.0.1:{rpc}/probe")

        def takes_files() -> bool:
            with contextlib.suppress(OSError), file_system.open_output_stream(root) as sink:
                sink.write(b"probe")
            return bool(file_system.get_file_info(root).size == len(b"probe"))

        wait_until(takes_files, "the DataNode takes files")
        yield Store(lambda path: f"hdfs://127.0.0.1:{rpc}/{path}?user=penstock")


def _write_sites(folder: Path, rpc: int, others: Sequence[int]) -> None:
    addresses = ["namenode.http-address", "datanode.address", "datanode.http.address", "datanode.ipc.address"]
    site = {
        "fs.defaultFS": f"hdfs://127.0.0.1:{rpc}",
        "dfs.namenode.name.dir": f"file://{folder}/name",
        "dfs.datanode.data.dir": f"file://{folder}/data",
        "dfs.replication": "1",
        "dfs.permissions.enabled": "false",
        **{f"dfs.{name}": f"127.0.0.1:{port}" for name, port in zip(addresses, others, strict=True)},
    }
    properties = (f"<property><name>{k}</name><value>{v}</value></property>" for k, v in site.items())
    text = f"<configuration>{''.join(properties)}</configuration>"
    for name in ("core-site.xml", "hdfs-site.xml"):
        (folder / name).write_text(text)


@contextmanager
def _server(command: list[str], port: int, environment: dict[str, str] | None = None) -> Iterator[None]:
    """Run a program that listens on a port. It is killed with the block: nothing of it is kept."""
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, env=environment, **quiet) as process:
        try:

            def listens() -> bool:
                assert process.poll() is None, f"{command[0]} has ended with {process.returncode}"
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    return True
                return False

            wait_until(listens, f"{command} listens on {port}")
            yield
        finally:
            process.kill()


STORES: dict[str, tuple[Callable[[Path], AbstractContextManager[Store]], Callable[[], str | None]]] = {
    "s3": (lambda _: s3(), lambda: None),
    "azure": (lambda _: azure(), azure_is_missing),
    "gcs": (lambda _: gcs(), gcs_is_missing),
    "hdfs": (hdfs, hdfs_is_missing),
}
"""The stores by name: what runs one with a folder of its own, and what says what is missing for it."""

SLOW_STORES = ("azure", "hdfs")
"""Each takes a minute. The client of Azure waits for seconds after some answers of Azurite."""
