"""Flink's SQL on Spark: statements, queries, sessions.

Runs on the driver. Invariant: `language` and `query` know neither Spark nor Kafka. A statement that penstock
does not serve is refused by name, with its place, before any query starts.
"""
