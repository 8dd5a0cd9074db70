"""Formats: the bytes of a key or value to rows, and back. Arrow in, Arrow out; no Kafka, no Spark.

`format_of(spec)` on the driver returns a `Format`, which pickles. Executors make its decoders and encoders.
"""

from penstock.formats.base import DecodedRows, Decoder, Encoder, Format, RowFailure
from penstock.formats.registry import format_names, format_of

__all__ = ["DecodedRows", "Decoder", "Encoder", "Format", "RowFailure", "format_names", "format_of"]
