"""kafka-python's package without its three clients, which are loaded when somebody asks for them.

Runs in every process, before anything else of kafka-python is imported. `kafka/__init__.py` imports
KafkaAdminClient, KafkaConsumer and KafkaProducer with everything below them: a quarter of what
kafka-python costs a worker at its start, and penstock uses none of it.

Invariant: whoever uses kafka-python beside penstock sees the package that is installed: the first name that
is asked for and not there runs the package's own `__init__.py`, in the same module.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
from importlib.abc import Loader
from types import ModuleType
from typing import Any

_NAME = "kafka"


def defer_clients() -> None:
    """Put the package into `sys.modules` without running it; nothing happens where it is imported already."""
    if _NAME in sys.modules:
        return
    spec = importlib.util.find_spec(_NAME)
    if spec is None or spec.loader is None:
        return  # the import that follows says so
    package = importlib.util.module_from_spec(spec)
    package.__dict__["__getattr__"] = _Rest(package, spec.loader)
    sys.modules[_NAME] = package
    # `from kafka import errors` asks the package for the name before it looks for the module.
    importlib.import_module(f"{_NAME}.errors")


class _Rest:
    """The package's `__getattr__` (PEP 562) until its `__init__.py` has run."""

    def __init__(self, package: ModuleType, loader: Loader) -> None:
        self._package = package
        self._loader = loader
        self._of_thread = threading.local()

    def __call__(self, name: str) -> Any:
        # No lock: a thread that waits here while it holds one of the import system could wait for ever. Two
        # threads that come at once run the file twice, which binds the same names to the same things.
        if not getattr(self._of_thread, "is_running", False):
            self._run()
        try:
            return self._package.__dict__[name]
        except KeyError:
            raise AttributeError(f"module {_NAME!r} has no attribute {name!r}") from None

    def _run(self) -> None:
        self._of_thread.is_running = True
        try:
            self._loader.exec_module(self._package)
        finally:
            self._of_thread.is_running = False
        self._package.__dict__.pop("__getattr__", None)
