"""Let `penstock sql` start in less time: Spark's classes from an archive, our modules while Java starts.

Runs on the driver's machine.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

OF_SCRIPTS = ("penstock.sql.run.session", "penstock.sql.shell.run", "penstock.sql.shell.select")


@contextmanager
def importing(names: tuple[str, ...] = OF_SCRIPTS) -> Iterator[None]:
    """Import modules in a thread while Java starts, because the process only waits then.

    An import that fails here fails again where it is written, with its message.
    """
    thread = threading.Thread(target=_import, args=(names,), name="penstock-imports", daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def _import(names: tuple[str, ...]) -> None:
    for name in names:
        with suppress(Exception):
            importlib.import_module(name)
