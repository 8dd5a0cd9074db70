"""The workflows run what `make ci` runs, and the files of .github are what GitHub reads."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
GITHUB = ROOT / ".github"
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
PROGRAMS = "sudo apt-get update && sudo apt-get install --yes postgresql prometheus"
"""Installs what tests would be skipped without."""


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
    commands = {name: [step["run"] for step in job["steps"] if "run" in step] for name, job in jobs.items()}
    assert commands == {
        "checks": ["make ${{ matrix.check }}"],
        "suites": [PROGRAMS, "make ${{ matrix.suite }} PROFILE=usual"],
    }
    assert re.search(r"^ci: export PROFILE = usual$", MAKEFILE, re.MULTILINE)


def test_a_release_is_published_only_if_the_suite_passes_with_the_wheel() -> None:
    jobs = read(GITHUB / "workflows" / "release.yml")["jobs"]
    assert set(jobs["publish"]["needs"]) == set(jobs) - {"publish", "site"}
    [command] = [step["run"] for step in jobs["installed"]["steps"] if "run" in step]
    assert command == 'make installed ARGS="--promises --wheel dist/*manylinux*_x86_64.whl"'
    # pypa's action attests where the files were built, with the identity of this job and no stored token.
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    [publishes] = [
        step for step in jobs["publish"]["steps"] if "gh-action-pypi-publish" in str(step.get("uses"))
    ]
    assert publishes.get("with", {}).get("attestations", True) is True
    assert jobs["site"]["needs"] == "publish"


def test_each_owner_is_a_team_and_each_path_of_the_owners_is_there() -> None:
    lines = (GITHUB / "CODEOWNERS").read_text(encoding="utf-8").splitlines()
    rules = [line.split() for line in lines if line and not line.startswith("#")]
    assert rules[0][0] == "*", "each file has an owner"
    for path, *owners in rules:
        assert path == "*" or (ROOT / path.strip("/")).exists(), path
        assert owners
        assert all(re.fullmatch(r"@[\w-]+/[\w-]+", owner) for owner in owners)


def test_the_workflow_has_the_oldest_python_that_is_supported() -> None:
    oldest = re.findall(r'^requires-python = ">=(\S+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    matrix = read(GITHUB / "workflows" / "ci.yml")["jobs"]["suites"]["strategy"]["matrix"]
    assert matrix["python"][:1] == oldest


@pytest.mark.parametrize("path", sorted((GITHUB / "workflows").glob("*.yml")), ids=lambda path: path.name)
def test_a_workflow_may_read_and_leaves_no_token(path: Path) -> None:
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        # Only the job of the site writes: it pushes pages to their branch.
        assert ("contents" in job.get("permissions", {})) == (name == "site")
        for step in job["steps"]:
            if str(step.get("uses")).startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is (name == "site")


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


def test_files_that_are_not_checked_for_spelling_are_left_out_by_the_hook_too() -> None:
    """The hook names each file, and codespell compares a pattern with the whole path then."""
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["codespell"]
    patterns = tool["skip"].split(",")
    assert "*uplot.js" in patterns
    assert [each for each in patterns if "." in each[1:] and not each.startswith("*")] == []


def test_the_commands_for_agents_are_targets_of_make() -> None:
    targets = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
    text = (ROOT / "AGENTS.md").read_text(encoding="utf-8")
    named = {each for command in re.findall(r"`make ([a-z ]+)`", text) for each in command.split()}
    assert {"setup", "ci"} <= named <= targets
