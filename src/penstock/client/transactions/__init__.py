"""Kafka's transactions: begun by a task, ended by the driver, asked about by both.

The steps know nothing of batches or decisions; `sink.exactly_once` does.
"""
