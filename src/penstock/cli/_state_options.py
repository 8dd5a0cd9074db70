"""The options with which a command carries the state of a job over: --state and --new-state.

Runs where the command runs.
"""

from __future__ import annotations

from typing import Annotated

import typer

State = Annotated[
    str | None,
    typer.Option(
        "--state",
        help="The folder that functions of penstock.changelog have as `state` in the job, a path or URI.",
    ),
]
NewState = Annotated[
    str | None,
    typer.Option("--new-state", help="A new folder for the copy of that state, which the other job gets."),
]


def state_line(new_state: str | None) -> list[str]:
    """Return what to tell users of a job with a state."""
    if new_state is None:
        return []
    from penstock.security.location import without_secrets  # noqa: PLC0415 - lazy

    return [f"Give the functions of penstock.changelog state = {without_secrets(new_state)} in this job."]
