"""Read the files of the page.

Runs in the process that plans a stream. Invariant: only the files in `_KINDS` are served, whatever the path.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

_KINDS = {
    "index.html": "text/html; charset=utf-8",
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "parts.js": "text/javascript; charset=utf-8",
    "uplot.css": "text/css; charset=utf-8",
    "uplot.js": "text/javascript; charset=utf-8",
    "uplot.LICENSE": "text/plain; charset=utf-8",
}

CONTENT_SECURITY_POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"  # noqa: E501 - one header
"""The page loads nothing from other places and runs no script in texts, e.g. in the name of a topic."""


@cache
def page_file(path: str) -> tuple[str, bytes] | None:
    """Return the content type and the bytes of a file of the page; None for any other path.

    Args:
        path: of the request, with its slash.
    """
    name = path.removeprefix("/") or "index.html"
    kind = _KINDS.get(name)
    return None if kind is None else (kind, files(__package__).joinpath(name).read_bytes())
