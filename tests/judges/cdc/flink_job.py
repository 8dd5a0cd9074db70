"""Ask Flink: read topics with its formats, and write changes into topics. The job of `tests.judges.cdc`.

Runs as a file, with the Python of the environment that has apache-flink. Arguments: the file with the
questions, the file for the answers. Invariant: each row is tied to its record by the offset; where a record
makes a job fail, records are asked for in halves, until the one that fails stands alone.
"""

from __future__ import annotations

import base64
import importlib
import json
import math
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

# Of the benchmark, found by the path above, and of Flink's environment.
flink_worker: Any = importlib.import_module("flink_worker")
JavaMap: Any = importlib.import_module("py4j.java_collections").JavaMap

# One task reads and writes in order. The cluster has as many slots.
flink_worker.PARALLELISM = 1
flink_worker.SETTINGS["parallelism.default"] = "1"

_OFFSET = "`_offset` BIGINT METADATA FROM 'offset' VIRTUAL"


def plain(value: Any) -> Any:
    """Return a value of Java as JSON can hold it."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    if not hasattr(value, "getClass"):
        return _plain_container(value)
    return _plain_object(value)


def _plain_container(value: Any) -> Any:
    if hasattr(value, "as_tuple"):  # a decimal
        return f"{value:f}"
    return [plain(one) for one in value]


def _plain_object(value: Any) -> Any:
    name = value.getClass().getName()
    if isinstance(value, JavaMap):
        return sorted([plain(one.getKey()), plain(one.getValue())] for one in value.entrySet())
    if name.startswith("java.time."):
        return with_nanoseconds(str(value.toString()))
    if name == "org.apache.flink.types.Row":
        return [plain(value.getField(i)) for i in range(value.getArity())]
    if name.startswith("["):
        return [plain(one) for one in value]
    raise TypeError(name)


def with_nanoseconds(text: str) -> str:
    """Return a time of Java with seconds and nine digits behind them. Java leaves out zeros."""
    if ":" not in text:
        return text
    zone = "Z" if text.endswith("Z") else ""
    date, separator, clock = text.removesuffix("Z").rpartition("T")
    hour, minute, seconds = [*clock.split(":"), "0"][:3]
    whole, _, fraction = seconds.partition(".")
    return f"{date}{separator}{hour}:{minute}:{whole:0>2}.{fraction:0<9}{zone}"


class Judge:
    """A warm Flink."""

    def __init__(self) -> None:
        session = flink_worker.Session()
        self._tables = session._environments["streaming"]
        self._tables.get_config().set("table.local-time-zone", "UTC")

    def read(self, table: dict[str, Any]) -> dict[str, Any]:
        """Return rows, or the error, of each record by its offset."""
        answers: dict[str, Any] = {}
        self._read(table, 0, table["count"], answers)
        return answers

    def _read(self, table: dict[str, Any], first: int, end: int, answers: dict[str, Any]) -> None:
        bounds = {
            "scan.startup.mode": "specific-offsets",
            "scan.startup.specific-offsets": f"partition:0,offset:{first}",
            "scan.bounded.mode": "specific-offsets",
            "scan.bounded.specific-offsets": f"partition:0,offset:{end}",
        }
        try:
            rows = self._rows(f"{_OFFSET}, {table['columns']}", {**table["options"], **bounds})
        except Exception as error:  # noqa: BLE001 - Flink fails in many ways
            if end - first == 1:
                answers[str(first)] = {"error": reason(error)}
                return
            middle = (first + end) // 2
            self._read(table, first, middle, answers)
            self._read(table, middle, end, answers)
            return
        answers.update({str(offset): [] for offset in range(first, end)})
        for kind, (offset, *values) in rows:
            answers[str(offset)].append([kind, values])

    def history(self, table: dict[str, Any]) -> Any:
        """Return the rows of a whole topic."""
        try:
            rows = self._rows(table["columns"], {**table["options"], "scan.bounded.mode": "latest-offset"})
        except Exception as error:  # noqa: BLE001 - Flink fails in many ways
            return {"error": reason(error)}
        return [[kind, values] for kind, values in rows]

    def write(self, tables: dict[str, Any]) -> dict[str, Any]:
        """Copy the changes of a topic into another. Return an error, if there is one."""
        source, sink = tables["source"], tables["sink"]
        try:
            self._create("changes", source["columns"], source["options"])
            self._create("written", sink["columns"], sink["options"])
            self._tables.execute_sql("INSERT INTO written SELECT * FROM changes").wait()
        except Exception as error:  # noqa: BLE001 - Flink fails in many ways
            return {"error": reason(error)}
        return {}

    def _rows(self, columns: str, options: dict[str, str]) -> list[tuple[str, list[Any]]]:
        self._create("messages", columns, options)
        found = self._tables.execute_sql("SELECT * FROM messages")._j_table_result.collect()
        rows = []
        try:
            while found.hasNext():
                row = found.next()
                values = [plain(row.getField(i)) for i in range(row.getArity())]
                rows.append((row.getKind().shortString(), values))
        finally:
            found.close()
        return rows

    def _create(self, name: str, columns: str, options: dict[str, str]) -> None:
        given = ", ".join(f"'{key}' = '{text}'" for key, text in options.items())
        self._tables.execute_sql(f"DROP TEMPORARY TABLE IF EXISTS {name}")
        self._tables.execute_sql(f"CREATE TEMPORARY TABLE {name} ({columns}) WITH ({given})")


def reason(error: Exception) -> str:
    """Return the innermost cause."""
    lines = [line.strip() for line in str(error).splitlines()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return (causes or lines or ["?"])[-1][:200]


def main(questions: Path, answers: Path) -> None:
    """Answer each question."""
    judge = Judge()
    found = []
    for number, question in enumerate(json.loads(questions.read_text())):
        sys.stderr.write(f"{number}: {question['name']}\n")
        found.append(getattr(judge, question["action"])(question))
    answers.write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
