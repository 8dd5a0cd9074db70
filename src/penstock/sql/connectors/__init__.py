"""Connectors of SQL that are not Kafka: rows made of options, and tables of a database.

Runs on the driver, and in tasks where a module says so. Invariant: an option that would have no effect on the
data is accepted only if it is listed; any other unknown option is refused.
"""
