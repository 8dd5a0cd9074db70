"""Flink's queries and expressions, translated into Spark's SQL.

Runs on the driver. Invariant: a part of a query that this folder does not know is refused with its place.
Spark is asked for the types of columns through a `Binder`, so nothing here imports Spark.
"""
