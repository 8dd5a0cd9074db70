"""PySpark's own runner of streaming sources with our source, in a process of its own and without a JVM."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.waiting import PATIENCE_S

CODE = """
import io, struct, sys, tempfile, types
from pyspark.serializers import CPickleSerializer
from pyspark.sql.streaming import python_streaming_source_runner as runner
from penstock.spark.datasource import PenstockDataSource
from penstock.spark.schema import source_schema

sys.modules["__main__"].__spec__ = types.SimpleNamespace(name=runner.__name__)

def framed(data):
    return struct.pack(">i", len(data)) + data

options = {"kafka.bootstrap.servers": "unused:1", "subscribe": "t", "kafka.security.protocol": "SSL"}
source = PenstockDataSource(options | {"kafka.ssl.truststore.location": "/no/such.pem"})
version = "%d.%d" % sys.version_info[:2]
question = b"".join(
    [
        framed(version.encode()),
        framed(tempfile.gettempdir().encode()),
        struct.pack(">i", 0),
        framed(CPickleSerializer().dumps(source)),
        framed(source_schema(include_headers=False).json().encode()),
        struct.pack(">i", 1000),
        struct.pack(">i", getattr(runner, sys.argv[1])),
    ]
)
answer = io.BytesIO()
try:
    runner.main(io.BytesIO(question), answer)
finally:
    sys.stdout.buffer.write(answer.getvalue())
"""


@pytest.mark.parametrize(
    "question",
    ["INITIAL_OFFSET_FUNC_ID", "GET_DEFAULT_READ_LIMIT_FUNC_ID", "PREPARE_FOR_TRIGGER_AVAILABLE_NOW_FUNC_ID"],
)
def test_a_read_that_cannot_begin_shows_why(question: str) -> None:
    command = [sys.executable, "-W", "ignore", "-c", CODE, question]
    done = subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=False)
    shown = done.stdout.decode(errors="replace")
    assert done.returncode != 0
    assert "OptionError: Option 'kafka.ssl.truststore.location': the file '/no/such.pem' cannot be" in shown
    assert "UnboundLocalError" not in shown
    assert "Traceback" not in shown, "our files are not shown"
