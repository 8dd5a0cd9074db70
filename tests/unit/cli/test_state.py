"""`penstock state`."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from penstock.cli.app import app
from penstock.errors import PenstockError
from penstock.state import files
from penstock.state.files import LocalFiles
from tests.unit.state.rows import run_batch, store_in


def test_inspect_and_verify(tmp_path: Path) -> None:
    run_batch(store_in(LocalFiles(str(tmp_path))), "a", 0, {0: "a", 1: "b"})
    shown = CliRunner().invoke(app, ["state", "inspect", str(tmp_path)])
    assert shown.exit_code == 0
    assert "query id    query-1" in shown.output
    assert "last batch  0\n" in shown.output
    as_json = json.loads(CliRunner().invoke(app, ["state", "inspect", str(tmp_path), "--json"]).output)
    assert [each["row_count"] for each in as_json["partitions"]] == [1, 1]
    good = CliRunner().invoke(app, ["state", "verify", str(tmp_path)])
    assert (good.exit_code, good.output) == (0, "No problem was found.\n")
    (run,) = (tmp_path / "0").glob("*.arrow")
    run.write_bytes(run.read_bytes()[:-1])
    bad = CliRunner().invoke(app, ["state", "verify", str(tmp_path)])
    assert bad.exit_code == 1
    assert "partition 0, batch 0: The state is damaged" in bad.output


def test_a_batch_that_was_begun_is_shown_apart(tmp_path: Path) -> None:
    of_state = LocalFiles(str(tmp_path))
    run_batch(store_in(of_state), "a", 0, {0: "a", 1: "b"})
    run_batch(store_in(of_state), "a", 1, {1: "c"}, tasks=[1])
    shown = CliRunner().invoke(app, ["state", "inspect", str(tmp_path)])
    assert "last batch  0, and a part of batch 1\n" in shown.output
    assert CliRunner().invoke(app, ["state", "verify", str(tmp_path)]).exit_code == 0


def wrong(*arguments: str) -> str:
    """Return the error of a command."""
    result = CliRunner().invoke(app, ["state", *arguments])
    assert isinstance(result.exception, PenstockError), result.output
    return str(result.exception)


def test_wrong_use_says_what_is_wrong(tmp_path: Path) -> None:
    empty, state = tmp_path / "empty", tmp_path / "state"
    empty.mkdir()
    run_batch(store_in(LocalFiles(str(state))), "a", 0, {0: "a", 1: "b"})
    repartition = ("repartition", str(state), str(tmp_path / "new"), "--partitions", "3", "--checkpoint")
    for command in ("inspect", "verify"):
        for folder in (empty, tmp_path / "missing", state / "0"):
            assert "it has no state.json" in wrong(command, str(folder))
        for uri in ("s3:bucket", "file://host/state", "unknown://state"):
            assert "is not a folder that can be opened" in wrong(command, uri)
    for command in ("inspect", "verify"):  # the folder around the states of operators
        said = "it has no state.json. There are states in it: state. Name one of them."
        assert said in wrong(command, str(tmp_path))
    assert "is not a checkpoint of Spark" in wrong(*repartition, str(empty))
    (empty / "metadata").write_text('{"id": "query-2"}')
    assert "belongs to the query query-1" in wrong(*repartition, str(empty))
    (empty / "metadata").write_text('{"id": "query-1"}')
    assert "has committed no batch yet" in wrong(*repartition, str(empty))
    bad = CliRunner().invoke(app, ["state", *repartition[:4], "0", "--checkpoint", str(empty)])
    assert bad.exit_code == 2
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("form", [1, 3])
def test_another_format_is_refused(tmp_path: Path, form: int) -> None:
    run_batch(store_in(LocalFiles(str(tmp_path))), "a", 0, {0: "a", 1: "b"})
    path = tmp_path / "state.json"
    whole = path.read_text()
    path.write_text(json.dumps({**json.loads(whole), "format": form}))
    repartition = ("repartition", str(tmp_path), "new", "--partitions", "3", "--checkpoint", "c")
    for arguments in (("inspect", str(tmp_path)), ("verify", str(tmp_path)), repartition):
        assert f"state.json has format {form}, and this version of penstock reads format 2" in wrong(
            *arguments
        )
    path.write_text(whole)
    (manifest,) = (tmp_path / "0").glob("*.json")
    line = json.dumps({**json.loads(manifest.read_text().partition("\n")[0]), "format": form})
    manifest.write_text(f"{line}\n{zlib.crc32(line.encode()):08x}\n")
    for arguments in (("inspect", str(tmp_path)), ("verify", str(tmp_path))):
        assert f"has format {form}" in wrong(*arguments)


class Unreachable(LocalFiles):
    """Files of a store that does not answer."""

    def names(self, folder: str) -> list[str]:
        raise OSError(f"no answer about {folder}")

    def read(self, path: str) -> pa.Buffer:
        raise OSError(f"no answer about {path}")


@pytest.mark.parametrize("command", ["inspect", "verify", "repartition"])
def test_a_store_that_does_not_answer_is_an_error_without_secrets(
    monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr(files, "open_files", Unreachable)
    more = ("new", "--partitions", "3", "--checkpoint", "c") if command == "repartition" else ()
    message = wrong(command, "s3://key:hunter2@bucket/state?a=hunter2", *more)
    assert message.startswith("s3://bucket/state")
    assert "cannot be read or written: no answer about state.json" in message
    assert "hunter2" not in message
