"""The prompt of `penstock sql`.

Runs on the driver's machine, on a terminal. Invariant: nothing secret gets into the history, and an error
ends the statement, never the prompt. Ctrl-C drops the text or stops a running SELECT; Ctrl-D leaves.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from penstock.extras import missing_extra
from penstock.sql.language.source import without_secrets
from penstock.sql.run.settings import settings_and_values
from penstock.sql.shell.run import INTERRUPTED, STOP_TIMEOUT_MS, Shell, StoppedError, failures
from penstock.sql.shell.statements import is_complete, is_help, is_leave
from penstock.sql.shell.suggest import SessionNames, suggest

try:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.application import get_app
    from prompt_toolkit.completion import CompleteEvent, Completer, Completion
    from prompt_toolkit.document import Document
    from prompt_toolkit.filters import Condition
    from prompt_toolkit.history import FileHistory, History
    from prompt_toolkit.patch_stdout import patch_stdout
except ModuleNotFoundError as error:
    raise missing_extra("sql", "The prompt") from error

HELP = """\
Type a statement of Flink's SQL and end it with `;`. Enter begins a new line before that.
Tab completes statements, tables, and the options in WITH and SET. The arrow keys bring statements back.
SELECT over a stream shows a live table; Ctrl-C stops it.
INSERT runs in the background: SHOW JOBS; lists the jobs, and STOP JOB '...'; stops one after its batch.
Ctrl-D or QUIT leaves and stops the jobs after their batches. docs/sql.md says what is served."""


def run_prompt(
    shell: Shell,
    *,
    explain: bool = False,
    stop_timeout_ms: int = STOP_TIMEOUT_MS,
    history: Path | None = None,
    input: Any = None,
    output: Any = None,
) -> None:
    """Read statements and run them until the user leaves.

    Args:
        shell: runs them.
        explain: whether statements are explained instead of run.
        stop_timeout_ms: how long jobs have for the end of their batches when the user leaves.
        history: the file of earlier statements; None for that of the user.
        input: of prompt_toolkit; None for the terminal.
        output: of prompt_toolkit; None for the terminal.
    """
    prompt: Any = PromptSession(
        history=_history(_history_file() if history is None else history),
        completer=_Completer(shell),
        complete_while_typing=False,
        multiline=Condition(lambda: not is_complete(get_app().current_buffer.text)),
        prompt_continuation=lambda width, *_: " " * (width - 2) + "> ",
        input=input,
        output=output,
    )
    shell.note("Flink's SQL on Spark. HELP; says more, Ctrl-D leaves.")
    shell.session.on_failure = lambda job: shell.note(f"The job '{job.name}' failed: {job.error}")
    while True:
        try:
            with patch_stdout(raw=True):  # a job that fails is told above the line that is typed
                text = prompt.prompt("penstock> ")
        except KeyboardInterrupt:
            continue
        except EOFError:
            break
        if is_leave(text):
            break
        _run(shell, text, explain=explain)
    try:
        if shell.stop_after_batch(stop_timeout_ms):
            return
    except KeyboardInterrupt:
        pass
    shell.note(shell.stopped(is_cut_off=True))


def _run(shell: Shell, text: str, *, explain: bool) -> None:
    if is_help(text):
        shell.note(HELP)
        return
    try:
        with failures():
            shell.run(text, explain=explain)
    except StoppedError as error:
        shell.note(_interrupted(shell) if error.status == INTERRUPTED else f"Error: {error}")


def _interrupted(shell: Shell) -> str:
    """Return what Ctrl-C has done to a statement. It ends the waiting of STOP JOB, not the stop."""
    names = ", ".join(f"'{job.name}'" for job in shell.session.jobs if job.is_stopping)
    if not names:
        return "Stopped."
    return f"Stopped waiting. Still to stop after the batch: {names}. SHOW JOBS; shows the states."


class _Completer(Completer):  # type: ignore[misc]  # pyproject: its types are not read
    """Completes what `suggest` knows."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Return the texts that may stand at the cursor."""
        tables = [row[0] for row in self._shell.session.execute("SHOW TABLES")[0].rows]
        found = suggest(document.text_before_cursor, SessionNames(tables, settings_and_values()))
        for text in found.texts:
            yield Completion(text, start_position=-found.length)


def _history(path: Path) -> History:
    """Return the history in a file that only its user can read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    return _MaskedHistory(str(path))


class _MaskedHistory(FileHistory):  # type: ignore[misc]  # pyproject: its types are not read
    """A history without secrets."""

    def store_string(self, string: str) -> None:
        """Keep a statement, with stars for its secrets."""
        super().store_string(without_secrets(string))


def _history_file() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(base).expanduser() / "penstock" / "sql_history"
