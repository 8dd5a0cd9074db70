"""Ask Flink and write tests/data/cdc: `FLINK=1 python -m tests.judges.cdc [beginning of a name]`.

Runs by hand. Invariant: Flink reads the bytes of the corpus from a real broker, with the tables of the
corpus. An answer is written together with what was asked.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.flink import AVRO, CONNECTOR, FLINK_VERSION, flink_python

from penstock.devbroker import DevCluster
from penstock.devbroker.jars import ensure_jars
from tests import judge
from tests.judges.cdc.corpus import CASES, FOLDER, file_of
from tests.judges.cdc.tables import Case, Read, Upsert, Write, shown
from tests.registry_server import Registry, running_registry

_HERE = Path(__file__).parent

Question = dict[str, Any]


class Recorder:
    """The broker, and the registries of cases with Avro."""

    def __init__(self, bootstrap: str, stack: ExitStack) -> None:
        self._bootstrap = bootstrap
        self._stack = stack
        self._registries: dict[str, Registry] = {}
        self._topics: dict[str, str] = {}

    def question(self, case: Case) -> Question:
        """Write the messages of a case into a topic, and return what Flink is asked."""
        number = len(self._topics)
        self._topics[case.name] = topic = f"written-{number}"
        judge.create_topic(self._bootstrap, topic)
        if isinstance(case, Read):
            return self._read(case, topic)
        if isinstance(case, Upsert) and case.records:
            judge.produce(self._bootstrap, topic, *(judge.Record(value, key) for key, value in case.records))
            table = {"columns": _upsert_columns(case), "options": self._upsert(case, topic)}
            return {"action": "history", "name": case.name, **table}
        source = f"changes-{number}"
        judge.create_topic(self._bootstrap, source)
        judge.produce(self._bootstrap, source, *case.changes)
        options = self._upsert(case, topic) if isinstance(case, Upsert) else self._kafka(case, topic)
        columns = _upsert_columns(case) if isinstance(case, Upsert) else _columns(case.columns)
        reads = {"format": "debezium-json", "scan.bounded.mode": "latest-offset"}
        changes = {**self._servers("kafka", source), "scan.startup.mode": "earliest-offset", **reads}
        return {
            "action": "write",
            "name": case.name,
            "source": {"columns": columns, "options": changes},
            "sink": {"columns": columns, "options": options},
        }

    def _read(self, case: Read, topic: str) -> Question:
        judge.produce(self._bootstrap, topic, *(judge.Record(value) for value in case.messages.values()))
        return {
            "action": "read",
            "name": case.name,
            "columns": _columns(case.all_columns(), case.metadata()),
            "options": self._kafka(case, topic),
            "count": len(case.messages),
        }

    def _servers(self, connector: str, topic: str) -> dict[str, str]:
        return {"connector": connector, "topic": topic, "properties.bootstrap.servers": self._bootstrap}

    def _kafka(self, case: Read | Write, topic: str) -> dict[str, str]:
        options = {**self._servers("kafka", topic), "format": case.format, **case.options}
        if case.format == "debezium-avro-confluent":
            registry = self._registry(case.name)
            for schema in case.schemas if isinstance(case, Read) else ():
                registry.register(f"{topic}-value", schema)
            options["debezium-avro-confluent.url"] = registry.url
        return options

    def _upsert(self, case: Upsert, topic: str) -> dict[str, str]:
        options = {**self._servers("upsert-kafka", topic), **case.options}
        return options | case.registry_urls(lambda: self._registry(case.name).url)

    def _registry(self, name: str) -> Registry:
        self._registries[name] = self._stack.enter_context(running_registry())
        return self._registries[name]

    def answer(self, case: Case, found: Any) -> Any:
        """Return the answer as it is recorded."""
        if isinstance(case, Read):
            return {label: found[str(offset)] for offset, label in enumerate(case.messages)}
        if isinstance(case, Upsert) and case.records:
            return found
        if "error" in found:
            return found
        written = judge.consume_all(self._bootstrap, self._topics[case.name])
        registry = self._registries.get(case.name)
        schemas = [one["schema"] for one in registry.schemas.values()] if registry else []
        if isinstance(case, Upsert):
            records = [[shown(one.key), shown(one.value)] for one in written]
            return {"records": records, "schemas": schemas} if schemas else {"records": records}
        return {"values": [shown(one.value) for one in written], "schemas": schemas}


def _columns(types: Mapping[str, str], metadata: Mapping[str, str] | None = None) -> str:
    keys = metadata or {}
    return ", ".join(
        f"`{name}` {kind}" + (f" METADATA FROM 'value.{keys[name]}' VIRTUAL" if name in keys else "")
        for name, kind in types.items()
    )


def _upsert_columns(case: Upsert) -> str:
    keys = ", ".join(f"`{name}`" for name in case.primary_key)
    return f"{_columns(case.columns)}, PRIMARY KEY ({keys}) NOT ENFORCED"


def _asked(cases: list[Case], work: Path) -> Iterator[tuple[Case, Any]]:
    jars = [*ensure_jars(CONNECTOR), *ensure_jars(AVRO)]
    environment = {
        **os.environ,
        "HADOOP_CLASSPATH": os.pathsep.join(map(str, jars)),
        "FLINK_LOG_DIR": str(work),
        "JVM_ARGS": "-Xmx2g",
    }  # fmt: skip
    questions, answers = work / "questions.json", work / "answers.json"
    with ExitStack() as stack:
        cluster = stack.enter_context(DevCluster())
        recorder = Recorder(cluster.bootstrap_servers, stack)
        questions.write_text(json.dumps([recorder.question(case) for case in cases]))
        command = [str(one) for one in (flink_python(), "-I", _HERE / "flink_job.py", questions, answers)]
        subprocess.run(command, check=True, env=environment)
        for case, found in zip(cases, json.loads(answers.read_text()), strict=True):
            yield case, recorder.answer(case, found)


def main(beginning: str = "") -> None:
    """Record the answers to all cases whose name has a beginning."""
    if os.environ.get("FLINK") != "1":
        sys.exit("This asks a real Flink (900 MB, installed once for the user). Set FLINK=1 to do that.")
    cases = [case for name, case in CASES.items() if name.startswith(beginning)]
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="penstock-judge-") as folder:
        for case, answer in _asked(cases, Path(folder)):
            _record(case, answer)
    sys.stderr.write(f"{len(cases)} answers of Flink {FLINK_VERSION}\n")


def _record(case: Case, answer: Any) -> None:
    """Write one answer, and forget the answers to cases that no longer exist."""
    file = file_of(case.name)
    known = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    known[case.name] = {"asked": case.asked(), "answer": answer}
    kept = {name: known[name] for name in CASES if name in known}
    file.write_text(f"{json.dumps(kept, indent=1, ensure_ascii=False)}\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
