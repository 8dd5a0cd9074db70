"""Judge the scripts of SQL: `python -m tests.judges.sql [--missing] [beginnings of names, or a mode]`.

With FLINK=1 it asks a real Flink and writes its answers; `--missing` asks only what has no answer yet, and
`--seconds=300` ends after that time. Without it, it
runs penstock and prints what is equal, refused and different; `--write` writes the list of refusals.
"""

from __future__ import annotations

import math
import os
import sys


def main(arguments: list[str]) -> int:
    """Record or compare, and return the exit status."""
    names = [each for each in arguments if not each.startswith("--")]
    if os.environ.get("FLINK") == "1":
        from tests.judges.sql.record import record  # noqa: PLC0415 - installs Flink

        limit_s = next((float(each[10:]) for each in arguments if each.startswith("--seconds=")), math.inf)
        record(names, only_missing="--missing" in arguments, limit_s=limit_s)
        return 0
    from tests.judges.sql.judged import judge_all  # noqa: PLC0415 - starts Spark

    return judge_all(names, is_written="--write" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
