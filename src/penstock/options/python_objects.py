"""Python objects of the user in the text of an option: `<version>:<Python version>:<base64 of a pickle>`.

Texts are made in the user's program (api/_pickling.py) and checked on the driver; objects are loaded where
they are used. Invariant: checking a text never runs code of the user; only `load` does.
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
"""Enough for any rule and a good map; the option is copied into every plan of the query."""


@dataclass(frozen=True)
class ObjectKind:
    """One use of such objects.

    Attributes:
        version: begins its texts; another form of them gets another.
        what: it is, for messages.
        made_by: which call of the user makes the text.
        where: the object is used.
    """

    version: str
    what: str
    made_by: str
    where: str

    def is_text(self, text: str) -> bool:
        """Whether the text claims to hold such an object."""
        return text.startswith(f"{self.version}:")

    def join(self, pickled: bytes, python_version: str) -> str:
        """The text for a pickle.

        Raises:
            OptionError: it is too large.
        """
        if len(pickled) > PICKLE_BYTES_MAX:
            raise OptionError(
                f"The {self.what} takes {len(pickled)} bytes when it is pickled; at most {PICKLE_BYTES_MAX} "
                f"can travel to Spark. Let it read large data where it runs, {self.where}.",
                size_bytes=len(pickled),
            )
        return f"{self.version}:{python_version}:{base64.b64encode(pickled).decode()}"

    def split(self, text: str, key: str) -> tuple[str, bytes]:
        """The Python version and the pickle in the text of an option.

        Raises:
            OptionError: another version of penstock wrote it, or it is damaged.
        """
        version, _, rest = text.partition(":")
        python_version, _, encoded = rest.partition(":")
        if version != self.version:
            raise OptionError(
                f"Option '{key}' does not begin with '{self.version}:'. It is made by {self.made_by}, of the "
                "same version of penstock here and where the query is planned; it is not written by hand.",
                option=key,
            )
        try:
            pickled = base64.b64decode(encoded, validate=True)
        except binascii.Error:
            raise OptionError(f"Option '{key}' is damaged: it is not base64.", option=key) from None
        if not pickled or len(pickled) > PICKLE_BYTES_MAX:
            raise OptionError(
                f"Option '{key}' is damaged: {len(pickled)} bytes, of 1 to {PICKLE_BYTES_MAX}.", option=key
            )
        return python_version, pickled

    def load(self, text: str, key: str) -> Any:
        """The object itself.

        Raises:
            OptionError: the text is damaged, of another Python, or the object cannot be loaded here.
        """
        python_version, pickled = self.split(text, key)
        here = f"{sys.version_info.major}.{sys.version_info.minor}"
        if python_version != here:
            raise OptionError(
                f"The {self.what} was made with Python {python_version}, and Spark runs Python {here} "
                f"{self.where}. Code travels between equal minor versions only: use the same for both.",
                python_version=python_version,
            )
        try:
            return pickle.loads(pickled)  # noqa: S301 - the user's own object, from the options of the user's query
        except Exception as error:
            raise OptionError(
                f"The {self.what} cannot be loaded {self.where}: {type(error).__name__}: {error}. The "
                "modules that it imports have to be installed there."
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
FUNCTION = ObjectKind(
    "penstock-function-1",
    "function of the record serializer",
    "penstock.KafkaRecordSerializationSchema.builder()",
    "on the executors",
)
