"""Ask a real Flink and write its answers. See `tests.judges.sql`.

Runs by hand. Invariant: an answer is written together with a digest of what was asked, and the answers that
came before an interruption are kept.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.flink import AVRO, CONNECTOR, flink_python

from penstock.devbroker import DevCluster
from penstock.devbroker.jars import ensure_jars
from tests.judges.sql import corpus, topics
from tests.judges.sql.corpus import DATA, EXPRESSIONS, MODES, SCRIPTS, Locations, Script

Question = dict[str, Any]


def record(beginnings: list[str], *, only_missing: bool, limit_s: float) -> None:
    """Ask Flink and write the answers.

    Args:
        beginnings: of the names of scripts and of files of expressions, and names of modes; empty for all.
        only_missing: leave out the scripts and expressions whose answers are there.
        limit_s: the seconds after which no further question is asked.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-judge-")))
        questions = _expressions(beginnings, only_missing=only_missing)
        asked = _scripts(beginnings, only_missing=only_missing)
        if asked:
            servers = stack.enter_context(DevCluster()).bootstrap_servers
            topics.write_inputs(servers, "in-")
            questions += [_question(script, mode, servers, folder) for script, mode in asked]
        try:
            _ask(questions, folder, limit_s)
        finally:
            _write(questions, folder / "answers.json")


def _chosen(name: str, beginnings: list[str]) -> bool:
    names = [each for each in beginnings if each not in MODES]
    return not names or name.startswith(tuple(names))


def _scripts(beginnings: list[str], *, only_missing: bool) -> list[tuple[Script, str]]:
    modes = [each for each in MODES if each in beginnings] or list(MODES)
    found = []
    for mode in reversed(modes):
        known = corpus.recorded(mode)
        for script in sorted(SCRIPTS.values(), key=lambda each: not each.is_quick(mode)):
            is_known = only_missing and known.get(script.name, {}).get("asked") == script.asked
            if mode in script.modes and _chosen(script.name, beginnings) and not is_known:
                found.append((script, mode))
    return found


def _question(script: Script, mode: str, servers: str, folder: Path) -> Question:
    name = f"{script.name}-{mode}"
    locations = Locations(servers, "in-", f"{name}-", str(folder / name))
    topics.create(servers, script.made_topics(locations))
    statements = script.statements(locations)
    return {"kind": "script", "name": script.name, "mode": mode, "statements": statements}


def _expressions(beginnings: list[str], *, only_missing: bool) -> list[Question]:
    found = []
    for name, (zone, source) in EXPRESSIONS.items():
        if _chosen(name, beginnings):
            known = _known_expressions(name) if only_missing else {}
            lines = [each for each in corpus.expressions(name) if each not in known]
            if not lines:
                continue
            rows = [(DATA / "rows.sql").read_text()] if source else []
            question = {"zone": zone, "source": source, "statements": rows, "expressions": lines}
            found.append({"kind": "expressions", "name": name, **question})
    return found


def _known_expressions(name: str) -> dict[str, Any]:
    file = DATA / f"flink_{name}.json"
    return {each["expression"]: each for each in json.loads(file.read_text())} if file.exists() else {}


def _ask(questions: list[Question], folder: Path, limit_s: float) -> None:
    environment = {
        **os.environ,
        "HADOOP_CLASSPATH": os.pathsep.join(map(str, (*ensure_jars(CONNECTOR), *ensure_jars(AVRO)))),
        "FLINK_LOG_DIR": str(folder),
        "JVM_ARGS": "-Xmx2g -XX:+UseSerialGC -XX:TieredStopAtLevel=1",  # quicker for short jobs
    }
    (folder / "questions.json").write_text(json.dumps(questions))
    job = Path(__file__).with_name("flink_job.py")
    files = [folder / "questions.json", folder / "answers.json"]
    command = [str(flink_python()), "-I", *map(str, (job, *files, limit_s))]
    subprocess.run(command, check=True, env=environment)


def _write(questions: list[Question], file: Path) -> None:
    given = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    answers = {mode: corpus.recorded(mode) for mode in MODES}
    for question, answer in zip(questions, given, strict=False):
        name = question["name"]
        if question["kind"] == "expressions":
            known = {**_known_expressions(name), **{each["expression"]: each for each in answer}}
            kept = [known[each] for each in corpus.expressions(name) if each in known]
            text = json.dumps(kept, indent=1, ensure_ascii=False)
            (DATA / f"flink_{name}.json").write_text(f"{text}\n")
        else:
            script = SCRIPTS[name]
            if "ordered" not in str(script.marks.keys()) and "rows" in answer:
                answer["rows"].sort(key=json.dumps)
            answers[question["mode"]][name] = {"asked": script.asked, **answer}
    for mode, found in answers.items():
        corpus.write_answers(mode, found)
    sys.stderr.write(f"{len(given)} of {len(questions)} answers were written\n")
