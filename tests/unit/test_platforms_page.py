"""docs/platforms.md: its commands parse, what it names exists, and each claim about a vendor has a source."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from penstock.spark import _older_stream_reader, versions
from penstock.spark.process.begin import LEVEL_VARIABLE
from penstock.switches import Switch
from tests.package import platforms

PAGE = (Path(__file__).parents[2] / "docs" / "platforms.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
OF_NO_VENDOR = {"Everywhere", "What was tried"}


@pytest.mark.parametrize("commands", re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL))
def test_commands_are_those_of_a_shell(commands: str) -> None:
    # The lines of settings are arguments of spark-submit.
    text = "spark-submit \\\n" + commands.replace("\n", " \\\n") if commands.startswith("--") else commands
    subprocess.run(["bash", "-n", "-c", text], check=True)


def test_the_recipe_is_the_one_that_is_tried() -> None:
    assert f"pip install pyspark-penstock {' '.join(map(_quoted, platforms.BESIDE))}\n" in PAGE
    assert "venv-pack -p penstock-env -o penstock-env.tar.gz\n" in PAGE


def _quoted(package: str) -> str:
    return f'"{package}"' if "<" in package else package


@pytest.mark.parametrize("name", sorted(SECTIONS.keys() - OF_NO_VENDOR))
def test_each_platform_says_what_was_tried_and_what_was_read(name: str) -> None:
    assert re.search(r"\b(?:[Tt]ried|All read)\b", SECTIONS[name])


def test_each_source_has_an_address_and_is_used() -> None:
    used = set(re.findall(r"\[read\]\[([\w-]+)\]", PAGE))
    assert used
    assert used == set(re.findall(r"^\[([\w-]+)\]: https://\S+$", PAGE, re.MULTILINE))


def test_variables_of_penstock_exist() -> None:
    named = set(re.findall(r"PENSTOCK_\w+", PAGE))
    assert named
    assert named <= {LEVEL_VARIABLE, *(each.value for each in Switch)}


def test_the_line_in_the_log_is_that_of_an_older_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "PLANS_WITH_LIMITS", False)
    [line] = re.findall(r"WARN (.*?) \.\.\.\n", PAGE)
    logger, _, text = line.partition(": ")
    assert logger == _older_stream_reader.__name__
    assert re.sub(r"PySpark .* is older", "PySpark X is older", text) == (
        "PySpark X is older than 4.2. " + versions.missing()[0][: len("A limit on a batch needs")]
    )
