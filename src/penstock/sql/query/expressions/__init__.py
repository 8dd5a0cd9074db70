"""Expressions of Flink's SQL as expressions of Spark's: `expressions.py`, in parts by kinds of nodes.

Runs on the driver. Invariant: see `expressions.py`.
"""
