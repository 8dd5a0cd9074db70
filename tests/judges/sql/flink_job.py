"""Ask Flink: run scripts, and compute expressions. The job of `tests.judges.sql`.

Runs as a file, with the Python of the environment that has apache-flink. Arguments: the file with the
questions, the file for the answers (a line for each), and the seconds after which no further question is
asked. Invariant: what Flink refuses or fails to compute is recorded as an error. A script has a new table
environment, so that no script changes another.
"""

from __future__ import annotations

import functools
import importlib
import json
import re
import sys
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

# Of the benchmark, found by the path above, and of Flink's environment.
flink_worker: Any = importlib.import_module("flink_worker")
JavaMap: Any = importlib.import_module("py4j.java_collections").JavaMap

_AT_ONCE = 24
_SLOTS = 4
_LIMIT_S = 90.0
"""How long a statement may run. All tables are bounded, so none runs for ever unless something is wrong."""
_SET = re.compile(r"SET\s+'([^']+)'\s*=\s*'([^']*)'\s*$", re.IGNORECASE)


def plain(value: Any) -> Any:  # noqa: PLR0911 - one for each kind of value
    """Return a value of Java as JSON can hold it. Flink's own conversion to Python fails for some arrays."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).hex()
    if not hasattr(value, "getClass"):
        return str(value) if hasattr(value, "as_tuple") else [plain(each) for each in value]
    name = str(value.getClass().getName())
    if isinstance(value, JavaMap):
        found = {_key(each.getKey()): plain(each.getValue()) for each in value.entrySet()}
        return dict(sorted(found.items()))
    if name == "java.time.LocalDateTime":
        return _time(str(value.toString()))
    if name == "java.time.Instant":
        return f"{value.toEpochMilli()} ms"
    if name == "org.apache.flink.types.Row":
        return [plain(value.getField(index)) for index in range(value.getArity())]
    return [plain(each) for each in value] if name.startswith("[") else str(value.toString())


def _key(key: Any) -> str:
    """Return a key of a map as text, as Python writes it."""
    return str(plain(key))


def _time(text: str) -> str:
    """Return a time of Java as Python writes it: with seconds, and six digits or none behind them."""
    clock, _, fraction = text.partition(".")
    whole = clock if clock.count(":") == 2 else f"{clock}:00"
    return f"{whole}.{fraction[:6]:0<6}" if fraction.strip("0") else whole


def kind_text(kind: Any) -> str:
    """Return a type as text, a DECIMAL with its digits."""
    if type(kind).__name__ == "DecimalType":
        return f"DECIMAL({kind.precision}, {kind.scale})"
    return str(kind)


def reason(error: Exception) -> str:
    """Return the line that says why Flink failed."""
    lines = [each.strip() for each in str(error).split("\n") if each.strip()]
    said = [each for each in lines if re.match(r"(Caused by: |: )?[\w.$]+(Exception|Error)\b", each)]
    return re.sub(r"0x[0-9a-f]+|/\S+", "...", (said or lines)[-1])[:200]


@functools.cache
def cluster_address() -> str:
    """Start the one cluster of this process and return its address. Jobs start faster on it."""
    address: str = flink_worker.start_cluster(_SLOTS)
    return address


def environment(mode: str, zone: str = "UTC") -> Any:
    """Return a new table environment of one task."""
    settings = {"parallelism.default": "1", "table.local-time-zone": zone}
    return flink_worker.table_environment(cluster_address(), settings, is_batch=mode == "batch")


def answers_to(tables: Any, expressions: list[str], source: str = "") -> list[dict[str, Any]]:
    """Return types and values of expressions, asked for in one query; if that fails, in halves."""
    names = [f"c{index}" for index in range(len(expressions))]
    columns = ", ".join(f"{each} AS {name}" for each, name in zip(expressions, names, strict=True))
    try:
        table = tables.sql_query(f"SELECT {columns}{source}")
        schema = table.get_schema()
        kinds = [kind_text(schema.get_field_data_type(name)) for name in names]
        values = rows_of(table.execute())[0][1]
    except Exception as error:  # noqa: BLE001 - Flink fails in many ways
        if len(expressions) > 1:
            half = len(expressions) // 2
            return [
                *answers_to(tables, expressions[:half], source),
                *answers_to(tables, expressions[half:], source),
            ]
        return [{"expression": expressions[0], "error": reason(error)}]
    return [
        {"expression": each, "type": kind, "value": value}
        for each, kind, value in zip(expressions, kinds, values, strict=True)
    ]


def refusal(tables: Any, expression: str, source: str) -> dict[str, Any] | None:
    """Return the error of an expression that Flink cannot plan; None if it can."""
    try:
        tables.sql_query(f"SELECT {expression} AS x{source}")
    except Exception as error:  # noqa: BLE001 - Flink fails in many ways
        return {"expression": expression, "error": reason(error)}
    return None


def rows_of(result: Any) -> list[tuple[str, list[Any]]]:
    """Return the changes that a query gives: the kind and the values of each."""
    rows = result._j_table_result.collect()
    found = []
    try:
        while rows.hasNext():
            row = rows.next()
            found.append((str(row.getKind().shortString()), plain(row)))
    finally:
        rows.close()
    return found


def changes_applied(changes: list[tuple[str, list[Any]]]) -> list[Any]:
    """Return the final rows of a changelog."""
    final: list[Any] = []
    for kind, values in changes:
        if kind in ("+I", "+U"):
            final.append(values)
        else:
            final.remove(values)
    return final


def expressions(question: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the answers to expressions, in one query for those that Flink can plan, some at a time."""
    tables = environment("batch", question["zone"])
    for each in question["statements"]:
        tables.execute_sql(each)
    lines, source = question["expressions"], question["source"]
    answers = {each: refusal(tables, each, source) for each in lines}
    planned = [each for each in lines if answers[each] is None]
    for start in range(0, len(planned), _AT_ONCE):
        for answer in answers_to(tables, planned[start : start + _AT_ONCE], source):
            answers[answer["expression"]] = answer
        sys.stderr.write(f"{question['name']}: {start} of {len(planned)}\n")
    return [answers[each] or {} for each in lines]


def script(question: dict[str, Any]) -> dict[str, Any]:
    """Run the statements of a script and return the columns and rows of its last one."""
    try:
        return _table(question["mode"], question["statements"])
    except Exception as error:  # noqa: BLE001 - Flink fails in many ways
        return {"error": reason(error)}


def _table(mode: str, statements: list[str]) -> dict[str, Any]:
    tables = environment(mode)
    *first, last = statements
    for each in first:
        setting = _SET.match(each)
        if setting:
            tables.get_config().set(*setting.groups())
            continue
        result = tables.execute_sql(each)
        if result.get_job_client() is not None:
            with _Limit(result):
                result.wait()
    result = tables.execute_sql(last)
    schema = result.get_table_schema()
    kinds = [[name, kind_text(schema.get_field_data_type(name))] for name in schema.get_field_names()]
    with _Limit(result):
        return {"columns": kinds, "rows": changes_applied(rows_of(result))}


class _Limit:
    """Cancels a job that goes on for too long."""

    def __init__(self, result: Any) -> None:
        client = result.get_job_client()
        self._timer = threading.Timer(_LIMIT_S, client.cancel if client is not None else lambda: None)

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._timer.join()


def main(questions: Path, answers: Path, limit_s: float) -> None:
    """Answer each question, until the time is up."""
    asked, end_s = json.loads(questions.read_text()), time.monotonic() + limit_s
    with answers.open("a", buffering=1) as file:
        for number, question in enumerate(asked):
            if time.monotonic() > end_s:
                break
            answer = expressions(question) if question["kind"] == "expressions" else script(question)
            said = answer.get("error", "done") if isinstance(answer, dict) else "done"
            sys.stderr.write(
                f"{number} of {len(asked)}: {question['name']} {question.get('mode', '')}: {said}\n"
            )
            file.write(f"{json.dumps(answer)}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]))
