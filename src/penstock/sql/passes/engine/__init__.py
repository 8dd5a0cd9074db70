"""The engine of each node of a stream: Spark's, or an operator of penstock, chosen by traits alone.

Runs on the driver. Invariant: Spark gets a node only if it streams it with the rows of Flink, whatever the
micro-batches are. `choose.py` has the pass; the other files have a kind of node each.
"""
