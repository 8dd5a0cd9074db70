"""Write the rows of a task to Kafka.

`writer` writes at-least-once and runs on the executor; `exactly_once/` has the transactions, and the driver's
part of them. Invariant: a task that ends well has the acknowledgement of each of its records.
"""
