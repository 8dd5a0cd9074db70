"""Put a Python object of the user into an option.

Runs in the user's program. Invariant: the class of the object travels by value without any registration, so
its module need not be installed where the query is planned. Penstock's own classes travel by name.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from penstock.errors import OptionError
from penstock.options.python_objects import INITIALIZER, ObjectKind


def to_text(value: object, kind: ObjectKind = INITIALIZER) -> str:
    """Return the text of an option for `value`.

    Raises:
        OptionError: the object cannot be pickled, or its pickle is too large.
    """
    from pyspark import cloudpickle  # noqa: PLC0415 - `import penstock` stays light

    try:
        with _by_value(cloudpickle, _module_of(value)):
            pickled: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]  # it has no types
    except Exception as error:
        name = getattr(value, "__qualname__", type(value).__qualname__)
        raise OptionError(
            f"The object {name} cannot be sent to Spark: {type(error).__name__}: "
            f"{error}. All values in it must be picklable: sessions, connections and locks are not."
        ) from error
    return kind.join(pickled, f"{sys.version_info.major}.{sys.version_info.minor}")


def _module_of(value: object) -> ModuleType | None:
    """Return the module in which the user defined a function, or the class of an object."""
    wrapped = getattr(value, "user_object", None)
    if wrapped is not None:  # an object of penstock around it
        return _module_of(wrapped)
    if isinstance(value, functools.partial):
        return _module_of(value.func)
    name = getattr(value, "__module__", None)
    return sys.modules.get(name) if isinstance(name, str) else None


@contextmanager
def _by_value(cloudpickle: Any, module: ModuleType | None) -> Iterator[None]:
    """Pickle the classes of `module` by value. `__main__` always is, and the standard library never is."""
    name = "__main__" if module is None else module.__name__
    root = name.partition(".")[0]
    is_everywhere = root in ("penstock", "__main__") or root in sys.stdlib_module_names
    if is_everywhere or name in cloudpickle.list_registry_pickle_by_value():
        yield
        return
    cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        cloudpickle.unregister_pickle_by_value(module)
