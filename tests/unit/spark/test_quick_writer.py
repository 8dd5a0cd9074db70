"""Which location of a checkpoint the writers of materialize and replicate see, and who waits for a start."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import MagicMock

import pytest

from penstock.spark import one_thread
from penstock.spark._quick_writer import QuickWriter
from penstock.spark.local_checkpoints import MANAGER, quick_local_checkpoints
from penstock.testing.waiting import wait_until
from tests.unit.spark.test_one_thread import session_with

STORE = "s3://bucket/checkpoint"


def location_of(start: Callable[[QuickWriter], object], monkeypatch: pytest.MonkeyPatch) -> str | None:
    """Return with which location of a checkpoint a query starts."""
    seen: list[str | None] = []

    @contextlib.contextmanager
    def quick(_: Any, location: str | None) -> Iterator[None]:
        seen.append(location)
        yield

    monkeypatch.setattr(sys.modules["penstock.spark._quick_writer"], "quick_local_checkpoints", quick)
    start(QuickWriter(MagicMock()))
    (location,) = seen
    return location


@pytest.mark.parametrize(
    "start",
    [
        lambda writer: writer.option("CheckpointLocation", STORE).options(checkpointLocation=None).start(),
        lambda writer: writer.options(CHECKPOINTLOCATION=STORE).start(checkpointLocation=None),
        lambda writer: writer.option("checkpointLocation", "/a").start(checkpointLocation=STORE),
        lambda writer: writer.option("checkpointLocation", STORE).option("truncate", value=False).start(),
    ],
)
def test_the_location_is_the_one_that_spark_takes(
    start: Callable[[QuickWriter], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An option that is None changes nothing. The store of the checkpoint decides about the manager."""
    assert location_of(start, monkeypatch) == STORE


class Watched:
    """A lock that knows who has asked for it."""

    def __init__(self, lock: Any) -> None:
        self._lock, self.asked = lock, set[threading.Thread]()

    def __enter__(self) -> None:
        self.asked.add(threading.current_thread())
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_a_query_elsewhere_does_not_start_with_the_quick_manager_of_another_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    conf: dict[str, str] = {}
    session, lock = session_with(conf), Watched(one_thread.setting)
    session._jvm.org.apache.hadoop.fs.Path().getFileSystem().getUri().getScheme.return_value = "s3"
    for name in ("one_thread", "local_checkpoints"):
        monkeypatch.setattr(sys.modules[f"penstock.spark.{name}"], "setting", lock, raising=False)
    seen: list[dict[str, str]] = []

    def start_elsewhere() -> None:
        with quick_local_checkpoints(session, STORE):
            seen.append(dict(conf))

    other = threading.Thread(target=start_elsewhere)
    with one_thread.option_set(session, MANAGER, "the.quick.One"):
        other.start()
        wait_until(lambda: seen or other in lock.asked, "the other query starts, or waits")
    other.join()
    assert seen == [{}]
