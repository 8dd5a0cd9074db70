"""Errors of drivers of the Python DB API, which penstock knows by their names only.

Pure; runs where a database is asked. Invariant: a text that may hold a password is not shown.
"""

from __future__ import annotations

from penstock.errors import PenstockError


def is_of_driver(error: Exception) -> bool:
    """Return whether an error is one of a driver: each driver has a class `Error` above all of them."""
    is_ours = isinstance(error, PenstockError)
    return not is_ours and any(kind.__name__ == "Error" for kind in type(error).__mro__)


def told(error: Exception) -> str:
    """Return in one line what a driver says. A connection text that it cannot read may hold a password."""
    name = type(error).__name__
    text = " ".join(str(error).split()).rstrip(".?")
    return name if name == "ProgrammingError" or not text else f"{name}: {text}"
