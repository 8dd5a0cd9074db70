"""What each test against the broker leaves behind, put away."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.client.produce.pool import close_kept_producers


@pytest.fixture(autouse=True)
def _no_kept_producers() -> Iterator[None]:
    """Close the producers that tasks kept: they must not outlive the test, in whatever order tests run."""
    yield
    close_kept_producers()
