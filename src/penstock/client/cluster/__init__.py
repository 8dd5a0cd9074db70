"""Ask the cluster for leaders, offsets of logs and groups, sizes, topics.

Runs on driver and executors. Invariant: a question about many topic partitions is one request to each broker.
"""
