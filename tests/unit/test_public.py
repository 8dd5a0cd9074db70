"""The public names: few in the root, one home for a class, and importing them is cheap."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import penstock
from penstock import changelog, errors, flink
from penstock.flink import legacy
from tests import api_pages

LAZY = (penstock, flink, legacy, changelog)


def names(module: object) -> set[str]:
    return set(module.__all__) - {"__version__"}  # type: ignore[attr-defined]  # a module


def test_the_version_is_that_of_the_distribution() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["version"] == penstock.__version__


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
    assert {asname for home, _, asname in found if home != module.__name__} == names(module)  # type: ignore[attr-defined]  # a module
    assert len(found) == len(imports)
    for home, name, asname in found:
        assert name == asname
        assert asname in dir(module)
        assert getattr(importlib.import_module(str(home)), name) is getattr(module, name)


def test_the_root_has_few_names() -> None:
    assert len(names(penstock)) <= 16


def test_a_class_of_flink_has_one_home_and_the_root_repeats_a_few() -> None:
    assert names(flink) & names(legacy) == set()
    assert names(penstock) & names(legacy) == set()
    for name in names(penstock) & names(flink):
        assert getattr(penstock, name) is getattr(flink, name)
    classes = {name for name in names(penstock) if inspect.isclass(getattr(penstock, name))}
    assert classes - {"ContinuousQuery"} <= names(flink)


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


def public_functions() -> Iterator[tuple[str, Callable[..., object], str]]:
    """The name, the function and the docstring of everything that users call."""
    for name in api_pages.MODULES:
        module = importlib.import_module(name)
        for each in api_pages.public_names(module):
            found = getattr(module, each)
            if inspect.isfunction(found):
                yield f"{name}.{each}", found, inspect.getdoc(found) or ""
            elif inspect.isclass(found):
                if (constructor := api_pages.constructor_of(found)) is not None:
                    yield f"{name}.{each}", constructor, inspect.getdoc(found) or ""
                for member, value in api_pages.members_of(found):
                    text = inspect.getdoc(getattr(found, member)) or ""
                    yield f"{name}.{each}.{member}", api_pages.function_of(value), text


def types_of(function: Callable[..., object]) -> dict[str, object]:
    signature = inspect.signature(function)
    parameters = [each for each in signature.parameters.values() if each.name not in ("self", "cls", "_")]
    return {**{each.name: each.annotation for each in parameters}, "return": signature.return_annotation}


def test_all_that_users_call_has_types_and_a_docstring() -> None:
    """It does what `pyright --verifytypes` does, for what docs/api lists."""
    found = list(public_functions())
    assert len(found) > 300
    assert [name for name, _, text in found if not text] == []
    assert [
        (name, argument)
        for name, function, _ in found
        for argument, annotation in types_of(function).items()
        if annotation is inspect.Parameter.empty
    ] == []
    internal = {name: api_pages.internal_types(function) for name, function, _ in found}
    assert {name: types for name, types in internal.items() if types} == {}


ANY = {
    "PySpark classic and Connect have different classes": {
        *("query", "queries", "failed", "rows", "spark", "event", "frame"),
    },
    "a DataFrame of Spark or a list of rows": {"table", "changes"},
    "a StructType or a text": {"schema", "produced_type", "type_info"},
    "the user's object, of one of several classes": {
        *("deserializer", "deserialization_schema", "record_deserializer", "serialization_schema"),
        *("value_schema", "key_schema", "value_serialization_schema", "key_serialization_schema"),
        *("custom_partitioner", "producer_config", "more", "strategy"),
    },
    "a row or an element of the user": {"value", "element", "next_element"},
    "an optional package has its class": {"console", "client"},
    "what the user's method returns": {"return"},
}


def test_any_hides_no_type_that_users_need() -> None:
    bare = {
        (name, argument)
        for name, function, _ in public_functions()
        for argument, annotation in types_of(function).items()
        if annotation in ("Any", "Any | None")
    }
    right = set().union(*ANY.values())
    assert sorted(each for each in bare if each[1] not in right) == []
    assert right - {argument for _, argument in bare} == set()
    of_ours = {name for name, argument in bare if argument == "return" and "deserial" not in name.lower()}
    assert of_ours == {
        "penstock.flink.legacy.AssignerWithPeriodicWatermarks.get_current_watermark",
        "penstock.flink.legacy.FlinkKafkaConsumer.get_produced_type",
        "penstock.flink.legacy.FlinkKafkaConsumer.getProducedType",
        "penstock.sql.Session.sql",
    }


def test_the_pages_say_what_the_code_has() -> None:
    written = {path.name: path.read_text(encoding="utf-8") for path in api_pages.FOLDER.glob("*.md")}
    assert written == api_pages.pages(), "run make docs"


def test_no_signature_names_a_class_of_an_internal_module() -> None:
    found = {
        (page, each)
        for page, text in api_pages.pages().items()
        for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        for each in re.findall(r"\bpenstock(?:\.\w+)+", block)
    }
    assert found == set()


def test_a_page_that_a_docstring_names_is_a_link() -> None:
    assert [page for page, text in api_pages.pages().items() if re.search(r"\bdocs/\w", text)] == []


def test_a_sentence_with_a_colon_is_not_an_argument() -> None:
    text = "Args:\n    one: is given. None\n        copies: all of it.\n\nReturns:\n    Of a batch: rows."
    expected = "**Args**\n\n- `one`: is given. None\n  copies: all of it.\n\n**Returns**\n\nOf a batch: rows."
    assert api_pages.markdown(text) == expected


def test_the_pages_leave_out_what_is_for_those_who_change_a_module() -> None:
    assert [page for page, text in api_pages.pages().items() if ".py " in text or "Inside:" in text] == []


def test_every_public_module_is_listed_and_can_be_reached_from_the_root() -> None:
    for name in api_pages.MODULES:
        found: object = penstock
        for part in name.split(".")[1:]:
            found = getattr(found, part)
        assert found is importlib.import_module(name)
        assert name.count(".") != 1 or name.partition(".")[2] in dir(penstock)


ROOT = Path(__file__).parents[2]
PIPELINES = ("src/penstock/demo/pipeline.py", "src/penstock/demo/cdc/pipeline.py")
EXAMPLES = [*(ROOT / "docs").glob("*.md"), *(ROOT / name for name in ("README.md", *PIPELINES))]
IMPORT = re.compile(r"^\s*(?:from|import) (penstock[\w.]*)", re.MULTILINE)


def test_examples_import_only_what_is_public() -> None:
    """What users copy: README, guides, and the pipelines of the demos."""
    found = {(path.name, each) for path in EXAMPLES for each in IMPORT.findall(path.read_text("utf-8"))}
    assert {module for _, module in found} >= {"penstock.flink", "penstock.flink.legacy", "penstock.targets"}
    assert sorted((page, module) for page, module in found if module not in api_pages.MODULES) == []


def test_the_tree_of_errors_has_all_of_them() -> None:
    classes = {
        name
        for name, found in vars(errors).items()
        if inspect.isclass(found) and issubclass(found, Exception)
    }
    assert classes - set(re.findall(r"\w+Error", str(errors.__doc__))) == set()
