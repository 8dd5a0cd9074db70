"""Each command of `penstock table` runs with the rights that docs/rights.md names, and asks no broker.

The rights are those in a real PostgreSQL. It stands here because unit tests start no server.
"""

from __future__ import annotations

import itertools
import re
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from penstock.cli._table_hand_over import Wanted, hand_over
from penstock.cli.app import app
from penstock.errors import MaterializeError, PenstockError, QueryEndedError
from penstock.targets import DeltaTable, SqlTable
from penstock.targets._sql_handed_over import HANDED_OVER
from penstock.targets._sql_session import MARKERS
from penstock.targets.kept import kept
from penstock.targets.rights import NEEDED, SCHEMA, TABLE, Right
from tests.postgresql import running_postgresql, why_not
from tests.printed import path_of
from tests.unit.cli.table_job import Job

psycopg = pytest.importorskip("psycopg", reason="no driver for PostgreSQL: pip install 'psycopg[binary]'")
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    with running_postgresql() as found:
        _as_owner(found, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        yield found


def _as_owner(server: str, *statements: str) -> None:
    with closing(psycopg.connect(server, autocommit=True)) as connection:
        for each in statements:
            connection.execute(each)


def applicable(command: str, *, is_first: bool) -> list[Right]:
    """Return the rights of a command: the first hand-over in a database creates the table of hand-overs."""
    left_out = HANDED_OVER if is_first else SCHEMA
    return [right for right in NEEDED[command] if right.place != left_out]


def cases() -> list[tuple[str, bool, Right | None]]:
    return [
        (command, is_first, missing)
        for command in NEEDED
        for is_first in ((False,) if "rollback" in command or "forget" in command else (True, False))
        for missing in (None, *applicable(command, is_first=is_first))
    ]


class Scene:
    """A table with a job that has stopped, and a user with some rights."""

    def __init__(self, server: str, folder: Path, command: str, *, is_first: bool) -> None:
        self.number = next(NUMBERS)
        self.server, self.folder, self.command = server, folder, command.split()
        self.table, self.user = f"kept_{self.number}", f"user_{self.number}"
        self.target = SqlTable(self.table, lambda: psycopg.connect(server))
        self.live = folder / "live"
        Job(self.target, self.live).run(4)
        if not is_first:
            self._hand_over(folder / "other", SqlTable(f"other_{self.number}", self.target.connect))
        if self.command[0] == "rollback":
            self.live = folder / "promoted"
            hand_over(
                kept(self.target), Wanted(self.table, str(folder / "live"), str(self.live)), is_sure=True
            )
        if is_first:
            _as_owner(server, f"DROP TABLE IF EXISTS {HANDED_OVER}")
        _as_owner(server, f"CREATE ROLE {self.user} LOGIN")

    def _hand_over(self, folder: Path, target: SqlTable) -> None:
        """Let a table of hand-overs be there, which the owner of the database has."""
        Job(target, folder / "live").run(2)
        hand_over(kept(target), Wanted("other", str(folder / "live"), str(folder / "to")), is_sure=True)

    def grant(self, rights: list[Right]) -> None:
        for operation, place in rights:
            where = {TABLE: f"TABLE {self.table}", SCHEMA: "SCHEMA public"}.get(place, f"TABLE {place}")
            _as_owner(self.server, f"GRANT {operation} ON {where} TO {self.user}")

    def run(self) -> Any:
        login = re.sub(r"user=\S+", f"user={self.user}", self.server)
        name, *options = self.command
        if name != "forget":
            options += ["--checkpoint", str(self.live), "--to", str(self.folder / "to")]
            options += ["--no-state"] if "--yes" in options else []
        return CliRunner().invoke(app, ["table", name, self.table, "--postgresql", login, *options])


@pytest.mark.parametrize(("command", "is_first", "missing"), cases())
def test_a_command_needs_these_rights_and_no_others(
    server: str, tmp_path: Path, command: str, is_first: bool, missing: Right | None
) -> None:
    scene = Scene(server, tmp_path, command, is_first=is_first)
    scene.grant([right for right in applicable(command, is_first=is_first) if right is not missing])
    before = kept(scene.target).seen()
    result = scene.run()
    if missing is None:
        assert result.exit_code == 0, (result.output, result.exception)
        return
    shown = f"{missing.operation} on {scene.table if missing.place == TABLE else missing.place}"
    assert isinstance(result.exception, MaterializeError), result.exception
    assert f"lacks rights in the database: {shown}. Nothing was " in str(result.exception)
    assert kept(scene.target).seen() == before
    assert not (tmp_path / "to").exists()


def test_a_job_reads_the_hand_overs_before_it_takes_a_table(server: str, tmp_path: Path) -> None:
    """A job that keeps the table needs no right on them. A former job, and a new one, do."""
    scene = Scene(server, tmp_path, "promote", is_first=False)
    _as_owner(server, f"GRANT SELECT, INSERT, UPDATE, DELETE ON {scene.table}, {MARKERS} TO {scene.user}")
    login = re.sub(r"user=\S+", f"user={scene.user}", server)
    target = SqlTable(scene.table, lambda: psycopg.connect(login))
    former = Job(target, scene.live)
    assert former.run(6) == [(4, 6)]
    hand_over(kept(scene.target), Wanted("t", str(scene.live), str(tmp_path / "heir")), is_sure=True)
    assert Job(target, tmp_path / "heir").run(8) == [(6, 8)]
    for job in (former, Job(target, tmp_path / "new")):
        with pytest.raises(Exception, match=f"permission denied for table {HANDED_OVER}"):
            job.run(10)
    _as_owner(server, f"GRANT SELECT ON {HANDED_OVER} TO {scene.user}")
    with pytest.raises(QueryEndedError):
        former.run(10)
    assert Job(target, tmp_path / "heir").run(10) == [(8, 10)]


def test_the_page_has_these_rights() -> None:
    text = path_of("rights.md").read_text(encoding="utf-8")
    found: dict[str, set[tuple[str, str]]] = {}
    for line in text.splitlines():
        row = re.fullmatch(r"\| `penstock table (\w+)`(?:, `(\w+)`)? (with|without) `--yes` \| (.*) \|", line)
        if row is None:
            continue
        rights = {(one, place) for several, place in _rights_in(row[4]) for one in several.split(", ")}
        for name in filter(None, row.groups()[:2]):
            found[f"{name} --yes" if row[3] == "with" else name] = rights
    assert found == {command: {tuple(right) for right in rights} for command, rights in NEEDED.items()}


def _rights_in(text: str) -> list[tuple[str, str]]:
    return re.findall(r"`([A-Z, ]+)` on `?(the table|the schema|\w+)`?", text)


def test_no_command_asks_a_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They have no option that names a cluster, and open no connection."""

    def refuse(*_: Any) -> None:
        raise AssertionError("a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    table, live = str(tmp_path / "t"), str(tmp_path / "live")
    Job(DeltaTable(table), tmp_path / "live").run(8)
    beside = ["--live-checkpoint", live, "--shadow-checkpoint", str(tmp_path / "shadow")]
    hands = [
        (live, str(tmp_path / "new"), "promote"),
        (str(tmp_path / "new"), str(tmp_path / "back"), "rollback"),
    ]
    commands = [
        ["shadow", table, f"{table}-shadow", *beside, "--delta"],
        ["compare", table, f"{table}-shadow", *beside, "--delta"],
        *(
            [name, table, "--delta", "--checkpoint", one, "--to", to, *more]
            for one, to, name in hands
            for more in ([], ["--yes", "--no-state"])
        ),
    ]
    for each in commands:
        result = CliRunner().invoke(app, ["table", *each])
        assert not isinstance(result.exception, (PenstockError, AssertionError)), (each, result.exception)
        shown = CliRunner().invoke(app, ["table", each[0], "--help"]).output
        assert "bootstrap" not in shown
