"""Find the folders in which Spark puts the files that are sent with a job.

Runs in all of Spark's Python processes. Spark gives each process one folder and puts it on the module search
path. It is a session's own folder inside the application's, and holds what `addArtifact` has sent. On the
driver, what `--files` and `addFile` have sent stays in the application's folder. The process that plans a
stream gets a folder that does not exist, whatever the session is: only the data source, which another process
has made, knows the session's.
"""

from __future__ import annotations

import os
import sys
import uuid

from penstock.spark.process.kind import is_spark_process

_OF_STREAM_PLANNERS = "streaming_job"


def sparks_file_folders() -> tuple[str, ...]:
    """Return Spark's folders of sent files for this process: the session's, then the application's."""
    folder = _folder() if is_spark_process() else None
    if folder is None:
        return ()
    application, name = os.path.split(os.path.abspath(folder))  # noqa: PTH100 - keeps links as Spark has them
    return (folder, application) if _is_of_session(name) else (folder,)


def _folder() -> str | None:
    """Return what `SparkFiles.getRootDirectory()` returns in a process that Spark has prepared."""
    files = getattr(sys.modules.get("pyspark.core.files"), "SparkFiles", None)
    folder: str | None = getattr(files, "_root_directory", None)
    return folder


def _is_of_session(name: str) -> bool:
    if name == _OF_STREAM_PLANNERS:
        return True
    try:
        uuid.UUID(name)
    except ValueError:
        return False
    return True
