"""Flink's queries and expressions, translated into Spark's SQL.

Runs on the driver. Invariant: a part of a query that this folder does not know is refused with its place. So
each of its functions may raise SqlError, or ValueError if it does not know the place: the caller adds it.
Spark is asked for the types of columns through a `Binder`, so nothing here imports Spark.
"""
