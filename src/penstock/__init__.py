"""penstock: what Flink users have with Kafka, for PySpark users. This module has public names only.

`__init__.pyi` lists the names and their modules.
Invariant: `import penstock` is fast. A name loads its module, and PySpark if needed, when it is first used.
"""

from penstock._lazy import names_of_stub

__version__ = "0.1.0"

_names, __getattr__ = names_of_stub(__name__, __file__)
__all__ = ["__version__", *_names]  # noqa: PLE0604 - names, all of them


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
