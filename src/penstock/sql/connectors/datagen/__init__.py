"""The connector `datagen`: rows that are made of random values and sequences.

`plan` and `values` are pure; `source` is Spark's data source and runs on the driver and in tasks. Invariant:
a row depends only on the seed of its query and its number, so a repeated batch has the same rows.
"""
