"""A Kerberos KDC of its own for a test: one realm, principals with keytabs, on a free port.

Runs in tests only, by the programs of MIT Kerberos. `missing()` says which are not installed.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.devbroker.cluster import free_ports
from tests.waiting import PATIENCE_S, wait_until

REALM = "PENSTOCK.TEST"
KAFKA_PRINCIPAL = "kafka/127.0.0.1"
_PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
_KRB5_CONF = """
[libdefaults]
    default_realm = {realm}
    dns_lookup_kdc = false
    dns_lookup_realm = false
    dns_canonicalize_hostname = false
    rdns = false
    udp_preference_limit = 1
    default_ccache_name = FILE:{folder}/default-cache
[realms]
    {realm} = {{
        kdc = 127.0.0.1:{port}
    }}
"""
_KDC_CONF = """
[kdcdefaults]
    kdc_listen = ""
    kdc_tcp_listen = 127.0.0.1:{port}
[realms]
    {realm} = {{
        database_name = {folder}/principals
        key_stash_file = {folder}/stash
        supported_enctypes = aes256-cts-hmac-sha1-96:normal
    }}
[logging]
    default = FILE:{folder}/kdc.log
"""


def missing() -> str:
    """What a test with Kerberos needs and this machine lacks; empty if it has all."""
    lacking = [name for name in _PROGRAMS if shutil.which(name, path=_PATH) is None]
    if importlib.util.find_spec("gssapi") is None:
        lacking.append("the package gssapi")
    return ", ".join(lacking)


class Kdc:
    """A realm with a KDC."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (self.port,) = free_ports(1)
        self.krb5_conf = folder / "krb5.conf"
        values = {"folder": folder, "port": self.port, "realm": REALM}
        self.krb5_conf.write_text(_KRB5_CONF.format(**values))
        (folder / "kdc.conf").write_text(_KDC_CONF.format(**values))
        self.environment = {
            "KRB5_CONFIG": str(self.krb5_conf),
            "KRB5_KDC_PROFILE": str(folder / "kdc.conf"),
        }
        self._process: subprocess.Popen[bytes] | None = None
        self.run("kdb5_util", "create", "-r", REALM, "-s", "-P", "master-of-a-test")

    def run(self, program: str, *arguments: str) -> None:
        """Run a program of Kerberos on this realm."""
        command = [shutil.which(program, path=_PATH) or program, *arguments]
        environment = {**os.environ, **self.environment}
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"

    def keytab(self, principal: str, name: str = "") -> Path:
        """Make a principal if need be, and return a keytab with new keys of it."""
        path = self.folder / f"{name or principal.replace('/', '-')}.keytab"
        if not path.exists() and not name:
            self.run("kadmin.local", "-r", REALM, "addprinc", "-randkey", principal)
        self.run("kadmin.local", "-r", REALM, "ktadd", "-k", str(path), principal)
        return path

    def ticket_cache(self, principal: str, keytab: Path) -> Path:
        """Log in as `kinit` does, and return the cache."""
        path = self.folder / f"cache-of-{principal}"
        self.run("kinit", "-k", "-t", str(keytab), "-c", f"FILE:{path}", principal)
        return path

    def start(self) -> None:
        command = [shutil.which("krb5kdc", path=_PATH) or "krb5kdc", "-n", "-r", REALM]
        self._process = subprocess.Popen(
            command,
            env={**os.environ, **self.environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(self._answers, "the KDC to answer")

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "kdc.log").read_text()
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1.0).close()
        except OSError:
            return False
        return True

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE_S)
            self._process = None


@contextmanager
def running_kdc(folder: Path) -> Iterator[Kdc]:
    """Run a KDC until the block ends."""
    kdc = Kdc(folder)
    kdc.start()
    try:
        yield kdc
    finally:
        kdc.stop()
