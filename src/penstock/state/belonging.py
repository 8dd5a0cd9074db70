"""The sentence that tells what belongs together: a checkpoint, the states of its operators, and its tables.

It stands in each message about one of the three that is of another query, so that users do not repair them
one after the other.
"""

from __future__ import annotations

TOGETHER = (
    "A checkpoint, the states of its operators and the tables that it keeps belong together. Use those of "
    "one query, or begin again with a new checkpoint, new folders for the states and an empty table "
    "(docs/changelogs.md, 'Checkpoint, state and table')."
)
