"""Ctrl-C ends `penstock sql` cleanly, in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.fix_spark import spark_settings

WAIT_S = 240


def test_ctrl_c_stops_the_command(tmp_path: Path) -> None:
    script, errors = tmp_path / "endless.sql", tmp_path / "errors.txt"
    script.write_text(
        "CREATE TABLE made (id BIGINT) WITH ('connector' = 'datagen', 'fields.id.kind' = 'sequence', "
        "'fields.id.start' = '1', 'fields.id.end' = '1000000000');\nSELECT id FROM made;\n"
    )
    settings = [f"--conf={key}={value}" for key, value in spark_settings(tmp_path).items()]
    command = [str(Path(sys.executable).parent / "penstock"), "sql", *settings, str(script)]
    with errors.open("w") as stderr, subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=stderr, stdin=subprocess.DEVNULL, text=True, cwd=tmp_path,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    ) as child:  # fmt: skip
        assert child.stdout is not None
        first = child.stdout.readline()
        child.send_signal(signal.SIGINT)
        child.send_signal(signal.SIGINT)  # an impatient user
        child.stdout.read()
        assert child.wait(WAIT_S) == 130, errors.read_text()
    assert first == "+I[1]\n"
    assert "Stopped. Each INSERT continues" in errors.read_text()
    assert "Traceback" not in errors.read_text()
