"""The connector `jdbc`: tables of a database, read by Spark's JDBC and written by it or by `materialize`.

Runs on the driver; Spark reads and appends in its tasks. Invariant: no message and no `repr` has the
password.
"""
