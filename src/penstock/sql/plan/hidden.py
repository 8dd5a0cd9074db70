"""The hidden columns of rows: how a row changes the table, and where its record is.

Runs on the driver. Invariant: rows that change have the column KIND, and nothing else has it.
"""

from __future__ import annotations

KIND, PARTITION, OFFSET, PLACE = "__row_kind", "__partition", "__offset", "__place"
HIDDEN = (KIND, PARTITION, OFFSET, PLACE)
OFFSETS = (PARTITION, OFFSET)
"""The columns that say where a record is. PLACE is its topic partition or file, if offsets tell no order."""
