"""PySpark's own runner of streaming sources with our source, in a process of its own and without a JVM."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

CODE = """
import io, json, os, struct, sys, types
from pyspark import SparkFiles
from pyspark.serializers import CPickleSerializer
from pyspark.sql.streaming import python_streaming_source_runner as runner
from penstock.spark.datasource import PenstockDataSource
from penstock.spark.schema import source_schema

sys.modules["__main__"].__spec__ = types.SimpleNamespace(name=runner.__name__)

def framed(data):
    return struct.pack(">i", len(data)) + data

def ask(question, trust, folder, folder_of_session):
    options = {"kafka.bootstrap.servers": "unused:1", "subscribe": "t", "kafka.security.protocol": "SSL"}
    SparkFiles._root_directory = folder_of_session  # where Spark makes the data source
    source = PenstockDataSource(options | {"kafka.ssl.truststore.location": trust})
    version = "%d.%d" % sys.version_info[:2]
    question = b"".join(
        [
            framed(version.encode()),
            framed(folder.encode()),
            struct.pack(">i", 0),
            framed(CPickleSerializer().dumps(source)),
            framed(source_schema(include_headers=False).json().encode()),
            struct.pack(">i", 1000),
            struct.pack(">i", getattr(runner, question)),
        ]
    )
    answer = io.BytesIO()
    try:
        runner.main(io.BytesIO(question), answer)
    finally:
        sys.stdout.buffer.write(answer.getvalue())
        sys.stdout.flush()

for line in sys.stdin:
    *arguments, shown = json.loads(line)
    child = os.fork()
    if child == 0:  # a process for each question, as Spark has, which imports nothing again
        os.dup2(os.open(shown, os.O_WRONLY | os.O_CREAT), 1)
        ask(*arguments)
        sys.exit()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""

Ask = Callable[[str, str, Path, Path], tuple[int, str]]
"""Asks the runner one question, and returns its exit code and the text of its answer."""


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    folder = tmp_path_factory.mktemp("answers")
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", CODE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:

        def asked(question: str, trust: str, files: Path, files_of_session: Path) -> tuple[int, str]:
            assert process.stdin is not None
            assert process.stdout is not None
            shown = folder / str(len(list(folder.iterdir())))
            arguments = [question, trust, str(files), str(files_of_session), str(shown)]
            process.stdin.write(f"{json.dumps(arguments)}\n")
            process.stdin.flush()
            return int(process.stdout.readline()), shown.read_text(errors="replace")

        yield asked


@pytest.mark.parametrize(
    "question",
    ["INITIAL_OFFSET_FUNC_ID", "GET_DEFAULT_READ_LIMIT_FUNC_ID", "PREPARE_FOR_TRIGGER_AVAILABLE_NOW_FUNC_ID"],
)
def test_a_read_that_cannot_begin_shows_why(ask: Ask, question: str, tmp_path: Path) -> None:
    exit_code, shown = ask(question, "/no/such.pem", tmp_path, tmp_path)
    assert exit_code != 0
    assert "OptionError: Option 'kafka.ssl.truststore.location': the file '/no/such.pem' cannot be" in shown
    assert "UnboundLocalError" not in shown
    assert "Traceback" not in shown, "our files are not shown"


READ_LIMIT = "GET_DEFAULT_READ_LIMIT_FUNC_ID"
SESSION = "2f6f0d9a-7a53-4c39-9c0e-6b1e8a4d7f10"
"""Spark's name of the folder of a session's files."""
CA = Path(__file__).parents[2] / "data" / "tls" / "ca.pem"


@pytest.mark.parametrize("folder", ["", SESSION], ids=["of the application", "of the session"])
def test_a_sent_file_is_found_where_spark_put_it(ask: Ask, folder: str, tmp_path: Path) -> None:
    """Spark gives the runner a folder that does not exist."""
    (tmp_path / SESSION).mkdir()
    (tmp_path / folder / "sent.pem").write_bytes(CA.read_bytes())
    exit_code, shown = ask(READ_LIMIT, "sent.pem", tmp_path / "streaming_job", tmp_path / SESSION)
    assert '"_type": "ReadAllAvailable"' in shown
    assert "OptionError" not in shown
    assert exit_code != 0, "the runner's input ends here"


def test_the_files_of_another_session_are_not_searched(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / SESSION).mkdir()
    (tmp_path / SESSION / "sent.pem").write_bytes(CA.read_bytes())
    own = tmp_path / SESSION.replace("2", "3")
    _, shown = ask(READ_LIMIT, "sent.pem", tmp_path / "streaming_job", own)
    assert "'sent.pem' cannot be read here" in shown
    for folder in (tmp_path / "streaming_job", tmp_path, own):
        assert f"'{folder}'" in shown, "where it was looked for"
    assert SESSION not in shown.replace(str(own), "")
