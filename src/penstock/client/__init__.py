"""The Kafka client: net <- cluster <- fetch, produce <- transactions, and the settings of all.

Runs on driver and executors. Invariant: every exception that leaves this room is one of `penstock.errors`.
"""
