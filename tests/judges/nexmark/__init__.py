"""Nexmark's queries over streams in several numbers of micro-batches, beside a plain oracle.

`queries/` has text of the public benchmark, https://github.com/nexmark/nexmark at 6b3646c, under the Apache
License 2.0: the columns of its table of events, its views, and the INSERT of each query, unchanged. The
generator and the oracle are our own.
"""
