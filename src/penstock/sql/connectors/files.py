"""Read and write the files of a folder with Spark.

Runs on the driver. Invariant: a value that does not fit its column stops the query.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.security.location import without_secrets
from penstock.spark.connect import is_connect
from penstock.sql.connectors.described import Files
from penstock.sql.connectors.sessions import first_line
from penstock.sql.plan.texts import literal, quoted

_STRICT = ("json", "csv")
_NULL = "\ue000NULL\ue000"
"""Stands for nothing between two commas while Spark reads CSV. By itself it takes "" for NULL, too."""
_WRITTEN: Mapping[str, str] = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS][XXX]",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]",
    "ignoreLeadingWhiteSpace": "false",
    "ignoreTrailingWhiteSpace": "false",
}
"""Options with which Spark writes whole values: by itself it cuts off microseconds, and blanks in CSV."""
_NO_VALUE = ("", "__DEFAULT_PARTITION__", "__HIVE_DEFAULT_PARTITION__")
"""Names of the folder of rows without a value: Flink's and Spark's, which it gives to '' too."""


def open_files(spark: Any, files: Files, schema: Any, *, streaming: bool) -> Any:
    """Return the columns of the files as a DataFrame: read once, as in Flink, or watched by a stream.

    Raises:
        ValueError: Spark cannot read the folder.
    """
    reader = spark.readStream if streaming and files.is_streamed else spark.read
    if files.format in _STRICT:  # without it Spark reads a wrong value as NULL
        reader = reader.option("mode", "FAILFAST")
    if files.format == "csv":
        reader = reader.option("nullValue", _NULL)
    try:
        frame = reader.format(files.format).schema(_folders_last(schema, files)).load(files.path)
    except Exception as error:
        raise _unreachable(files.path, error) from error
    if files.definition.partitioned_by:
        frame = frame.select([quoted(name) for name in schema.names])
    return _in_folders(frame, files, f"CASE WHEN {{0}} NOT IN {_NO_VALUE} THEN {{0}} END")


def written_with(files: Files) -> dict[str, str]:
    """Return the options with which Spark writes the files, so that a read gives back each value."""
    return dict(_WRITTEN) if files.format in _STRICT else {}


def _folders_last(schema: Any, files: Files) -> Any:
    """Return the columns in the order of the files, which do not have those of the folders.

    Spark counts the columns of CSV by this schema if a stream has written the folder.
    """
    folders = files.definition.partitioned_by
    if not folders:
        return schema
    return type(schema)(sorted(schema.fields, key=lambda field: field.name in folders))


def checked_folders(rows: Any, files: Files) -> Any:
    """Return rows that stop the query if a text is the name of the folder for NULL, and would become NULL."""
    message = literal(
        "A column of PARTITIONED BY is '' or the name of the folder for NULL. Write another value."
    )
    text = f"CASE WHEN {{0}} IN {_NO_VALUE} THEN CAST(raise_error({message}) AS STRING) ELSE {{0}} END"
    return _in_folders(rows, files, text)


def _in_folders(frame: Any, files: Files, text: str) -> Any:
    if not files.definition.partitioned_by:
        return frame
    types = {each.name: each.dataType.simpleString() for each in frame.schema.fields}
    texts = [name for name in files.definition.partitioned_by if types[name] == "string"]
    names = [(name, quoted(name)) for name in types]
    columns = (f"{text.format(column)} AS {column}" if name in texts else column for name, column in names)
    return frame.selectExpr(*columns) if texts else frame


def check_folder(spark: Any, path: str) -> None:
    """Check that files can be written into a folder. Spark Connect cannot tell.

    Raises:
        ValueError: Spark cannot reach it, or it is a file.
    """
    if is_connect(spark):
        return
    try:
        folder = spark._jvm.org.apache.hadoop.fs.Path(path)  # noqa: SLF001 - PySpark has no public way
        store = folder.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())  # noqa: SLF001 - see above
        is_file = store.exists(folder) and not store.getFileStatus(folder).isDirectory()
    except Exception as error:
        raise _unreachable(path, error) from error
    if is_file:
        raise ValueError(
            f"'{without_secrets(path)}' is a file. Expected a folder, because INSERT adds files."
        )


def _unreachable(path: str, error: Exception) -> Exception:
    message = first_line(error)
    return error if message is None else ValueError(f"'{without_secrets(path)}' cannot be reached: {message}")
