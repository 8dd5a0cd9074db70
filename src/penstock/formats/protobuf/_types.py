"""Protobuf's message types: found by name in descriptor files or modules, or made from a table's columns.

Runs on driver and executors. Invariant: a `MessageType` holds all definitions that its message needs, so
executors need neither the descriptor file nor the generated module. Each message type has its own pool, so
types with equal names in two tables do not conflict.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.errors import MissingOptionError, OptionError, SchemaError
from penstock.extras import import_extra
from penstock.options.table_spec import FormatSpec

_WELL_KNOWN = "google/protobuf/"


def library(module: str, **facts: str) -> Any:
    """Return a module of the `protobuf` package, which is an optional extra.

    Raises:
        MissingExtraError: the package is not installed. It has `facts`.
    """
    return import_extra("protobuf", f"google.protobuf.{module}", "A Protobuf format", **facts)


def check_installed(spec: FormatSpec) -> None:
    """Check the extra before the options, because the user's class and file need it too.

    Raises:
        MissingExtraError: the package is not installed.
    """
    library("message", option=f"{spec.prefix}format")


@dataclass(frozen=True)
class MessageType:
    """A message type with all files that define it, as a serialized FileDescriptorSet."""

    full_name: str
    files: bytes = field(repr=False)

    def descriptor(self) -> Any:
        """Return the message's descriptor, in a new pool."""
        return message_of(pool_of(_file_set(self.files, "the format's files")), self.full_name)


def from_options(
    descriptor_file: str | None, message_name: str | None, file_key: str, key: str
) -> MessageType:
    """Find the message type that a table names.

    Args:
        descriptor_file: The output of `protoc --include_imports --descriptor_set_out`.
        message_name: A message's full name, as in Protobuf or as in Java. Without a descriptor file a Python
            class, `package.module_pb2.Message`.
        file_key: The option of the file, for error messages.
        key: The option of the name, for error messages.

    Raises:
        OptionError: the file, module or message does not exist.
        MissingOptionError: no name is set, and there is more than one message.
    """
    if descriptor_file is not None:
        return _from_file(descriptor_file, message_name, file_key, key)
    if message_name is None:
        raise MissingOptionError(
            f"Option '{key}' is required and not set: the message's name in 'protobuf.descriptor-file', or a "
            "generated Python class, e.g. 'orders_pb2.Order'.",
            option=key,
        )
    return _from_class(message_name, key)


def _from_file(name: str, message_name: str | None, file_key: str, key: str) -> MessageType:
    try:
        content = Path(name).read_bytes()
    except OSError as error:
        raise OptionError(
            f"The descriptor file '{name}' cannot be read: {error.strerror}. It is read on the driver only.",
            file=name,
            option=file_key,
        ) from None
    files = _file_set(content, f"'{name}'", option=file_key)
    try:
        pool_of(files)
    except SchemaError as error:
        raise OptionError(f"The descriptor file '{name}': {error}", file=name, option=file_key) from None
    names = {full: java for one in files for full, java in _names(one)}
    if message_name is None:
        if len(names) != 1:
            raise MissingOptionError(
                f"Option '{key}' is required: '{name}' has {len(names)} messages: {_some(names)}.", option=key
            )
        message_name = next(iter(names))
    found = [full for full, java in names.items() if message_name in (full, java)]
    if not found:
        raise OptionError(
            f"Option '{key}' is '{message_name}', which is not a message of '{name}'. Its messages: "
            f"{_some(names)}.",
            option=key,
        )
    return MessageType(found[0], content)


def _some(names: Iterable[str]) -> str:
    listed = sorted(names)
    return ", ".join(listed[:20]) + (" ..." if len(listed) > 20 else "") or "none"


def _from_class(name: str, key: str) -> MessageType:
    module_name, _, class_name = name.rpartition(".")
    try:
        module = importlib.import_module(module_name)
        descriptor = getattr(module, class_name).DESCRIPTOR
        return type_of(descriptor)
    except (ImportError, AttributeError, ValueError) as error:
        raise OptionError(
            f"Option '{key}': the driver cannot import the generated Python class '{name}' "
            f"({type(error).__name__}: {error}). Correct the name, or set 'protobuf.descriptor-file' and the "
            "name of a message in that file.",
            option=key,
        ) from None


def type_of(descriptor: Any) -> MessageType:
    """Return the message type of a descriptor, with the files that it needs."""
    files = library("descriptor_pb2").FileDescriptorSet()
    seen: set[str] = set()

    def add(one: Any) -> None:
        if one.name not in seen:
            seen.add(one.name)
            for dependency in one.dependencies:
                add(dependency)
            files.file.append(library("descriptor_pb2").FileDescriptorProto.FromString(one.serialized_pb))

    add(descriptor.file)
    return MessageType(descriptor.full_name, files.SerializeToString())


def _file_set(content: bytes, where: str, **facts: str) -> list[Any]:
    try:
        return list(library("descriptor_pb2").FileDescriptorSet.FromString(content).file)
    except library("message").DecodeError:
        raise OptionError(
            f"{where} is not a descriptor file. Make it with `protoc --include_imports "
            "--descriptor_set_out=...`.",
            **facts,
        ) from None


def pool_of(files: Iterable[Any]) -> Any:
    """Make a descriptor pool of files (FileDescriptorProto) and the well-known files that they import.

    Raises:
        SchemaError: an import is missing, or the files contradict each other.
    """
    by_name = {one.name: one for one in files}
    pool = library("descriptor_pool").DescriptorPool()
    done: set[str] = set()
    for name in by_name:
        _add(pool, by_name, name, done, ())
    return pool


def _add(pool: Any, by_name: Mapping[str, Any], name: str, done: set[str], path: tuple[str, ...]) -> None:
    """Add a file after the files that it imports."""
    if name in done:
        return
    if name in path or len(path) > 100:
        raise SchemaError(
            f"The Protobuf file '{name}' imports itself, or its imports nest too deep.", file=name
        )
    one = by_name[name] if name in by_name else _well_known(name)
    for imported in one.dependency:
        _add(pool, by_name, imported, done, (*path, name))
    try:
        pool.AddSerializedFile(one.SerializeToString())
    except (TypeError, ValueError, UnicodeError) as error:
        raise SchemaError(f"The Protobuf file '{name}' is not valid: {error}", file=name) from None
    done.add(name)


def _well_known(name: str) -> Any:
    stem = name.removeprefix(_WELL_KNOWN).removesuffix(".proto")
    if name == f"{_WELL_KNOWN}{stem}.proto" and stem.isidentifier():
        try:
            module = importlib.import_module(f"google.protobuf.{stem}_pb2")
        except ImportError:
            pass
        else:
            return library("descriptor_pb2").FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
    raise SchemaError(
        f"The Protobuf file '{name}' is imported, and the descriptor file does not have it. Make the "
        "descriptor file with --include_imports.",
        file=name,
    )


def message_of(pool: Any, full_name: str) -> Any:
    """Return a message's descriptor by name. Raises SchemaError if the pool does not have the message."""
    try:
        return pool.FindMessageTypeByName(full_name)
    except KeyError:
        raise SchemaError(
            f"The Protobuf message '{full_name}' does not exist.", message_type=full_name
        ) from None


def _names(one: Any) -> list[tuple[str, str]]:
    """Return the full names of a file's messages, and the names of their classes in Java."""
    package = one.options.java_package or one.package
    outer = one.options.java_outer_classname or _camel(Path(one.name).stem)
    begin = f"{package}." if package else ""
    java_begin = begin if one.options.java_multiple_files else f"{begin}{outer}$"
    found: list[tuple[str, str]] = []

    def add(messages: Any, proto: str, java: str) -> None:
        for message in messages:
            if not message.options.map_entry:
                found.append((proto + message.name, java + message.name))
                add(message.nested_type, f"{proto}{message.name}.", f"{java}{message.name}$")

    add(one.message_type, f"{one.package}." if one.package else "", java_begin)
    return found


def _camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.replace("-", "_").split("_"))
