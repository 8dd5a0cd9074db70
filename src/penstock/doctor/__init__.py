"""`penstock doctor`: find out before a query runs what would stop it or endanger its data.

Runs on any machine that reaches the brokers, best on the driver's. Invariant: it changes nothing in Kafka.
"""
