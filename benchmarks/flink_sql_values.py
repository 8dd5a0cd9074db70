"""Record what Flink answers to the expressions and scripts of tests/data/sql.

Runs by hand, as a file, with the Python of the environment that flink.py makes. Arguments name what to
record: `expressions`, `aggregates`, `corpus`; without any, all. A script that Flink refuses in batch runs as
a stream, whose changes are applied to a table. Invariant: what Flink refuses or fails to compute is recorded
as an error. tests/spark/test_sql_flink.py compares.
"""

from __future__ import annotations

import functools
import importlib
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent.parent / "tests" / "data" / "sql"
CORPUS = HERE / "corpus"
ZONES = {"expressions": "UTC", "berlin": "Europe/Berlin"}
"""The files of expressions, and the time zone of the session that each is computed in."""
_AT_ONCE = 24
_SLOTS = 4


def plain(value: Any) -> Any:  # noqa: PLR0911 - one for each kind of value
    """Return a value as JSON can hold it."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).hex()
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in sorted(value.items(), key=str)}
    if hasattr(value, "to_epoch_milli"):  # an Instant of PyFlink
        return f"{value.to_epoch_milli()} ms"
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return [plain(each) for each in value] if hasattr(value, "__iter__") else str(value)


def kind_text(kind: Any) -> str:
    """Return a type as text, a DECIMAL with its digits."""
    if type(kind).__name__ == "DecimalType":
        return f"DECIMAL({kind.precision}, {kind.scale})"
    return str(kind)


def reason(error: Exception) -> str:
    """Return the line that says why Flink failed."""
    lines = [each.strip() for each in str(error).split("\n")]
    said = [each for each in lines if re.match(r"(Caused by|: )", each) and "Exception" in each]
    return re.sub(r"0x[0-9a-f]+|/\S+", "...", (said or lines)[-1])[:200]


@functools.cache
def flink_worker() -> Any:
    """Return the module beside this file that starts Flink. It is importable only in Flink's environment."""
    return importlib.import_module("flink_worker")


@functools.cache
def cluster_address() -> str:
    """Start the one cluster of this process and return its address. Jobs start faster on it."""
    address: str = flink_worker().start_cluster(_SLOTS)
    return address


def environment(mode: str, zone: str = "UTC") -> Any:
    """Return a new table environment of one task."""
    settings = {"parallelism.default": "1", "table.local-time-zone": zone}
    return flink_worker().table_environment(cluster_address(), settings, is_batch=mode == "batch")


def answers_to(tables: Any, expressions: list[str], source: str = "") -> list[dict[str, Any]]:
    """Return types and values of expressions, asked for in one query; if that fails, in halves."""
    names = [f"c{place}" for place in range(len(expressions))]
    columns = ", ".join(f"{each} AS {name}" for each, name in zip(expressions, names, strict=True))
    try:
        table = tables.sql_query(f"SELECT {columns}{source}")
        schema = table.get_schema()
        kinds = [kind_text(schema.get_field_data_type(name)) for name in names]
        with table.execute().collect() as rows:
            values = list(next(rows))
    except Exception as error:  # noqa: BLE001 - Flink fails in many ways
        if len(expressions) > 1:
            half = len(expressions) // 2
            return [
                *answers_to(tables, expressions[:half], source),
                *answers_to(tables, expressions[half:], source),
            ]
        return [{"expression": expressions[0], "error": reason(error)}]
    return [
        {"expression": each, "type": kind, "value": plain(value)}
        for each, kind, value in zip(expressions, kinds, values, strict=True)
    ]


def answers_of_file(tables: Any, name: str, source: str = "") -> list[dict[str, Any]]:
    """Return the answers to the lines of a file, one query for those that Flink can plan, some at a time."""
    lines = (HERE / f"{name}.txt").read_text().splitlines()
    answers = {each: refusal(tables, each, source) for each in lines}
    planned = [each for each in lines if answers[each] is None]
    for start in range(0, len(planned), _AT_ONCE):
        for answer in answers_to(tables, planned[start : start + _AT_ONCE], source):
            answers[answer["expression"]] = answer
        sys.stderr.write(f"{name}: {start} of {len(planned)}\n")
    return [answers[each] or {} for each in lines]


def refusal(tables: Any, expression: str, source: str) -> dict[str, Any] | None:
    """Return the error of an expression that Flink cannot plan; None if it can."""
    try:
        tables.sql_query(f"SELECT {expression} AS x{source}")
    except Exception as error:  # noqa: BLE001 - Flink fails in many ways
        return {"expression": expression, "error": reason(error)}
    return None


def statements(text: str, out: Path) -> list[str]:
    """Return the statements of a script, with its folders filled in."""
    text = text.replace("${data}", str(CORPUS / "input")).replace("${out}", str(out))
    return [each.strip() for each in re.split(r";\s*(?:\n|$)", text) if each.strip()]


def changes_applied(rows: Iterator[Any]) -> list[Any]:
    """Return the final rows of a changelog."""
    final: list[Any] = []
    for row in rows:
        value = plain(row)
        if row.get_row_kind().name in ("INSERT", "UPDATE_AFTER"):
            final.append(value)
        else:
            final.remove(value)
    return final


def run_script(text: str, mode: str, out: Path) -> dict[str, Any]:
    """Run the statements of a script and return the columns and rows of its last one."""
    tables = environment(mode)
    for each in statements((CORPUS / "tables.sql").read_text(), out):
        tables.execute_sql(each)
    *first, last = statements(text, out)
    for each in first:
        result = tables.execute_sql(each)
        if result.get_job_client() is not None:
            result.wait()
    result = tables.execute_sql(last)
    schema = result.get_table_schema()
    kinds = [[name, kind_text(schema.get_field_data_type(name))] for name in schema.get_field_names()]
    with result.collect() as rows:
        return {"mode": mode, "columns": kinds, "rows": changes_applied(rows)}


def answer_to_script(path: Path) -> dict[str, Any]:
    """Return what a script gives in batch; if Flink refuses that, as a stream."""
    for mode in ("batch", "streaming"):
        try:
            with tempfile.TemporaryDirectory() as folder:
                return run_script(path.read_text(), mode, Path(folder))
        except Exception as error:  # noqa: BLE001, PERF203 - Flink fails in many ways
            said = reason(error)
    return {"error": said}


def write(path: Path, answers: Any) -> None:
    """Write answers as JSON."""
    path.write_text(f"{json.dumps(answers, indent=1, ensure_ascii=False)}\n")
    sys.stderr.write(f"{path.name}: {len(answers)} answers\n")


def record(what: str) -> None:
    """Ask Flink for one kind of answers and write them."""
    if what == "expressions":
        for name, zone in ZONES.items():
            write(HERE / f"flink_{name}.json", answers_of_file(environment("batch", zone), name))
    if what == "aggregates":
        tables = environment("batch")
        tables.execute_sql((HERE / "rows.sql").read_text())
        write(HERE / "flink_aggregates.json", answers_of_file(tables, "aggregates", " FROM some_rows"))
    if what == "corpus":
        paths = [path for path in sorted(CORPUS.glob("*.sql")) if path.name != "tables.sql"]
        answers = {}
        for path in paths:
            answers[path.stem] = answer_to_script(path)
            sys.stderr.write(f"{path.stem}: {answers[path.stem].get('error', 'done')}\n")
        write(CORPUS / "flink.json", answers)


def main() -> None:
    """Record what the arguments name."""
    for what in sys.argv[1:] or ("expressions", "aggregates", "corpus"):
        record(what)


if __name__ == "__main__":
    main()
