"""Record what Flink answers to the expressions of tests/data/sql, for the tests of `penstock.sql`.

Runs by hand, as a file, with the Python of the environment that flink.py makes. Invariant: an expression that
Flink refuses or that fails is recorded as an error.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent.parent / "tests" / "data" / "sql"


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def answers_to(tables: Any, expressions: list[str]) -> list[dict[str, Any]]:
    """Return types and values of expressions, asked for in one query; if that fails, in halves."""
    names = [f"c{place}" for place in range(len(expressions))]
    columns = ", ".join(f"{each} AS {name}" for each, name in zip(expressions, names, strict=True))
    try:
        table = tables.sql_query(f"SELECT {columns}")
        kinds = [str(table.get_schema().get_field_data_type(name)) for name in names]
        with table.execute().collect() as rows:
            values = list(next(rows))
    except Exception as error:  # noqa: BLE001 - Flink fails in many ways
        if len(expressions) > 1:
            half = len(expressions) // 2
            return [*answers_to(tables, expressions[:half]), *answers_to(tables, expressions[half:])]
        lines = [each for each in str(error).split("\n") if "Exception" in each]
        return [{"expression": expressions[0], "error": (lines or [str(error)])[-1][:200]}]
    return [
        {"expression": each, "type": kind, "value": plain(value)}
        for each, kind, value in zip(expressions, kinds, values, strict=True)
    ]


def main() -> None:
    """Ask Flink for each expression and write the answers."""
    from pyflink.table import EnvironmentSettings, TableEnvironment  # noqa: PLC0415 - only in its environment

    tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    tables.get_config().set("table.local-time-zone", "UTC")
    tables.get_config().set("parallelism.default", "1")
    lines = (HERE / "expressions.txt").read_text().splitlines()
    answers = [
        one for first in range(0, len(lines), 24) for one in answers_to(tables, lines[first : first + 24])
    ]
    text = json.dumps(answers, indent=1, ensure_ascii=False)
    (HERE / "flink_values.json").write_text(f"{text}\n")
    sys.stderr.write(f"{len(answers)} answers\n")


if __name__ == "__main__":
    main()
