"""Writing: rows to record batches that the brokers have acknowledged.

Runs on executors. Invariant: within a topic partition records keep their order, and a batch is in the log
once, however often it is sent.
"""
