"""The hidden columns of rows: how a row changes the table, and the offset of its record.

Runs on the driver. Invariant: rows that change have the column KIND, and nothing else has it.
"""

from __future__ import annotations

KIND, PARTITION, OFFSET = "__row_kind", "__partition", "__offset"
HIDDEN = (KIND, PARTITION, OFFSET)
OFFSETS = (PARTITION, OFFSET)
"""The columns that say where a record is."""
