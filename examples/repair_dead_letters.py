"""Repair the dead letters of dead_letters.py and put them back, each once. A producer forgot the last brace.

    penstock dead-letters show ex-mixed-bad -b localhost:9092
    penstock dead-letters requeue ex-mixed-bad --edit examples/repair_dead_letters.py -b localhost:9092

The first command names each dead letter with its reason. The second one shows old and new values, and puts
them back with `--yes`. A later run leaves out what is back. Then run dead_letters.py again.
"""

from __future__ import annotations


def edit(value: bytes) -> bytes:
    """Return the repaired bytes of a value."""
    return value if value.endswith(b"}") else value + b"}"
