"""All code that changes a process of Spark: its Python workers and planners.

Each module changes one thing, says why, and has a switch (`penstock.switches`); docs/ARCHITECTURE.md has the
table. Invariant: nothing here changes a process that PySpark did not start.
"""
