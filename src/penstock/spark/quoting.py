"""Names of columns as Spark's SQL writes them. Runs on the driver. Pure."""

from __future__ import annotations


def quoted(name: str) -> str:
    """Return the name of a column in backticks, so that Spark takes no dot in it for a field."""
    return f"`{name.replace('`', '``')}`"
