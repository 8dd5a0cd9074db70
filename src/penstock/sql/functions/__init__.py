"""The functions and operators of Flink as texts of Spark's SQL.

Runs on the driver. Invariant: a function gives the value that Flink gives, or is refused.
"""
