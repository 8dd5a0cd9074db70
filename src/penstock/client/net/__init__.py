"""Connections to brokers: sockets, the IO thread, pauses between attempts, Kafka's errors as ours.

Runs on driver and executors. Makes no requests but those that a connection itself needs; all other rooms of
the client send their requests through `connection`.
"""
