"""What penstock does on one PySpark: each case runs here, and the runner judges what it has written.

The runner sends this folder alone. It runs in an environment that has the wheel of penstock and a PySpark,
and nothing else of this repository. It imports no other folder of the tests.
"""
