"""The prompt, driven through prompt_toolkit's own input of tests."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from penstock.errors import SqlError
from penstock.sql.run.job import Result
from penstock.sql.shell.prompt import HELP, _Completer, run_prompt
from penstock.sql.shell.run import Shell

ENTER, CTRL_C, CTRL_D, UP = "\r", "\x03", "\x04", "\x1b[A"


@dataclass
class FakeJob:
    name: str
    is_active: bool = True
    error: str = "topic gone"
    is_stopping: bool = False


@dataclass
class FakeSession:
    jobs: list[FakeJob] = field(default_factory=list)
    on_failure: Any = None
    checkpoints: tuple[str, ...] = ("/checkpoint",)

    def execute(self, text: str) -> list[Result]:
        assert text == "SHOW TABLES"
        return [Result(columns=("tables",), rows=(("orders",),))]


@dataclass
class FakeShell:
    """Notes what it is given; a text with `raise` fails."""

    session: FakeSession = field(default_factory=FakeSession)
    ran: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    stops: bool = True
    stopped = Shell.stopped

    def note(self, text: str) -> None:
        self.notes.append(text)

    def stop_after_batch(self, timeout_ms: int) -> bool:
        self.note(f"stopped within {timeout_ms} ms")
        return self.stops

    def run(self, text: str, *, explain: bool) -> None:
        self.ran.append(text)
        if "wrong" in text:
            raise SqlError("Line 1, column 1: wrong")
        if "STOP JOB" in text:
            self.session.jobs[0].is_stopping = True
        if "stop" in text.lower():
            raise KeyboardInterrupt


def typed(text: str, folder: Path) -> FakeShell:
    """Type a text at the prompt and return what was run."""
    shell: Any = FakeShell()
    shell.session.jobs.extend([FakeJob("copy"), FakeJob("done", is_active=False)])
    with create_pipe_input() as keys:
        keys.send_text(text)
        run_prompt(shell, history=folder / "history", input=keys, output=DummyOutput())
    found: FakeShell = shell
    return found


def test_statements_over_lines_errors_and_leaving(tmp_path: Path) -> None:
    keys = [
        f"SELECT 1{ENTER}, 2;{ENTER}",
        f"half a statement{CTRL_C}",
        f"wrong;{ENTER}",
        f"stop;{ENTER}",
        f"{ENTER}help{ENTER}",
        f"SET 'x.password' = 'hunter2';{ENTER}",
        CTRL_D,
    ]
    shell = typed("".join(keys), tmp_path)
    assert shell.ran == ["SELECT 1\n, 2;", "wrong;", "stop;", "", "SET 'x.password' = 'hunter2';"]
    assert "Error: Line 1, column 1: wrong" in shell.notes
    assert "Stopped." in shell.notes
    assert HELP in shell.notes
    assert shell.notes[-1] == "stopped within 60000 ms"
    history = tmp_path / "history"
    assert "hunter2" not in history.read_text()
    assert history.stat().st_mode & 0o077 == 0
    again = typed(f"{UP}{ENTER}quit;{ENTER}", tmp_path)
    assert again.ran == ["SET 'x.password' = '*******';"]


def test_ctrl_c_during_stop_job_does_not_say_that_the_job_has_stopped(tmp_path: Path) -> None:
    shell = typed(f"STOP JOB 'copy';{ENTER}{CTRL_D}", tmp_path)
    assert "Stopped." not in shell.notes
    assert any("Still to stop after the batch: 'copy'. SHOW JOBS;" in each for each in shell.notes)


def test_a_batch_that_is_cut_off_and_a_job_that_fails_are_told(tmp_path: Path) -> None:
    shell: Any = FakeShell(stops=False)
    with create_pipe_input() as keys:
        keys.send_text(CTRL_D)
        run_prompt(shell, stop_timeout_ms=5, history=tmp_path / "history", input=keys, output=DummyOutput())
    shell.session.on_failure(FakeJob("copy"))
    assert shell.notes[-3] == "stopped within 5 ms"
    assert "start the same script once more before you change it" in shell.notes[-2]
    assert shell.notes[-1] == "The job 'copy' failed: topic gone"


@pytest.mark.parametrize(
    ("before", "completed"),
    [("desc", "DESCRIBE"), ("DESCRIBE ord", "DESCRIBE orders"), ("SET 'pipel", "SET 'pipeline.name'")],
)
def test_the_completer_ends_the_word_at_the_cursor(before: str, completed: str) -> None:
    shell: Any = FakeShell()
    [found] = _Completer(shell).get_completions(Document(before), CompleteEvent())
    assert before[: len(before) + found.start_position] + found.text == completed
