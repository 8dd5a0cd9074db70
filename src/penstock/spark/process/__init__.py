"""Everything that touches a process which is not penstock's own: Spark's Python workers.

Each module does one thing, says why, and has a switch (`penstock.switches`); docs/ARCHITECTURE.md has the
table. Invariant: in processes that PySpark did not start, nothing here does anything.
"""
