"""Plan what a batch reads, and read one split of it.

The driver plans: `enumerator` (streams) and `bounded` (batch reads) make an offset and its splits. An
executor reads a split: `split_reader`. Invariant: a plan follows from two offsets and the options alone, so
that a replay reads the same records.
"""
