"""All scenarios."""

from __future__ import annotations

from tests.scenarios import client, group_offsets, logs, topics, transactions
from tests.scenarios.cluster import SCENARIOS

ALL = SCENARIOS
__all__ = ["ALL", "client", "group_offsets", "logs", "topics", "transactions"]
