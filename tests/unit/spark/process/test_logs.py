"""How penstock's messages look in Spark's Python processes; each test in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from penstock.spark.process.begin import LEVEL_VARIABLE
from tests.waiting import PATIENCE_S

PROGRAM = """
import logging, sys
from importlib.machinery import ModuleSpec
from penstock.spark.process.begin import show_messages

sys.modules["__main__"].__spec__ = ModuleSpec({main!r}, None)
show_messages()
show_messages()
{more}
log = logging.getLogger("penstock.source")
log.warning("what happened")
log.info("a detail")
"""


def said(main: str = "pyspark.daemon", more: str = "", level: str = "") -> str:
    """What such a process writes to standard error."""
    program = PROGRAM.format(main=main, more=more)
    environment = {**os.environ, LEVEL_VARIABLE: level}
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
        timeout=PATIENCE_S,
    )
    return done.stderr


def test_messages_have_time_level_and_origin() -> None:
    assert re.fullmatch(r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d WARN penstock\.source: what happened\n", said())


def test_a_variable_shows_more() -> None:
    assert "INFO penstock.source: a detail\n" in said(level="info")


def test_a_level_that_does_not_exist_changes_nothing() -> None:
    assert said(level="chatty").count("\n") == 1


def test_logging_that_is_configured_later_is_used() -> None:
    more = "logging.basicConfig(format='mine %(message)s', level=logging.INFO)"
    assert said(more=more) == "mine what happened\nmine a detail\n"


def test_other_processes_are_left_alone() -> None:
    assert said(main="my_program") == "what happened\n"
