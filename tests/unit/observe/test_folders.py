"""Checkpoints in stores that pyarrow reads."""

from __future__ import annotations

import os
from email.utils import formatdate
from pathlib import Path
from unittest.mock import patch
from urllib.parse import parse_qs, unquote, urlsplit

import pyarrow as pa
import pytest

from penstock.errors import CheckpointError
from penstock.observe import _folders, checkpoint
from penstock.observe.checkpoint import read_checkpoint
from penstock.security.location import without_secrets, without_secrets_in
from tests.checkpoint_files import write_checkpoint
from tests.http_server import QuietHandler, serving


def s3_of(root: Path) -> type[QuietHandler]:
    """A server that answers the requests of S3 that a reader makes. `root` holds the buckets."""

    class S3(QuietHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = parse_qs(parts.query)
            file = root / unquote(parts.path).lstrip("/")
            if "list-type" in query:
                self.send(200, self._listing(file, query.get("prefix", [""])[0]), "application/xml")
            elif file.is_file():
                self.send(200, file.read_bytes(), "binary/octet-stream")
            else:
                self.send(404, b"")

        def do_HEAD(self) -> None:
            file = root / unquote(urlsplit(self.path).path).lstrip("/")
            self.send_response(200 if file.is_file() else 404)
            self.send_header("Content-Length", str(file.stat().st_size if file.is_file() else 0))
            self.send_header("Last-Modified", formatdate(usegmt=True))
            self.end_headers()

        def _listing(self, bucket: Path, prefix: str) -> bytes:
            keys = sorted(str(file.relative_to(bucket)) for file in bucket.rglob("*") if file.is_file())
            contents = "".join(
                f"<Contents><Key>{key}</Key><LastModified>2026-11-22T15:04:05.000Z</LastModified>"
                f"<Size>{(bucket / key).stat().st_size}</Size></Contents>"
                for key in keys
                if key.startswith(prefix)
            )
            return f"<ListBucketResult><IsTruncated>false</IsTruncated>{contents}</ListBucketResult>".encode()

    return S3


@pytest.fixture(autouse=True)
def _nothing_kept() -> None:
    _folders._remote.cache_clear()


def test_a_uri_is_read_as_a_path_is(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "c", {"t": {"0": 1}}, {"t": {"0": 5}})
    assert read_checkpoint(f"file://{folder}") == read_checkpoint(folder) == read_checkpoint(str(folder))
    assert read_checkpoint(f"file://{folder}/").batch_id == 1


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_a_checkpoint_in_s3_is_read(tmp_path: Path, scheme: str) -> None:
    folder = write_checkpoint(tmp_path / "bucket" / "jobs" / "c", {"t": {"0": 1}}, {"t": {"0": 5}})
    with serving(s3_of(tmp_path)) as url:
        options = f"endpoint_override={urlsplit(url).netloc}&scheme=http&region=us-east-1"
        found = read_checkpoint(f"{scheme}://key:secret@bucket/jobs/c?{options}")
        with pytest.raises(CheckpointError, match=f"{scheme}://bucket/none, found no batch"):
            read_checkpoint(f"{scheme}://key:secret@bucket/none?{options}")
    assert (found.batch_id, found.positions) == (1, read_checkpoint(folder).positions)
    assert found.committed_at_ms == 1_795_359_845_000


def test_a_file_is_read_again_only_if_it_has_changed(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "c", {"t": {"0": 1}})
    uri = f"file://{folder}"
    store = _folders.open_folder(uri)
    assert isinstance(store, _folders.RemoteFolder)
    read_checkpoint(uri)
    with patch.object(store, "_store", wraps=store._store) as watched:
        before = read_checkpoint(uri).positions
        opened = [call.args[0] for call in watched.open_input_file.call_args_list]
    assert [name.rpartition("/")[2] for name in opened] == ["metadata"], "there is none"
    file = folder / "offsets" / "0"
    file.write_text(file.read_text().replace("1}", "3}"))
    os.utime(file, (1, 1))
    assert list(read_checkpoint(uri).positions.values()) == [3] != list(before.values())


def test_a_folder_that_does_not_exist_is_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=f"query in file://{tmp_path}/none, found no batch"):
        read_checkpoint(f"file://{tmp_path}/none")


def test_spark_writes_a_path_of_this_machine_as_file(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "c", {"t": {"0": 1}})
    assert read_checkpoint(f"file:{folder}") == read_checkpoint(folder)


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("s3://key:secret@bucket/c?x=secret", "s3://bucket/c"),
        ("abfs://account@host:10000/c?enable_tls=false&sig=secret", "abfs://host:10000/c"),
        ("s3://key:sec/ret@bucket/c", "s3://bucket/c"),
        ("s3://key:sec?ret@bucket/c", "s3://bucket/c"),
        ("hdfs://name-node:8020/c@d", "hdfs://name-node:8020/c@d"),
        ("s3://bucket/c@d", "s3://bucket/c@d"),
        ("/data/c@d?e", "/data/c@d?e"),
        ("s3:key:secret@bucket/c", "s3:bucket/c"),
        ("s3:/key:sec/ret@bucket/c", "s3:/bucket/c"),
        ("s3:bucket/c", "s3:bucket/c"),
        ("file:/data/c@d", "file:/data/c@d"),
    ],
)
def test_credentials_are_not_shown(location: str, shown: str) -> None:
    assert without_secrets(location) == shown


@pytest.mark.parametrize("token", ["sig=hunter2", "se=2099&sig=hun%2Fter2&sp=rw"])
@pytest.mark.parametrize("quote", ["", "'", '"'])
@pytest.mark.parametrize("user", ["", "hunter2@", "key:hunter2@"])
def test_a_message_of_a_library_shows_no_credentials(token: str, quote: str, user: str) -> None:
    message = f"Failed: {quote}https://{user}host:1/box/c?{token}{quote} Azure Error: [403] What? See a@b."
    shown = f"Failed: {quote}https://host:1/box/c{quote} Azure Error: [403] What? See a@b."
    assert without_secrets_in(message) == shown


def test_a_store_that_refuses_a_token_does_not_show_it() -> None:
    class Azure:
        def get_file_info(self, _: object) -> None:
            raise OSError("Failed to list: https://host:1/box?sp=r&sig=hun%2Fter2 Azure Error: 403")

    store = _folders.RemoteFolder("abfs://box@account.dfs.core.windows.net/c?sig=hun/ter2", Azure(), "box/c")
    with pytest.raises(CheckpointError, match="https://host:1/box Azure Error: 403") as raised:
        store.names("offsets")
    assert raised.value.__suppress_context__


def test_a_file_that_is_missing_is_named_without_secrets() -> None:
    store = _folders.RemoteFolder("s3://key:hunter2@bucket/c", None, "bucket/c")
    with pytest.raises(FileNotFoundError, match=r"^s3://bucket/c/offsets/0$"):
        store.time_ms("offsets/0")


def test_what_pyarrow_cannot_do_is_an_error_of_the_checkpoint() -> None:
    class Unable:
        def get_file_info(self, _: object) -> None:
            raise pa.ArrowNotImplementedError("no listing")

        def open_input_file(self, _: str) -> None:
            raise pa.ArrowNotImplementedError("no reading")

    store = _folders.RemoteFolder("s3://bucket/c", Unable(), "bucket/c")
    with pytest.raises(CheckpointError, match="no listing"):
        store.names("offsets")
    with pytest.raises(CheckpointError, match="no reading"):
        checkpoint._lines(store, "offsets/0")
    assert checkpoint._query_id(store) is None
    with (
        patch("pyarrow.fs.FileSystem", **{"from_uri.side_effect": pa.ArrowNotImplementedError("no store")}),
        pytest.raises(CheckpointError, match="no store"),
    ):
        _folders.open_folder("new://bucket/c")


def test_a_store_that_pyarrow_does_not_know_is_an_error_without_secrets() -> None:
    with pytest.raises(CheckpointError, match=r"ftp://host/c: .*pyarrow") as raised:
        read_checkpoint("ftp://user:hunter2@host/c?secret=hunter2")
    assert "hunter2" not in f"{raised.value} {raised.value.facts}"
