"""Emission: a plan as queries of Spark.

Runs on the driver. Invariant: nothing is emitted before the whole statement is planned. Columns are `c<id>`
in Spark's SQL, so no name of the user can mean another column there.
"""
