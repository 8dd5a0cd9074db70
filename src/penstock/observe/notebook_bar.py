"""A progress bar in a notebook, without ipywidgets, which `rich` needs there.

Runs in the user's program, in a kernel of Jupyter. Loaded only there. Invariant: one output of the cell shows
the bar, and each drawing replaces it.
"""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console
from rich.progress import Progress, ProgressColumn

_WIDTH = 100
_HTML = '<pre style="font-family:Menlo,Consolas,monospace;white-space:pre">{code}</pre>'


class NotebookProgress(Progress):
    """The bars of `rich`, drawn by `IPython.display`.

    Args:
        columns: of each bar.
    """

    def __init__(self, *columns: ProgressColumn) -> None:
        self._handle: Any = None
        # rich does not draw what is disabled.
        super().__init__(*columns, disable=True, console=_console())

    def refresh(self) -> None:
        """Draw the bars in the place of the last drawing."""
        from IPython.display import display  # noqa: PLC0415 - a kernel has it

        drawn = _console()
        drawn.print(self.get_renderable())
        data = {
            "text/plain": drawn.export_text(clear=False).rstrip(),
            "text/html": drawn.export_html(code_format=_HTML, inline_styles=True),
        }
        if self._handle is None:
            self._handle = display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)

    def stop(self) -> None:
        """Draw the last state."""
        super().stop()
        self.refresh()


def _console() -> Console:
    return Console(file=io.StringIO(), width=_WIDTH, record=True, force_terminal=True, force_jupyter=False)
