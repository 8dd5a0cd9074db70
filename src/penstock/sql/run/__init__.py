"""Sessions: statements run on Spark.

Runs in the user's program, on Spark classic and Connect. Invariant: a query is translated, analysed and
checked before anything starts.
"""
