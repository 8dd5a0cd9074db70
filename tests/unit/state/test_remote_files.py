"""Files on stores of other machines, with file systems that behave as those of Azure and HDFS do."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs
import pytest

from penstock.errors import StateError
from penstock.state._upload import HELD_BYTES_MAX
from penstock.state.copy_names import COPIES
from penstock.state.files import BEGUN, ArrowFiles, open_files
from penstock.state.identity import IDENTITY_FILE
from penstock.state.lineage import RUNS, read_claims
from penstock.state.marks import MARKS
from tests.unit.state.rows import contents, run_batch, store_in, task_of

URL = "http://host:1/box?se=2099&sig=hun%2Fter2"


class Store(pa.fs.SubTreeFileSystem):  # type: ignore[misc]  # pyarrow ships no types
    """An object store. As Azure does, it shows a file with 0 bytes while it is written."""

    type_name = "abfs"
    opened: list[str]
    broken: Exception | None = None

    def open_output_stream(self, path: str) -> Any:
        if self.broken:
            raise self.broken
        self.opened.append(path)
        return super().open_output_stream(path)


class Hdfs(Store):
    """A file system with renames. It says of a missing file only that it could not be deleted."""

    type_name = "hdfs"
    moved: int = 0
    holds: bool = False

    def delete_file(self, path: str) -> None:
        if self.holds or self.get_file_info(path).type == pa.fs.FileType.NotFound:
            raise OSError(5, "HDFS delete failed")
        super().delete_file(path)

    def move(self, source: str, target: str) -> None:
        self.moved += 1
        super().move(source, target)


def files_in(folder: Path, kind: type[Store] = Store) -> tuple[ArrowFiles, Any]:
    for name in ("0", "1", MARKS, RUNS, "partitions", COPIES):
        (folder / "store" / name).mkdir(parents=True, exist_ok=True)
    file_system = kind(str(folder / "store"), pa.fs.LocalFileSystem())
    file_system.opened = []
    files = ArrowFiles(file_system, "", str(folder / "cache"))
    return files, file_system


def write(files: ArrowFiles, path: str, *pieces: bytes) -> None:
    with files.create(path) as sink:
        for piece in pieces:
            sink.write(piece)


def test_a_claim_that_is_written_again_does_not_vanish_on_azure(tmp_path: Path) -> None:
    """A task dies while it writes the claim that another task of its run has written."""
    files, _ = files_in(tmp_path)
    run_batch(store_in(files), "a", 0, {0: "0", 1: "0"})
    late = task_of("a", 1)
    run_batch(store_in(files), "b", 1, {0: "b", 1: "b"})
    claims = read_claims(files)
    for name in files.names(RUNS):
        (tmp_path / "store" / RUNS / name).write_bytes(b"")
    assert all(name.endswith(BEGUN) for name in files.names(RUNS))
    assert read_claims(files) == claims
    with pytest.raises(StateError, match="A newer run of the query has begun"):
        store_in(files).begin(late)
    assert contents(store_in(files), 2) == {0: "b", 1: "b"}


def test_the_first_task_of_a_run_deletes_what_dead_writers_left_but_no_claim(tmp_path: Path) -> None:
    files, _ = files_in(tmp_path)
    for batch_id in range(4):
        run_batch(store_in(files), "a", batch_id, {0: str(batch_id), 1: ""})
    claim = next(iter(read_claims(files)))
    (tmp_path / "store" / RUNS / claim.name).write_bytes(b"")
    (tmp_path / "store" / MARKS / "0-dead.json").touch()
    run_batch(store_in(files), "b", 4, {0: "4"})
    assert claim in read_claims(files)
    assert not any(name.startswith("0-dead") for name in files.names(MARKS))
    assert contents(store_in(files), 5) == {0: "4", 1: ""}


def test_a_late_task_does_not_write_the_identity_again(tmp_path: Path) -> None:
    files, file_system = files_in(tmp_path)
    stores = [store_in(files), store_in(files)]
    begun = [each.begin(task_of("a", 0, number)) for number, each in enumerate(stores)]
    for each, one in zip(stores, begun, strict=True):
        each.finish(one, [])
    assert [path for path in file_system.opened if path.endswith(IDENTITY_FILE)] == [f"/{IDENTITY_FILE}"]


@pytest.mark.parametrize("kind", [Store, Hdfs])
def test_an_error_of_one_writer_does_not_delete_what_another_one_has_written(
    tmp_path: Path, kind: type[Store]
) -> None:
    files, file_system = files_in(tmp_path, kind)
    write(files, "0/a.json", b"whole")
    file_system.broken = OSError("InvalidBlockList")
    write(files, "0/a.json", b"who", b"le")
    with pytest.raises(OSError, match="InvalidBlockList"):
        write(files, "0/a.json", b"other")
    assert files.read("0/a.json").to_pybytes() == b"whole"
    assert files.names("0") == ["a.json"]


@pytest.mark.parametrize("kind", [Store, Hdfs])
def test_a_writer_that_fails_has_published_nothing_of_a_small_file(tmp_path: Path, kind: type[Store]) -> None:
    files, file_system = files_in(tmp_path, kind)
    with contextlib.suppress(KeyboardInterrupt), files.create("0/a.json") as sink:
        sink.write(b"half")
        raise KeyboardInterrupt
    assert file_system.opened == []
    assert files.names("0") == []


@pytest.mark.parametrize("kind", [Store, Hdfs])
@pytest.mark.parametrize("more_bytes", [-1, 0, 1, HELD_BYTES_MAX])
def test_a_file_has_what_was_written(tmp_path: Path, kind: type[Store], more_bytes: int) -> None:
    files, _ = files_in(tmp_path, kind)
    pieces = [b"begin", bytes(HELD_BYTES_MAX - 5 + more_bytes), b"", b"end"]
    write(files, "0/a.arrow", *pieces)
    assert files.read("0/a.arrow").to_pybytes() == b"".join(pieces)
    with contextlib.suppress(ConnectionError), files.create("0/b.arrow") as sink:
        sink.write(pieces[1])
        sink.write(b"more than is held")
        raise ConnectionError
    assert files.names("0") == ["a.arrow"]


def test_hdfs_does_not_replace_an_equal_file(tmp_path: Path) -> None:
    """Pyarrow deletes the old file before it renames the new one."""
    files, file_system = files_in(tmp_path, Hdfs)
    write(files, "0/a.json", b"one")
    write(files, "0/a.json", b"one")
    assert file_system.moved == 1
    write(files, "0/a.json", b"two")
    assert files.read("0/a.json").to_pybytes() == b"two"
    assert files.names("0") == ["a.json"]


def test_a_folder_of_hdfs_that_appears_during_a_listing_is_listed(tmp_path: Path) -> None:
    """HDFS: pyarrow looks for the folder, then asks whether it is there. Another task makes it in between."""
    files, file_system = files_in(tmp_path, Hdfs)
    write(files, "0/a.json", b"{}")
    look = file_system.get_file_info
    answers = [FileNotFoundError(2, "HDFS list directory failed")]

    def answer(asked: Any) -> Any:
        if answers:
            raise answers.pop()
        return look(asked)

    file_system.get_file_info = answer
    assert files.names("0") == ["a.json"]


def test_hdfs_says_nothing_of_a_file_that_is_gone(tmp_path: Path) -> None:
    files, file_system = files_in(tmp_path, Hdfs)
    files.delete("0/a.json")
    write(files, "0/a.json", b"{}")
    file_system.holds = True
    with pytest.raises(OSError, match="delete failed"):
        files.delete("0/a.json")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError(f"ListBlobs failed: {URL} Azure Error: 403"), OSError),
        (FileNotFoundError(2, f"no such file: {URL}"), FileNotFoundError),
        (pa.ArrowInvalid(f"wrong: '{URL}'"), ValueError),
        (pa.ArrowException("Unknown error: AuthenticationException"), OSError),
    ],
)
def test_no_error_of_a_store_shows_its_credentials(
    tmp_path: Path, error: Exception, expected: type[Exception]
) -> None:
    files, file_system = files_in(tmp_path)

    def fail(*_: Any) -> Any:
        raise error

    for name in ("get_file_info", "open_input_file", "delete_file", "open_output_stream"):
        setattr(file_system, name, fail)
    calls: list[Callable[[], Any]] = [
        lambda: files.names("0"),
        lambda: files.read("0/a.json"),
        lambda: files.read("0/a.arrow"),
        lambda: write(files, "0/a.json", b"{}"),
        lambda: write(files, "0/a.arrow", bytes(HELD_BYTES_MAX + 1)),
    ]
    if expected is not FileNotFoundError:
        calls.append(lambda: files.delete("0/a.json"))
    for call in calls:
        with pytest.raises(expected) as raised:
            call()
        shown = "".join(traceback.format_exception(raised.value))
        assert "sig=" not in shown
        assert "hun%2Fter2" not in shown


@pytest.mark.parametrize("location", ["fsspec+webhdfs://host/state", "hf://datasets/state"])
def test_a_file_system_that_may_keep_listings_is_refused(location: str) -> None:
    with pytest.raises(ValueError, match="is read through fsspec"):
        open_files(location)
