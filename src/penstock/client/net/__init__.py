"""Connections to brokers: sockets, the IO thread, pauses between attempts, Kafka's errors as ours.

Runs on driver and executors. Knows no request but those of a connection itself; all other rooms of the client
send theirs through `connection`.
"""
