"""The Kafka client: net <- cluster <- fetch, produce <- transactions, and the settings of all.

Runs on driver and executors. Invariant: every exception that leaves this room is one of `penstock.errors`.
Only an installation that cannot work is an ImportError.
"""

from penstock._one_package import check_one_kafka

check_one_kafka()
