"""Make docs/api from the public modules: `python -m tests.api_pages` writes signatures and docstrings.

Invariant: what the pages list is what `penstock` promises. tests/unit/test_public.py compares the pages with
the code, and checks that each name has types and a docstring.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from types import ModuleType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

FOLDER = Path(__file__).parents[1] / "docs" / "api"
MODULES = {
    "penstock": "what most jobs need: builders, batch writes, runs that end, progress, failures",
    "penstock.changelog": "tables that change: functions of DataFrames",
    "penstock.cdc": "a whole database as tables",
    "penstock.targets": "tables that `penstock.changelog.materialize` keeps equal to a changelog",
    "penstock.flink": "PyFlink's names, and the classes that users subclass",
    "penstock.flink.legacy": "Flink's API before `KafkaSource`",
    "penstock.sql": "Flink's SQL",
    "penstock.metrics": "lag and health from Spark's progress reports",
    "penstock.lineage": "OpenLineage's events",
    "penstock.errors": "all errors",
    "penstock.testing": "for tests of jobs: a fake Kafka, waiting, a judge",
    "penstock.devbroker": "a real Kafka for development and tests",
}
"""The public modules. Every other module is internal."""

_MADE = "<!-- Made by `python -m tests.api_pages` (`make docs`): change the docstrings, not this. -->"
_INSIDE = "\n\nInside:\n"
"""What follows it in the docstring of a module is for those who change the module."""
_SECTION = re.compile(r"(Args|Attributes|Returns|Yields|Raises):")
OPAQUE = {
    "Control",  # what FakeKafka.control returns
    "MicroBatchWriter",  # a function for foreachBatch
    "Target",  # one of penstock.targets
    "ValueOnly",  # for set_deserializer
    "HasAddress",  # a fake or a real Kafka
}
"""Internal types that users pass on, and do not name."""

_NAME = re.compile(r"(?<![\w.'\"])[A-Za-z_]\w*")
_MODULE = re.compile(r"\b(?:typing|datetime|collections\.abc)\.")
_ITEM = re.compile(r"    (\w[\w, ]*): (.*)")
_WITHOUT_ITEMS = ("Returns", "Yields")
_PAGE = re.compile(r"\bdocs/([\w/-]+\.md)")


def public_names(module: ModuleType) -> list[str]:
    """Return the public names of a public module, in alphabetical order."""
    names = getattr(module, "__all__", None) or _own_classes(module)
    return sorted({each for each in names if not each.startswith("_")}, key=str.lower)


def _own_classes(module: ModuleType) -> list[str]:
    """Return the classes of a module that is public as a whole."""
    return [
        name for name, found in vars(module).items() if getattr(found, "__module__", "") == module.__name__
    ]


def members_of(cls: type) -> Iterator[tuple[str, Any]]:
    """Yield the public members that a class has itself, or from bases that are not public.

    A member that takes or gives an internal type is for penstock alone.
    """
    seen = set()
    for each in cls.__mro__:
        if not each.__module__.startswith("penstock.") or (each is not cls and each in public_classes()):
            continue
        for name, member in vars(each).items():
            if name.startswith("_") or name in seen or not _is_documented(member):
                continue
            seen.add(name)
            if not internal_types(function_of(member)):
                yield name, member


@functools.cache
def public_classes() -> dict[type, str]:
    """Return all public classes, and the names that users know."""
    found = (importlib.import_module(name) for name in MODULES)
    members = ((getattr(module, name), name) for module in found for name in public_names(module))
    return {each: name for each, name in members if inspect.isclass(each)}


def _is_documented(member: object) -> bool:
    return inspect.isfunction(member) or isinstance(member, (staticmethod, classmethod, property))


def function_of(member: Any) -> Callable[..., Any]:
    """Return the function of a method or property."""
    found = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
    assert callable(found)
    return found


def signature_of(function: Callable[..., Any], *, is_bound: bool = False) -> str:
    """Return the arguments with their types and defaults, and the type of the result."""
    signature = inspect.signature(function)
    shown, star = [], False
    for number, each in enumerate(signature.parameters.values()):
        if number == 0 and is_bound and each.name in ("self", "cls"):
            continue
        if each.kind is each.KEYWORD_ONLY and not star:
            shown.append("*")
            star = True
        star = star or each.kind is each.VAR_POSITIONAL
        shown.append(_parameter(each, function.__module__))
    returns = signature.return_annotation
    result = "" if returns is signature.empty else f" -> {_type(returns, function.__module__)}"
    line = f"({', '.join(shown)}){result}"
    return line if len(line) <= 90 else "(\n" + "".join(f"    {each},\n" for each in shown) + f"){result}"


def _parameter(parameter: inspect.Parameter, home: str) -> str:
    of_many = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}
    stars = of_many.get(parameter.kind.name, "")
    typed = "" if parameter.annotation is parameter.empty else f": {_type(parameter.annotation, home)}"
    if parameter.default is parameter.empty:
        return f"{stars}{parameter.name}{typed}"
    return f"{parameter.name}{typed} = {_default(parameter.default)}"


def _type(annotation: Any, home: str) -> str:
    """Return an annotation in which names of penstock are those that users know."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return _NAME.sub(lambda found: _shown(found[0], home), text)


def _shown(name: str, home: str) -> str:
    found = types_of(home).get(name)
    if found is None:
        return name
    if inspect.isclass(found):
        return public_classes().get(found, name)
    if isinstance(found, TypeVar):
        return "Self"
    if isinstance(found, UnionType) and all(inspect.isclass(each) for each in get_args(found)):
        return " | ".join(public_classes().get(each, each.__name__) for each in get_args(found))
    return _MODULE.sub("", str(found))


def internal_types(function: Callable[..., Any]) -> set[str]:
    """Return the classes of penstock in the annotations of a function that are not public."""
    signature = inspect.signature(function)
    given = [each.annotation for each in signature.parameters.values()] + [signature.return_annotation]
    known = types_of(function.__module__)
    names = {name for text in given if isinstance(text, str) for name in _NAME.findall(text)}
    found = {name: known[name] for name in names & set(known) - OPAQUE}
    return {name for name, each in found.items() if any(map(_is_internal, get_args(each) or (each,)))}


def _is_internal(found: Any) -> bool:
    is_ours = inspect.isclass(found) and found.__module__.startswith("penstock.")
    return is_ours and found not in public_classes()


@functools.cache
def types_of(module: str) -> dict[str, Any]:
    """Return the types of penstock by the names that a module has for them, also for type checkers only."""
    tree = ast.parse(Path(str(sys.modules[module].__file__)).read_text(encoding="utf-8"))
    homes = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            homes.update({each.asname or each.name: (node.module, each.name) for each in node.names})
    ours = {name: each for name, each in homes.items() if each[0].startswith("penstock")}
    found = {name: getattr(importlib.import_module(home), of, None) for name, (home, of) in ours.items()}
    found.update(vars(sys.modules[module]))
    return {name: each for name, each in found.items() if _is_type_of_ours(each)}


def _is_type_of_ours(found: Any) -> bool:
    if inspect.isclass(found):
        return found.__module__.startswith("penstock.")
    return isinstance(found, (TypeVar, UnionType)) or get_origin(found) in (Literal, Union)


def _default(value: object) -> str:
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    text = repr(value)
    return "..." if text.startswith("<") or " at 0x" in text else text


def linked(text: str, folder: str) -> str:
    """Return a text in which each page that it names is a link. `folder` is the way to docs/."""
    return _PAGE.sub(rf"[\1]({folder}\1)", text)


def markdown(docstring: str) -> str:
    """Return a docstring with its sections as lists."""
    lines, in_section, has_items = [], False, False
    for line in docstring.splitlines():
        if found := _SECTION.fullmatch(line):
            in_section, has_items = True, found[1] not in _WITHOUT_ITEMS
            lines += [f"**{found[1]}**", ""]
        elif in_section and has_items and (item := _ITEM.fullmatch(line)):
            lines.append(f"- `{item[1]}`: {item[2]}")
        elif in_section and line.startswith("    "):
            lines.append(f"  {line.strip()}" if lines[-1].startswith(("- ", "  ")) else line.strip())
        else:
            in_section = in_section and not line
            lines.append(line)
    return "\n".join(lines).strip()


def page_of(name: str) -> str:
    """Return the page of a public module."""
    module = importlib.import_module(name)
    for_users, _, _ = _docstring(module).partition(_INSIDE)
    parts = [f"# {name}", _MADE, markdown(for_users), ""]
    for each in public_names(module):
        parts += _entry(name, each, getattr(module, each))
    return linked("\n\n".join(part for part in parts if part), "../") + "\n"


def _entry(module: str, name: str, found: Any) -> Iterator[str]:
    yield f"## {name}"
    if module == "penstock" and name in public_names(importlib.import_module("penstock.flink")):
        yield f"The same as [penstock.flink.{name}](penstock.flink.md#{name.lower()})."
    elif inspect.isfunction(found):
        yield f"```python\n{name}{signature_of(found)}\n```"
        yield markdown(_docstring(found))
    elif not inspect.isclass(found):
        yield f"The constant `{found!r}`."
    else:
        yield from _class(name, found)


def _class(name: str, cls: type) -> Iterator[str]:
    bases = [each.__name__ for each in cls.__bases__ if each in public_classes() or each is Exception]
    constructor = _constructor(name, cls)
    listed = f"({', '.join(bases)})" if bases else ""
    yield f"```python\nclass {name}{listed}\n{constructor}```"
    yield markdown(_docstring(cls))
    if issubclass(cls, Enum):
        yield f"Values: {', '.join(f'`{each.name}`' for each in cls)}."
    aliases: dict[str, list[str]] = {}
    shown: dict[Callable[..., Any], str] = {}
    for each, member in members_of(cls):
        first = shown.setdefault(function_of(member), each)
        aliases.setdefault(first, []).append(each)
    for function, each in shown.items():
        yield f"### {name}.{each}"
        is_property = isinstance(inspect.getattr_static(cls, each), property)
        is_static = isinstance(inspect.getattr_static(cls, each), staticmethod)
        text = signature_of(function, is_bound=not is_static)
        if is_property:
            text = text.replace("() -> ", ": ")
        yield f"```python\n{each}{text}\n```"
        if others := aliases[each][1:]:
            yield f"Also: {', '.join(f'`{other}`' for other in others)}."
        yield markdown(_docstring(getattr(cls, each) if is_property else function, cls, each))


def constructor_of(cls: type) -> Callable[..., Any] | None:
    """Return the `__init__` of a class that users call; None for an enumeration or an error."""
    found: Callable[..., Any] | None = vars(cls).get("__init__") or getattr(cls, "__init__", None)
    if issubclass(cls, (Enum, Exception)) or found is object.__init__ or not inspect.isfunction(found):
        return None
    return None if internal_types(found) else found


def _constructor(name: str, cls: type) -> str:
    found = constructor_of(cls)
    return "" if found is None else f"{name}{signature_of(found, is_bound=True).removesuffix(' -> None')}\n"


def _docstring(found: Any, cls: type | None = None, name: str = "") -> str:
    text = inspect.getdoc(found) or (inspect.getdoc(getattr(cls, name)) if cls is not None else None)
    return text or ""


def index() -> str:
    """Return the page that lists the public modules and their names."""
    lines = [
        "# Public names",
        "",
        _MADE,
        "",
        "These are public: the names on these pages, the [options](../options.md), the columns of reads and",
        "writes, the commands of `penstock`, and the form of what is kept (checkpoints, states, decision",
        "logs). Every other module of `penstock` is internal and may change in any version, whether its name",
        "begins with `_` or not. A method that takes or gives an internal type is internal too.",
        "",
        "| module | what it has | names |",
        "|---|---|---|",
    ]
    for name, what in MODULES.items():
        names = public_names(importlib.import_module(name))
        links = ", ".join(f"[{each}]({name}.md#{each.lower()})" for each in names)
        lines.append(f"| [{name}]({name}.md) | {what} | {links} |")
    return "\n".join(lines) + "\n"


def pages() -> dict[str, str]:
    """Return the text of each page by its file name."""
    return {"README.md": index(), **{f"{name}.md": page_of(name) for name in MODULES}}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file, text in pages().items():
        (FOLDER / file).write_text(text, encoding="utf-8")
