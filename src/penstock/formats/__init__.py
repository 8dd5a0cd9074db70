"""Formats: the bytes of a key or value to rows, and back. Arrow in, Arrow out; no Kafka, no Spark.

`format_for(name, options, prefix)` on the driver gives a `Format`; it pickles, and its decoders and
encoders are made where they run.
"""

from penstock.formats.base import DecodedRows, Decoder, Encoder, Format, RowFailure
from penstock.formats.registry import format_for, format_names

__all__ = ["DecodedRows", "Decoder", "Encoder", "Format", "RowFailure", "format_for", "format_names"]
