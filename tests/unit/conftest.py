"""What each unit test leaves as it found it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.sink.exactly_once._probes import observe


@pytest.fixture(autouse=True)
def _nobody_observes() -> Iterator[None]:
    """No test's observer of the protocol's steps outlives it."""
    yield
    observe(None)
