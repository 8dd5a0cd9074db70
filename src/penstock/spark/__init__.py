"""Thin adapters to Spark's Python Data Source API, and the functions that users call beside it.

Runs on driver and executors; docs/ARCHITECTURE.md says which method runs where. Invariant: no rule about
Kafka or tables is decided here.
"""
