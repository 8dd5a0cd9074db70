"""`penstock shadow compare`: compare what a changed job wrote with what the running job wrote of equal input.

Runs on any machine that reaches the brokers. `ranges` finds the batches of both that have read the same
records, `compare` compares what they wrote. Nothing is changed in Kafka.

Invariant: EQUAL is said only of records that were read again on both sides, and of batches that have read the
same offsets. What cannot be read, or has no counterpart, is never called equal.
"""
