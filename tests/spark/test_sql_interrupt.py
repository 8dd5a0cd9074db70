"""Ctrl-C and SIGTERM end `penstock sql` cleanly, in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.fix_spark import spark_settings
from tests.waiting import wait_until

WAIT_S = 240


MADE = (
    "CREATE TABLE made (id BIGINT) WITH ('connector' = 'datagen', 'fields.id.kind' = 'sequence', "
    "'fields.id.start' = '1', 'fields.id.end' = '1000000000', 'rows-per-second' = '1000');\n"
)


@contextmanager
def command(folder: Path, script: str) -> Iterator[subprocess.Popen[str]]:
    """Run `penstock sql` in a process of its own. Its standard error is the file errors.txt."""
    path = folder / "endless.sql"
    path.write_text(MADE + script)
    settings = [f"--conf={key}={value}" for key, value in spark_settings(folder).items()]
    arguments = [str(Path(sys.executable).parent / "penstock"), "sql", *settings, str(path)]
    with (folder / "errors.txt").open("w") as stderr, subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=stderr, stdin=subprocess.DEVNULL, text=True, cwd=folder,
    ) as child:  # fmt: skip
        yield child


def test_ctrl_c_stops_the_command(tmp_path: Path) -> None:
    with command(tmp_path, "SELECT id FROM made;\n") as child:
        assert child.stdout is not None
        first = child.stdout.readline()
        child.send_signal(signal.SIGINT)
        child.send_signal(signal.SIGINT)  # an impatient user
        child.stdout.read()
        assert child.wait(WAIT_S) == 130, (tmp_path / "errors.txt").read_text()
    assert first == "+I[1]\n"
    errors = (tmp_path / "errors.txt").read_text()
    assert errors.endswith("penstock: Stopped.\n"), "a SELECT has no checkpoint"
    assert "Traceback" not in errors


def test_the_end_of_java_is_one_message(tmp_path: Path) -> None:
    script = (
        f"SET 'execution.checkpointing.dir' = '{tmp_path}/c';\n"
        "CREATE TABLE a (id BIGINT) WITH ('connector' = 'blackhole');\nINSERT INTO a SELECT id FROM made;\n"
    )
    with command(tmp_path, script) as child:
        commits = tmp_path / "c" / "insert-into_a" / "commits"
        wait_until(lambda: list(commits.glob("[0-9]*")), "a batch", progress=child.poll)
        os.kill(java_of(child), signal.SIGKILL)
        assert child.wait(WAIT_S) == 1
    errors = (tmp_path / "errors.txt").read_text()
    said, _, rest = errors.partition("penstock: The Java process of Spark has gone (SIGKILL): ")
    assert "Nothing is lost: start `penstock sql` again." in rest
    assert "continues from its checkpoint" in rest
    assert rest.count("\n") == 1, errors
    assert "Traceback" not in said, errors


def java_of(child: subprocess.Popen[str]) -> int:
    listed = subprocess.run(
        ["ps", "-e", "-o", "pid=,ppid=,comm="], capture_output=True, text=True, check=True
    )
    [found] = [
        int(pid)
        for pid, parent, name in (line.split(maxsplit=2) for line in listed.stdout.splitlines())
        if int(parent) == child.pid and name == "java"
    ]
    return found


def test_sigterm_stops_the_jobs_of_a_set_after_their_batches(tmp_path: Path) -> None:
    targets = ("a", "b")
    tables = "".join(
        f"CREATE TABLE {name} (id BIGINT) WITH ('connector' = 'blackhole');\n" for name in targets
    )
    inserts = "".join(f"INSERT INTO {name} SELECT id FROM made;\n" for name in targets)
    script = f"SET 'execution.checkpointing.dir' = '{tmp_path}/c';\n{tables}"
    folders = [tmp_path / "c" / f"insert-into_{name}" for name in targets]

    def names(log: str) -> list[list[str]]:
        return [sorted(each.name for each in (folder / log).glob("[0-9]*")) for folder in folders]

    def has_started() -> bool:
        """A batch may end before the command knows its job. A signal would cut off the start then."""
        return "The job was started." in (tmp_path / "errors.txt").read_text() and all(names("commits"))

    with command(tmp_path, f"{script}EXECUTE STATEMENT SET BEGIN\n{inserts}END;\n") as child:
        wait_until(has_started, "a batch of each", progress=child.poll)
        child.send_signal(signal.SIGTERM)
        assert child.wait(WAIT_S) == 0, (tmp_path / "errors.txt").read_text()
    errors = (tmp_path / "errors.txt").read_text()
    assert "Stopping insert-into_a_b after the batch; another Ctrl-C stops at once." in errors
    assert "Stopped. Each INSERT continues" in errors
    assert "Traceback" not in errors
    assert names("offsets") == names("commits")
