"""How a Python object of the user gets into an option.

Runs in the user's program. Invariant: the user registers nothing. The class of the object travels by value,
so its module need not be installed where the query is planned; penstock's own classes travel by name.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from penstock.errors import OptionError
from penstock.options.custom_offsets import join_text


def to_text(value: object) -> str:
    """The text of an option for `value`.

    Raises:
        OptionError: it cannot be pickled, or is too large.
    """
    from pyspark import cloudpickle  # noqa: PLC0415 - `import penstock` stays light

    try:
        with _by_value(cloudpickle, sys.modules.get(type(value).__module__)):
            pickled: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]  # it has no types
    except Exception as error:
        raise OptionError(
            f"The object {type(value).__qualname__} cannot be sent to Spark: {type(error).__name__}: "
            f"{error}. It may hold values only that can be pickled: no sessions, connections or locks."
        ) from error
    return join_text(pickled, f"{sys.version_info.major}.{sys.version_info.minor}")


@contextmanager
def _by_value(cloudpickle: Any, module: ModuleType | None) -> Iterator[None]:
    """Pickle what `module` defines by value. `__main__` always is."""
    name = "__main__" if module is None else module.__name__
    is_ours = name.partition(".")[0] == "penstock"
    if is_ours or name == "__main__" or name in cloudpickle.list_registry_pickle_by_value():
        yield
        return
    cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        cloudpickle.unregister_pickle_by_value(module)
