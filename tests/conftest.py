"""List the fixture plugins. Give each test the marker of its folder."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from tests.examples import load_profile

load_profile()
pytest.register_assert_rewrite("tests.scenarios")

pytest_plugins = ["penstock.testing.plugin", "tests.fix_broker", "tests.fix_spark"]

SHARED = (
    "dev_kafka_of_three",
    "guarded",
    "secured",
    "mortal_broker",
    "connect_spark",
    "shown",
    "java_properties",
)
"""Fixtures that one worker of xdist should start for all (`--dist loadgroup`), because that takes long."""
KINDS = {"unit", "contract", "kafka", "spark", "chaos", "parity", "compat", "package", "page"}
MARKER_OF = {"contract": "unit", "compat": "spark"}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    root = Path(__file__).parent
    for item in items:
        kind = item.path.relative_to(root).parts[0]
        if kind not in KINDS:
            msg = f"{item.nodeid}: tests live in one of {sorted(KINDS)}"
            raise pytest.UsageError(msg)
        item.add_marker(MARKER_OF.get(kind, kind))
        shared = [name for name in SHARED if name in _fixtures_of(item)]
        if shared and config.pluginmanager.hasplugin("xdist"):
            item.add_marker(pytest.mark.xdist_group(shared[0]))
    # Or a worker would be alone with one of them at the end. Otherwise the order stays random.
    items.sort(key=lambda item: [item.get_closest_marker(name) is None for name in ("long", "xdist_group")])


def _fixtures_of(item: pytest.Item) -> set[str]:
    """Return the fixtures that a test names, also those that it names as a parameter."""
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return {*getattr(item, "fixturenames", ()), *(each for each in parameters if isinstance(each, str))}


def pytest_collection_finish() -> None:
    """Keep thousands of tests and their modules out of each garbage collection."""
    gc.collect()
    gc.freeze()
