"""The states of a job's operators, and their copies for the job that repeats or continues it.

Runs on the machine of a command that makes a checkpoint from another one. Invariants: the folder of the
running job is never changed; the copies are those of one batch, the one after which the new checkpoint
begins; a folder that a job has used is never written; only copies that are published are states. So a command
that stages copies, and then finds that another one has handed over, has damaged nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import OptionError, StateError
from penstock.security.location import without_secrets
from penstock.state.copied import check_version, identity_to_copy, is_staged, publish, stage
from penstock.state.copy_names import is_copy_for, is_free, others_in
from penstock.state.files import Files, LocalFiles, folder_in, open_files
from penstock.state.identity import IDENTITY_FILE, read_identity
from penstock.state.one_version import versions_in

SOURCE, TARGET = "--state", "--new-state"
_ITSELF = ""
"""The name of an operator without a name: its folder is the given one."""
_UNUSED = (
    "If the job does not use {} (a backup, or the state of a function that the job does not have any more),"
)


@dataclass(frozen=True)
class CarriedState:
    """The folders that a user has given.

    Attributes:
        source: the `state` of the functions of the old job, which has the folder of each operator.
        target: the same of the new job.
    """

    source: str
    target: str

    def versions(self, query_id: str) -> set[int]:
        """Return the batches after which the states of all operators of a query are still there.

        Raises:
            OptionError: the folder has no state of the query.
            StateError: a state cannot be copied, or the states of the operators have no batch in common.
        """
        found = dict[str, set[int]]()
        with self._reached():
            for _, files in self._operators(query_id):
                identity, _ = identity_to_copy(files)
                found[files.root] = versions_in(files, identity.partition_count)
        common = set.intersection(*found.values())
        if not common and any(found.values()):
            raise self._of_different_times(query_id, found)
        return common

    def _of_different_times(self, query_id: str, found: dict[str, set[int]]) -> StateError:
        each = "; ".join(f"{root} has {sorted(batches)}" for root, batches in found.items())
        shown = without_secrets(self.source)
        return StateError(
            f"The states of query {query_id} in {shown} have no batch in common: {each}. Nothing was "
            f"changed. {_UNUSED.format('one of these folders')} move it out of {shown}, and run this command "
            "again. If the job uses all of them, let it run, and run this command again.",
            path=shown,
        )

    def check(self, query_id: str, batch_id: int) -> None:
        """Raise OptionError or StateError unless the states can be copied as they were after a batch."""
        with self._reached():
            operators = self._operators(query_id)
            for name, files in operators:
                _checked(files, batch_id, without_secrets(self.source) if operators[1:] else None)
                if not is_free(self._target(name)):
                    raise _in_use(self.target)
            self._check_only_copies(query_id)

    def copy(self, query_id: str, batch_id: int, heir: str) -> None:
        """Copy the states as they were after a batch.

        Args:
            query_id: of the query whose states they are.
            batch_id: of this query.
            heir: the query that begins with the copies.

        Raises:
            OptionError: the new folder is in use.
            StateError: a state has no such version, or a file is damaged, or the folder cannot be written.
        """
        self.stage(query_id, batch_id, heir)
        self.publish(query_id, heir)

    def stage(self, query_id: str, batch_id: int, heir: str) -> None:
        """Do the long part of `copy`. The new folder has no state yet. Arguments and errors as `copy`."""
        self.check(query_id, batch_id)
        for name, files in self._operators(query_id):
            with self._written(files):
                stage(files, self._target(name), batch_id, heir)

    def publish(self, query_id: str, heir: str) -> None:
        """Make states of the copies that `stage` has made for a query. A second call changes nothing.

        Raises:
            StateError: the new folder is in use, or cannot be written.
        """
        with self._reached():
            operators = self._operators(query_id)
        for name, files in operators:
            with self._written(files):
                publish(self._target(name), heir)

    def copy_late(self, query_id: str, batch_id: int | None, heir: str) -> None:
        """Copy the states for a query that has taken over already, if an earlier call did not.

        Args:
            query_id: of the query whose states they are.
            batch_id: after which it has handed over; None if the heir has written batches since.
            heir: the query that has taken over.

        Raises:
            StateError: as `copy`, or the heir has written batches without these copies.
        """
        with self._reached():
            targets = [self._target(name) for name, _ in self._operators(query_id)]
            missing = [each for each in targets if not is_copy_for(each, heir)]
            are_staged = all(is_staged(each, heir) for each in missing)
        if not missing:
            return
        if batch_id is None:
            shown = without_secrets(self.target)
            raise StateError(
                f"Query {heir} has written batches since it has taken over, and {shown} has no state of it. "
                "Nothing was changed. A copy would lack these batches. Find the folder of its state.",
                path=shown,
            )
        if not are_staged:
            self.stage(query_id, batch_id, heir)
        self.publish(query_id, heir)

    @contextlib.contextmanager
    def _written(self, files: Files) -> Iterator[None]:
        """Raise StateError if the copy of a folder cannot be written."""
        try:
            yield
        except OSError as error:
            raise StateError(
                f"The state in {files.root} could not be copied to {without_secrets(self.target)}: "
                f"{error}. The copy is not complete, and no job can use it. Mend what the error says, "
                "and run this command again.",
                path=files.root,
            ) from error

    @contextlib.contextmanager
    def _reached(self) -> Iterator[None]:
        """Raise StateError if a folder cannot be read."""
        try:
            yield
        except OSError as error:
            shown = " or ".join(map(without_secrets, (self.source, self.target)))
            raise StateError(
                f"{shown} cannot be read: {error}. Nothing was changed. Check the address, the credentials, "
                "and whether this machine reaches it.",
                path=shown,
            ) from error

    def _operators(self, query_id: str) -> list[tuple[str, Files]]:
        """Return the operators of a query, by the names of their folders."""
        root, shown = _opened(self.source, SOURCE), without_secrets(self.source)
        # An operator without a name has its partitions in the folder, and may have other operators there.
        names = [name for name in _names(root) if not name.isdigit()]
        inside = [(name, _opened(folder_in(self.source, name), SOURCE)) for name in names]
        folders: list[tuple[str, Files]] = [(_ITSELF, root), *inside]
        found = [(name, files) for name, files in folders if _identity(files) == query_id]
        if not found:
            raise OptionError(
                f"Expected the folder of the job's state for {SOURCE}, but {shown} has no state of query "
                f"{query_id}, to which the checkpoint belongs. Nothing was changed. Give the folder that the "
                "functions of penstock.changelog have as `state` in the job.",
                option=SOURCE,
                value=shown,
            )
        return found

    def _target(self, name: str) -> Files:
        return _opened(self.target if name == _ITSELF else folder_in(self.target, name), TARGET)

    def _check_only_copies(self, query_id: str) -> None:
        """Raise OptionError if the new folder has something else than unused copies of these operators."""
        names = {name for name, _ in self._operators(query_id)}
        if _ITSELF not in names and set(_opened(self.target, TARGET).names("")) - names:
            raise _in_use(self.target)
        for name in names:
            if others_in(self._target(name)) - (names if name == _ITSELF else set()):
                raise _in_use(self.target)


def carried_state(source: str | None, target: str | None) -> CarriedState | None:
    """Return what the options of a command say; None without them.

    Raises:
        OptionError: only one of them is given, or one folder is in the other one.
    """
    if source is None and target is None:
        return None
    if source is None or target is None:
        missing = SOURCE if source is None else TARGET
        raise OptionError(
            f"Expected {SOURCE} and {TARGET} together: the state of the old job, and a new folder for its "
            "copy. Nothing was changed.",
            option=missing,
        )
    one, other = (_opened(each, option).root for each, option in ((source, SOURCE), (target, TARGET)))
    if one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/"):
        raise OptionError(
            f"Expected another folder for {TARGET} than that of the old job, got {without_secrets(target)}. "
            "Nothing was changed. Each job needs a state of its own.",
            option=TARGET,
            value=without_secrets(target),
        )
    return CarriedState(source, target)


def _opened(location: str, option: str) -> Files:
    try:
        files = open_files(location)
    except ValueError as error:
        shown = without_secrets(location)
        raise OptionError(
            f"{shown!r} is not a folder that can be opened: {error}. Nothing was changed.",
            option=option,
            value=shown,
        ) from None
    return LocalFiles(str(Path(files.root).resolve())) if isinstance(files, LocalFiles) else files


def _names(files: Files) -> list[str]:
    try:
        return files.names("")
    except NotADirectoryError:
        return []


def _identity(files: Files) -> str | None:
    """Return the id of the query that has the state of a folder; None for another folder, or a file.

    Raises:
        OSError: the folder has a state that cannot be read. It may be one of the query.
    """
    try:
        found = read_identity(files)
    except OSError:
        if _is_state(files):
            raise
        return None
    return None if found is None else found[0].query_id


def _is_state(files: Files) -> bool:
    try:
        return IDENTITY_FILE in files.names("")
    except OSError:
        return False


def _checked(files: Files, batch_id: int, shared: str | None) -> None:
    """Raise StateError unless a state can be copied. `shared`: a folder that has others of the query, too."""
    if batch_id < 0:
        raise StateError(
            f"The query of the state in {files.root} has done no batch, so it has no state that could be "
            "carried over. Nothing was changed. Let the old job finish a batch, or start the changed job "
            "with its checkpoint and its state.",
            path=files.root,
        )
    try:
        check_version(files, batch_id)
    except StateError as error:
        unused = f" {_UNUSED.format('this folder')} move it out of {shared} instead." if shared else ""
        raise StateError(
            f"{error.message} To be carried over, the state needs the version after batch {batch_id}, where "
            "the new checkpoint begins. Start the old job once with the trigger availableNow=True, let it "
            f"end by itself, and run this command again.{unused}",
            **error.facts,
        ) from error


def _in_use(target: str) -> OptionError:
    shown = without_secrets(target)
    return OptionError(
        f"Expected a new folder for {TARGET}, but {shown} has files of something else, or a job has used it. "
        "Nothing was changed. Choose another name.",
        option=TARGET,
        value=shown,
    )
