"""TLS, logins and secrets: what Java clients' properties say of them, for brokers and Schema Registry alike.

Runs on driver and executors. Invariants: settings are frozen and hashable; no `repr`, log record or error of
this room shows a secret; nothing here knows kafka-python or pyspark.
"""
