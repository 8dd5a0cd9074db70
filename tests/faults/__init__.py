"""One fault on one chosen request of the exactly-once sink, on a real broker, again and again.

`python -m tests.faults --count 100 --seed 1` starts a broker for each transaction protocol, runs batches
through a proxy, and prints how often each fault happened. Invariant: each batch is in its topic once at the
end, in order, and no transaction is open.
"""
