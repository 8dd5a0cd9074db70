"""Flink's statements: read from text into frozen values. Tables and views are written back.

Runs on the driver. Invariant: the text of a query or expression is kept as it was written.
`penstock.sql.query` reads it.
"""
