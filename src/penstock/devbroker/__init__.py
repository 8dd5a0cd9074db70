"""A real Apache Kafka as a child process, for the quickstart and the tests. See docs/ARCHITECTURE.md."""

from penstock.devbroker.cluster import DevCluster

__all__ = ["DevCluster"]
