"""The states of a job's operators are copied together, and only those of the job."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import OptionError, StateError
from penstock.state.carried import CarriedState, carried_state
from penstock.state.copy_names import is_copy_for
from penstock.state.files import LocalFiles
from penstock.state.identity import IDENTITY_FILE
from penstock.state.plans import take_number
from tests.unit.state.rows import PARTITIONS, part_of, run_task, store_in, task_of

QUERY, HEIR = "query-1", "query-2"


def run_batch(folder: Path, batch_id: int) -> None:
    changes = dict.fromkeys(range(8), f"batch {batch_id}")
    for partition in range(PARTITIONS):
        run_task(
            store_in(LocalFiles(str(folder))), task_of("a", batch_id, partition), part_of(changes, partition)
        )


def a_job(tmp_path: Path) -> CarriedState:
    """Return the state of a job with two operators: one is a batch ahead of the other one."""
    for name, batches in (("one", 4), ("two", 3)):
        for batch_id in range(batches):
            run_batch(tmp_path / "old" / name, batch_id)
    found = carried_state(str(tmp_path / "old"), str(tmp_path / "new"))
    assert found is not None
    return found


def contents_of(folder: Path) -> dict[str, bytes]:
    return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


def test_all_operators_of_the_query_are_copied_and_nothing_else(tmp_path: Path) -> None:
    state, new = a_job(tmp_path), tmp_path / "new"
    (tmp_path / "old" / "notes.txt").write_text("of the user")
    run_batch(tmp_path / "old" / "other", 0)
    identity = tmp_path / "old" / "other" / IDENTITY_FILE
    identity.write_text(identity.read_text().replace(QUERY, "query-of-another-job"))
    before = contents_of(tmp_path / "old")
    assert state.versions(QUERY) == {1, 2}, "these both have"
    state.check(QUERY, 2)
    assert not new.exists()
    state.copy(QUERY, 2, HEIR)
    assert sorted(each.name for each in new.iterdir()) == ["one", "two"]
    assert all(is_copy_for(LocalFiles(str(new / name)), HEIR) for name in ("one", "two"))
    assert contents_of(tmp_path / "old") == before
    with pytest.raises(StateError, match=r"batch 3.* To be carried over, .* Start the old job once"):
        state.check(QUERY, 3)
    with pytest.raises(StateError, match="has done no batch"):
        state.check(QUERY, -1)


def test_the_folder_may_be_that_of_one_operator(tmp_path: Path) -> None:
    a_job(tmp_path)
    state = carried_state(f"file://{tmp_path}/old/one", str(tmp_path / "new"))
    assert state is not None
    state.copy(QUERY, 3, HEIR)
    assert is_copy_for(LocalFiles(str(tmp_path / "new")), HEIR)


def test_a_backup_beside_the_states_is_named(tmp_path: Path) -> None:
    """It has the id of the query. To run the job once more does not help."""
    state = a_job(tmp_path)
    run_batch(tmp_path / "old" / "two", 3)
    shutil.copytree(tmp_path / "old" / "one", tmp_path / "old" / "one.bak")
    for batch_id, name in itertools.product((4, 5, 6), ("one", "two")):
        run_batch(tmp_path / "old" / name, batch_id)
    with pytest.raises(StateError, match=r"If the job does not use this folder \(a backup") as raised:
        state.check(QUERY, 6)
    assert f"{tmp_path}/old/one.bak has the batches [1, 2, 3]" in str(raised.value)
    assert f"move it out of {tmp_path}/old instead" in str(raised.value)
    with pytest.raises(StateError, match="have no batch in common") as raised:
        state.versions(QUERY)
    assert f"{tmp_path}/old/one.bak has [1, 2, 3]; {tmp_path}/old/two has [4, 5, 6]" in str(raised.value)
    assert f"move it out of {tmp_path}/old, and run this command again" in str(raised.value)
    shutil.move(tmp_path / "old" / "one.bak", tmp_path / "kept")
    assert state.versions(QUERY) == {4, 5, 6}
    state.copy(QUERY, 6, HEIR)


def test_a_copy_that_no_job_has_used_is_made_again_and_others_are_left_alone(tmp_path: Path) -> None:
    state, new = a_job(tmp_path), tmp_path / "new"
    state.copy(QUERY, 1, "a query that never was")
    state.copy(QUERY, 2, HEIR)
    state.copy_late(QUERY, 1, HEIR)
    assert is_copy_for(LocalFiles(str(new / "two")), HEIR), "it is there"
    state.copy_late(QUERY, None, HEIR)
    with pytest.raises(StateError, match=r"has written batches since .* A copy would lack these batches"):
        state.copy_late(QUERY, None, "query-3")
    take_number(LocalFiles(str(new / "two")), "0a")  # a job has called the operator
    before = contents_of(new)
    with pytest.raises(OptionError, match="or a job has used it"):
        state.check(QUERY, 2)
    with pytest.raises(OptionError, match="or a job has used it"):
        state.copy(QUERY, 2, "query-3")
    assert contents_of(new) == before


def test_a_folder_with_something_else_is_refused(tmp_path: Path) -> None:
    state, new = a_job(tmp_path), tmp_path / "new"
    (new / "photos").mkdir(parents=True)
    with pytest.raises(OptionError, match="has files of something else"):
        state.copy(QUERY, 2, HEIR)
    assert [each.name for each in new.iterdir()] == ["photos"]


def test_an_operator_without_a_name_has_others_in_its_folder(tmp_path: Path) -> None:
    for folder in ("old", "old/two"):
        for batch_id in range(3):
            run_batch(tmp_path / folder, batch_id)
    state, new = CarriedState(str(tmp_path / "old"), str(tmp_path / "new")), tmp_path / "new"
    for heir in ("a query that never was", HEIR):
        state.copy(QUERY, 2, heir)
    assert all(is_copy_for(LocalFiles(str(each)), HEIR) for each in (new, new / "two"))
    take_number(LocalFiles(str(new / "two")), "0a")
    before = contents_of(new)
    with pytest.raises(OptionError, match="or a job has used it"):
        state.copy(QUERY, 2, "query-3")
    assert contents_of(new) == before


@pytest.mark.parametrize(
    "name", ["0/rows.parquet", "batches/1.csv", "partitions/a", "7/0.csv", "notes.txt", "0"]
)
def test_files_of_something_else_stay_where_one_operator_would_be_copied(tmp_path: Path, name: str) -> None:
    a_job(tmp_path)
    state, file = CarriedState(str(tmp_path / "old" / "one"), str(tmp_path / "new")), tmp_path / "new" / name
    file.parent.mkdir(parents=True)
    file.write_text("of the user")
    with pytest.raises(OptionError, match="has files of something else"):
        state.check(QUERY, 3)
    with pytest.raises(OptionError, match="has files of something else"):
        state.copy(QUERY, 3, HEIR)
    assert contents_of(tmp_path / "new") == {name: b"of the user"}


def test_a_file_in_the_place_of_the_new_folder_is_refused(tmp_path: Path) -> None:
    a_job(tmp_path)
    (tmp_path / "new").write_text("of the user")
    for source, target in itertools.product(("old", "old/one"), ("new", "new/inside")):
        with pytest.raises(OptionError, match="has files of something else"):
            CarriedState(str(tmp_path / source), str(tmp_path / target)).copy(QUERY, 2, HEIR)
    assert (tmp_path / "new").read_text() == "of the user"


def test_a_folder_that_cannot_be_read_is_an_error_of_penstock(tmp_path: Path) -> None:
    a_job(tmp_path)
    state = CarriedState(str(tmp_path / "old"), str(tmp_path / ("long" * 100)))
    with pytest.raises(StateError, match=r"cannot be read: .* Nothing was changed"):
        state.check(QUERY, 2)
    with pytest.raises(StateError, match=r"cannot be read: .* Nothing was changed"):
        state.copy(QUERY, 2, HEIR)
    with pytest.raises(StateError, match=r"cannot be read: .* Nothing was changed"):
        state.copy_late(QUERY, 2, HEIR)


def test_an_operator_whose_folder_cannot_be_read_is_not_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, read = a_job(tmp_path), LocalFiles.read

    def refuse(files: LocalFiles, path: str) -> pa.Buffer:
        if files.root.endswith("/two") and path == IDENTITY_FILE:
            raise OSError("503 Slow Down")
        return read(files, path)

    monkeypatch.setattr(LocalFiles, "read", refuse)
    with pytest.raises(StateError, match=r"cannot be read: 503 Slow Down. Nothing was changed"):
        state.versions(QUERY)
    with pytest.raises(StateError, match=r"cannot be read: 503 Slow Down. Nothing was changed"):
        state.copy(QUERY, 2, HEIR)
    assert not (tmp_path / "new").exists()


def test_wrong_folders_are_refused(tmp_path: Path) -> None:
    old, new = str(tmp_path / "old"), str(tmp_path / "new")
    a_job(tmp_path)
    assert carried_state(None, None) is None
    for given in ((old, None), (None, new)):
        with pytest.raises(OptionError, match="Expected --state and --new-state together"):
            carried_state(*given)
    (tmp_path / "link").symlink_to(tmp_path / "old")
    for other in (old, f"{old}/one", str(tmp_path), f"file://{old}", str(tmp_path / "link")):
        with pytest.raises(OptionError, match="Expected another folder for --new-state"):
            carried_state(old, other)
    for wrong in (new, str(tmp_path / "old" / "one" / IDENTITY_FILE)):
        state = CarriedState(wrong, f"{new}-er")
        with pytest.raises(OptionError, match=f"has no state of query {QUERY}"):
            state.versions(QUERY)
    with pytest.raises(OptionError, match="has no state of query another"):
        CarriedState(old, new).check("another", 2)
    with pytest.raises(OptionError, match="is not a folder that can be opened"):
        carried_state("s4:x", new)
