"""The logical plan of a query: typed nodes and expressions, whose columns are ids.

Runs on the driver. Invariant: nothing here knows the parser or Spark. A name of a column exists only where a
query begins (a table) and where it ends (its output).
"""
