"""Put Python objects of the user into an option: `<version>:<Python version>:<base64 of a pickle>`.

The user's program makes the text (flink/_pickling.py), the driver checks it, and the process that uses the
object loads it. Invariant: only `load` runs code of the user.
"""

from __future__ import annotations

import base64
import binascii
import pickle
import sys
from dataclasses import dataclass
from typing import Any

from penstock.errors import OptionError

PICKLE_BYTES_MAX = 256 << 10
"""A limit, because the option is copied into every plan of the query."""


@dataclass(frozen=True)
class ObjectKind:
    """One kind of object that travels in an option.

    Attributes:
        version: the beginning of its texts. A new form of the text needs a new version.
        what: the kind, for messages.
        made_by: the call of the user that makes the text, for messages.
        where: the process that uses the object, for messages.
    """

    version: str
    what: str
    made_by: str
    where: str

    def is_text(self, text: str) -> bool:
        return text.startswith(f"{self.version}:")

    def join(self, pickled: bytes, python_version: str) -> str:
        """Return the text for a pickle. Raises OptionError if the pickle is too large."""
        if len(pickled) > PICKLE_BYTES_MAX:
            raise OptionError(
                f"The {self.what} has {len(pickled)} bytes as a pickle; at most {PICKLE_BYTES_MAX} are "
                f"allowed. Let it read large data where it runs, {self.where}.",
                size_bytes=len(pickled),
            )
        return f"{self.version}:{python_version}:{base64.b64encode(pickled).decode()}"

    def split(self, text: str, key: str) -> tuple[str, bytes]:
        """Return the Python version and the pickle in the text of an option.

        Raises:
            OptionError: another version of penstock made the text, or it is damaged.
        """
        version, _, rest = text.partition(":")
        python_version, _, encoded = rest.partition(":")
        if version != self.version:
            raise OptionError(
                f"Option '{key}' does not begin with '{self.version}:'. Only {self.made_by} can make it, and "
                "the version of penstock must be the same in your program and where the query is planned.",
                option=key,
            )
        try:
            pickled = base64.b64decode(encoded, validate=True)
        except binascii.Error:
            raise OptionError(f"Option '{key}' is damaged: expected base64.", option=key) from None
        if not pickled or len(pickled) > PICKLE_BYTES_MAX:
            raise OptionError(
                f"Option '{key}' is damaged: expected 1 to {PICKLE_BYTES_MAX} bytes, got {len(pickled)}.",
                option=key,
            )
        return python_version, pickled

    def load(self, text: str, key: str) -> Any:
        """Return the object.

        Raises:
            OptionError: the text is damaged or of another Python version, or the object cannot be loaded.
        """
        python_version, pickled = self.split(text, key)
        here = f"{sys.version_info.major}.{sys.version_info.minor}"
        if python_version != here:
            raise OptionError(
                f"The {self.what} was made with Python {python_version}, but Spark runs Python {here} "
                f"{self.where}. Use the same minor version for both, because pickled code needs it.",
                python_version=python_version,
            )
        try:
            return pickle.loads(pickled)  # noqa: S301 - the user's own object, from the options of the user's query
        except Exception as error:
            raise OptionError(
                f"The {self.what} cannot be loaded {self.where}: {type(error).__name__}: {error}. The "
                "modules that it imports must be installed there."
            ) from error


INITIALIZER = ObjectKind(
    "penstock-initializer-1", "offsets initializer", "penstock.KafkaSource.builder()", "on the driver"
)
PARTITIONER = ObjectKind(
    "penstock-partitioner-1",
    "partitioner",
    "penstock.KafkaRecordSerializationSchema.builder()",
    "on the executors and on the driver",
)
DESERIALIZER = ObjectKind(
    "penstock-deserializer-1", "deserializer", "penstock.KafkaSource.builder()", "on the executors"
)
ASSIGNER = ObjectKind(
    "penstock-assigner-1",
    "timestamp assigner",
    "assign_timestamps_and_watermarks",
    "on the executors and on the driver",
)
FUNCTION = ObjectKind(
    "penstock-function-1",
    "function of the record serializer",
    "penstock.KafkaRecordSerializationSchema.builder()",
    "on the executors",
)
