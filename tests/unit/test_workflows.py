"""The workflows run what `make ci` runs, and the files of .github are what GitHub reads."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
GITHUB = ROOT / ".github"
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def of_make_ci() -> tuple[list[str], list[str]]:
    """Return the checks and the suites of `make ci`."""
    [(needs, suites)] = re.findall(r"^ci: (.*?) ##.*\n\t@.*-m tests\.suites (.+)$", MAKEFILE, re.MULTILINE)
    return [each for each in needs.split() if not each.startswith("$")], suites.split()


def test_the_workflow_runs_what_make_ci_runs() -> None:
    jobs = read(GITHUB / "workflows" / "ci.yml")["jobs"]
    checks, suites = of_make_ci()
    assert jobs["checks"]["strategy"]["matrix"]["check"] == checks
    assert jobs["suites"]["strategy"]["matrix"]["suite"] == suites
    for job in jobs.values():
        [command] = [step["run"] for step in job["steps"] if "run" in step]
        assert command == "make ${{ matrix.check || matrix.suite }} PROFILE=usual"
    assert re.search(r"^ci: export PROFILE = usual$", MAKEFILE, re.MULTILINE)


def test_the_workflow_has_the_oldest_python_that_is_supported() -> None:
    oldest = re.findall(r'^requires-python = ">=(\S+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    matrix = read(GITHUB / "workflows" / "ci.yml")["jobs"]["suites"]["strategy"]["matrix"]
    assert matrix["python"][:1] == oldest


@pytest.mark.parametrize("path", sorted((GITHUB / "workflows").glob("*.yml")), ids=lambda path: path.name)
def test_a_workflow_may_read_and_leaves_no_token(path: Path) -> None:
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        for step in job["steps"]:
            if str(step.get("uses")).startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize("name", ["bug", "feature"])
def test_a_form_has_what_github_needs(name: str) -> None:
    form = read(GITHUB / "ISSUE_TEMPLATE" / f"{name}.yml")
    assert form["name"]
    assert form["description"]
    assert form["body"]
    assert len({each["id"] for each in form["body"]}) == len(form["body"])
    assert all(each["attributes"]["label"] for each in form["body"])


def test_the_hooks_before_a_commit_are_checks_of_make() -> None:
    [repository] = read(ROOT / ".pre-commit-config.yaml")["repos"]
    programs = {hook["entry"].split()[0].removeprefix(".venv/bin/") for hook in repository["hooks"]}
    assert programs == {"ruff", "codespell", "lint-imports"}
    assert all(f"$(BIN)/{each}" in MAKEFILE for each in programs)


def test_the_commands_for_agents_are_targets_of_make() -> None:
    targets = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
    text = (ROOT / "AGENTS.md").read_text(encoding="utf-8")
    named = {each for command in re.findall(r"`make ([a-z ]+)`", text) for each in command.split()}
    assert {"setup", "ci"} <= named <= targets
