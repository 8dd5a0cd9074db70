"""Nexmark's queries as streams in several numbers of micro-batches and as batches, beside a plain oracle.

`queries/` has files of the public benchmark, https://github.com/nexmark/nexmark at 6b3646c, under the Apache
License 2.0, unchanged: the table of its events (`ddl_kafka.sql`), its views, and each query. `scripts` puts
hosts and connectors into their texts. The generator and the oracle are our own.
"""
