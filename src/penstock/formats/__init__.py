"""Formats: the bytes of a key or value to rows, and back. Arrow in, Arrow out; no Kafka, no Spark.

`format_of(spec)` on the driver returns a `Format`, which pickles. Executors make its decoders and encoders.
"""

from penstock.formats.base import (
    INSERT,
    ROW_KIND,
    DecodedRows,
    Decoder,
    Encoder,
    Format,
    LeftOut,
    RowFailure,
    is_changelog,
    metadata_column,
)
from penstock.formats.registry import format_names, format_of

__all__ = [
    "INSERT",
    "ROW_KIND",
    "DecodedRows",
    "Decoder",
    "Encoder",
    "Format",
    "LeftOut",
    "RowFailure",
    "format_names",
    "format_of",
    "is_changelog",
    "metadata_column",
]
