"""Read a range [start, stop) of a topic partition into KafkaRecords.

Runs on executors (and on the driver for the decision log). Invariant: every record of the range is delivered
once and in order, or an error says which are missing.
"""
