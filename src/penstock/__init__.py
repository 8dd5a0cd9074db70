"""penstock: what Flink users have with Kafka, for PySpark users. This module has public names only.

Public is what docs/api/README.md lists: this module, `cdc`, `changelog`, `devbroker`, `errors`, `flink`,
`lineage`, `metrics`, `sql`, `targets` and `testing`. Every other module is internal, and may change in any
version.

Inside:

`__init__.pyi` lists the names and the modules that have them.
Invariant: `import penstock` is fast. A name loads its module, and PySpark if needed, when it is first used.

PYTEST_DONT_REWRITE: without this word pytest warns if penstock was imported before it starts.
"""

from penstock._lazy import names_of_stub
from penstock._one_package import check_one_package

__version__ = "0.1.0"

check_one_package()

_names, __getattr__, __dir__ = names_of_stub(__name__, __file__)
__all__ = ["__version__", *_names]  # noqa: PLE0604 - names, all of them
