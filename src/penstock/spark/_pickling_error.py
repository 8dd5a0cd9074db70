"""Let errors of penstock pass through Spark's serializer, so that the user sees them unchanged.

Runs on the driver. Spark's serializer turns every error into `PicklingError: Could not serialize object`,
which hides the cause; only errors of the pickle module pass unchanged. Invariant: the raised error is an
instance of its own class, with its name, text and facts.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from penstock.errors import PenstockError


@contextmanager
def errors_as_themselves() -> Iterator[None]:
    """Raise errors of penstock so that Spark's serializer lets them through."""
    try:
        yield
    except PenstockError as error:
        raise _let_through(error) from error.__cause__


def _let_through(error: PenstockError) -> PenstockError:
    kind = type(error)

    def reduce(_: PenstockError) -> tuple[Any, ...]:
        return error.__reduce__()  # pickle finds the error's own class, because the name is the same

    looks = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__reduce__": reduce}
    passed: type[PenstockError] = type(kind.__name__, (kind, pickle.PickleError), looks)
    return passed(error.message, **error.facts)
