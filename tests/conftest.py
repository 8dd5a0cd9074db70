"""List the fixture plugins. Give each test the marker of its folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# `make unit` should end in 30 s. HYPOTHESIS_PROFILE=thorough tries many more examples.
# No deadline, because a pause of the machine is not a failure of the tested code.
settings.register_profile("quick", max_examples=50, deadline=None)
settings.register_profile("thorough", max_examples=2_000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

pytest_plugins = ["tests.fix_broker", "tests.fix_spark"]

KINDS = {"unit", "contract", "kafka", "spark", "chaos", "parity", "compat", "package"}
MARKER_OF = {"contract": "unit", "compat": "spark"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    root = Path(__file__).parent
    for item in items:
        kind = item.path.relative_to(root).parts[0]
        if kind not in KINDS:
            msg = f"{item.nodeid}: tests live in one of {sorted(KINDS)}"
            raise pytest.UsageError(msg)
        item.add_marker(MARKER_OF.get(kind, kind))
