"""Kafka's transactions: begun by a task, ended by the driver, described by both.

This room knows nothing of micro-batches or decisions; `sink.exactly_once` does.
"""
