"""A real Apache Kafka as a child process, for the quickstart and the tests. docs/testing.md is the guide."""

from penstock.devbroker.cluster import DevCluster

__all__ = ["DevCluster"]
