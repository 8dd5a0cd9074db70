"""Wait for a condition, with a limit. Runs in tests only. No test waits for a fixed time.

pytest's own limit (`timeout` in pyproject.toml) is the last.
"""

from __future__ import annotations

from penstock.testing.waiting import PATIENCE_S, Patience, wait_until

__all__ = ["PATIENCE_S", "Patience", "wait_until"]
