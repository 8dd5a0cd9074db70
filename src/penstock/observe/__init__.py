"""What an operator sees of a reader: its lag, its health, and who holds it back.

Runs wherever the question is asked: a command, the driver. Invariants: looking changes nothing in Kafka or in
a checkpoint; the rules (`lag`, `health`, `monitor`) ask nothing and read no clock.
"""
