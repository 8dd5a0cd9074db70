"""The public names: few in the root, one home for a class, and importing them is cheap."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from penstock import changelog, flink
from penstock.flink import legacy

LAZY = (penstock, flink, legacy, changelog)


def names(module: object) -> set[str]:
    return set(module.__all__) - {"__version__"}  # type: ignore[attr-defined]  # a module


@pytest.mark.parametrize("module", LAZY, ids=lambda module: module.__name__)
def test_the_names_of_a_module_are_all_there(module: object) -> None:
    assert names(module) <= set(dir(module))
    for name in names(module):
        assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match="nothing_here"):
        module.nothing_here  # type: ignore[attr-defined]  # noqa: B018 - the access is the test


@pytest.mark.parametrize("module", LAZY, ids=lambda module: module.__name__)
def test_every_import_of_a_stub_is_understood(module: object) -> None:
    """Each name is on its own: the runtime reads the list with a pattern, type checkers as Python."""
    path = Path(str(module.__file__)).with_suffix(".pyi")  # type: ignore[attr-defined]  # a module
    nodes = ast.parse(path.read_text(encoding="utf-8")).body
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    found = {(node.module, each.name, each.asname) for node in imports for each in node.names}
    assert {asname for _, _, asname in found} == names(module)
    assert len(found) == len(imports)
    for home, name, asname in found:
        assert name == asname
        assert getattr(importlib.import_module(str(home)), name) is getattr(module, name)


def test_the_root_has_few_names() -> None:
    assert len(names(penstock)) <= 15


def test_a_class_of_flink_has_one_home_and_the_root_repeats_a_few() -> None:
    assert names(flink) & names(legacy) == set()
    assert names(penstock) & names(legacy) == set()
    for name in names(penstock) & names(flink):
        assert getattr(penstock, name) is getattr(flink, name)
    classes = {name for name in names(penstock) if inspect.isclass(getattr(penstock, name))}
    assert classes <= names(flink)


@pytest.mark.parametrize("module", [flink, legacy], ids=lambda module: module.__name__)
def test_the_docs_of_a_module_list_what_users_subclass(module: object) -> None:
    abstract = {name for name in names(module) if inspect.isabstract(getattr(module, name))}
    assert abstract
    assert [name for name in sorted(abstract) if f"`{name}`" not in str(module.__doc__)] == []


@pytest.mark.parametrize("module", [each.__name__ for each in LAZY])
def test_an_import_is_light(module: str) -> None:
    code = f"import sys, {module}; assert not {{'pyspark', 'pyarrow', 'kafka'}} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_one_module_spells_the_column_of_the_row_kind() -> None:
    source = Path(penstock.__file__).parent
    texts = {path.relative_to(source): path.read_text(encoding="utf-8") for path in source.glob("**/*.py")}
    assert [str(path) for path, text in texts.items() if f'"{changelog.ROW_KIND}"' in text] == ["types.py"]


WITH_A_STATE = {
    "aggregate",
    "deduplicate",
    "join",
    "normalize",
    "over",
    "sessions",
    "sort_by_time",
    "temporal_join",
    "top_n",
}


def arguments(name: str) -> list[inspect.Parameter]:
    return list(inspect.signature(getattr(changelog, name)).parameters.values())


@pytest.mark.parametrize("name", sorted(names(changelog) - {"ROW_KIND"}))
def test_a_function_over_changelogs_takes_rows_and_keys_first(name: str) -> None:
    """Two DataFrames are joined `on` columns, as PySpark does it. A sort by time has no keys."""
    first = [each.name for each in arguments(name) if each.kind is each.POSITIONAL_OR_KEYWORD]
    others = {
        "join": ["left", "right", "on"],
        "temporal_join": ["rows", "versions", "on"],
        "sort_by_time": ["df"],
    }
    assert first[:3] == others[name] if name in others else first[:2] == ["df", "keys"]


@pytest.mark.parametrize("name", sorted(names(changelog) - {"ROW_KIND"}))
def test_each_function_with_a_state_takes_a_folder_a_name_and_partitions(name: str) -> None:
    found = [(each.name, each.default) for each in arguments(name) if each.name in ("state", "name")]
    assert found == ([("state", None), ("name", None)] if name in WITH_A_STATE else [])
