"""All scenarios."""

from __future__ import annotations

from tests.scenarios import client, logs, topics, transactions
from tests.scenarios.cluster import SCENARIOS

ALL = SCENARIOS
__all__ = ["ALL", "client", "logs", "topics", "transactions"]
