"""penstock as source and sink of Spark Declarative Pipelines, with the code of docs/pipelines.md."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from pyspark.pipelines.add_pipeline_analysis_context import add_pipeline_analysis_context
from pyspark.pipelines.block_session_mutations import block_session_mutations
from pyspark.pipelines.graph_element_registry import graph_element_registration_context
from pyspark.pipelines.spark_connect_graph_element_registry import SparkConnectGraphElementRegistry
from pyspark.pipelines.spark_connect_pipeline import create_dataflow_graph, start_run

from tests import judge
from tests.fix_broker import MakeTopic

PAGE = Path(__file__).parents[2] / "docs" / "pipelines.md"
RUN_TIMEOUT_S = 300


def run(spark: Any, code: str, storage: Path, *, full_refresh_all: bool = False) -> list[str]:
    """Run a pipeline as `spark-pipelines run` does, and return its messages."""
    graph = create_dataflow_graph(spark, None, None, {})
    registry = SparkConnectGraphElementRegistry(spark, graph)
    with (
        graph_element_registration_context(registry),
        add_pipeline_analysis_context(spark, graph, None),
        block_session_mutations(),
    ):
        exec(compile(code, str(PAGE), "exec"), {"spark": spark, "__name__": "pipeline"})  # noqa: S102 - of our page
    events = start_run(spark, graph, [], full_refresh_all, [], False, f"file://{storage}")
    return [each["pipeline_event_result"].event.message for each in events if "pipeline_event_result" in each]


def test_runs_are_incremental_and_exactly_once_and_a_full_refresh_begins_again(
    connect_spark: Any, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    source, target = make_topic(2, suffix=".source"), make_topic(suffix=".target")
    [code] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for old, new in (
        ("localhost:9092", bootstrap),
        ('"orders"', f'"{source}"'),
        ('"shouted"', f'"{target}"'),
        ("SparkSession.active()", "spark"),  # `spark-pipelines run` makes the session that is active
    ):
        assert old in code
        code = code.replace(old, new)

    def written() -> list[bytes]:
        return sorted(record.value or b"" for record in judge.consume_all(bootstrap, target))

    first = [b"a%d" % number for number in range(10)]
    judge.produce(bootstrap, source, *first)
    assert "Run is COMPLETED" in " ".join(run(connect_spark, code, tmp_path))
    assert written() == sorted(value.upper() for value in first)
    second = [b"b%d" % number for number in range(5)]
    judge.produce(bootstrap, source, *second)
    run(connect_spark, code, tmp_path)
    assert written() == sorted(value.upper() for value in first + second)
    run(connect_spark, code, tmp_path)
    assert len(written()) == 15
    run(connect_spark, code, tmp_path, full_refresh_all=True)
    assert written() == sorted(2 * [value.upper() for value in first + second])


def test_the_files_and_the_command_of_the_page_run(
    bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """Each run starts a Spark of its own. The second one continues, and a full refresh begins again."""
    source, target = make_topic(suffix=".source"), make_topic(suffix=".target")
    page = PAGE.read_text(encoding="utf-8")
    [code], [spec] = (re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL) for kind in ("python", "yaml"))
    [command] = re.findall(r"^\$ (spark-pipelines .+)$", page, re.MULTILINE)
    [refresh] = re.findall(r"`(spark-pipelines [^`]+)`", page)
    places = {"localhost:9092": bootstrap, '"orders"': f'"{source}"', '"shouted"': f'"{target}"'}
    for old, new in places.items():
        assert old in code
        code = code.replace(old, new)
    (tmp_path / "definitions.py").write_text(code)
    (tmp_path / "spark-pipeline.yml").write_text(spec.replace("/tmp/", f"{tmp_path}/"))  # noqa: S108 - the text of the page
    judge.produce(bootstrap, source, b"a")
    for count, line in enumerate((command, command, refresh), 1):
        run_command(line, tmp_path)
        found = [record.value or b"" for record in judge.consume_all(bootstrap, target)]
        assert sorted(found) == ([b"A"], [b"A", b"B"], [b"A", b"A", b"B", b"B"])[count - 1]
        if count == 1:
            judge.produce(bootstrap, source, b"b")


def run_command(line: str, folder: Path) -> None:
    """Run a command in an environment that is activated."""
    binaries = Path(sys.executable).parent
    env = {**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}", "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        shlex.split(line),
        cwd=folder,
        env=env,
        check=False,
        timeout=RUN_TIMEOUT_S,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
