"""What changelogs cost: `python -m benchmarks.changelogs [QUESTION ...] [--keys 10000000]`.

Questions, the systems in turn in one run, medians of the rounds after one to warm up. FLINK=1 adds Flink:

- decode: each changelog format, from a topic into a sink that drops the rows. Beside it Spark's `from_json`
  (`from_avro` for Avro) and Flink on the same bytes, and a raw read of the same topic by each system. The
  difference to the raw read is what the format itself costs;
- normalize: events over keys, in batches, into the noop sink. CPU for each event: of the scan alone, of the
  scan with the shuffle, of `normalize`, of Spark's own `max_by`, of Spark's `transformWithState` (fewer
  events) and of Flink's ChangelogNormalize with its state in RocksDB. `max_by` keeps the newest row of each
  key too, but knows no old row;
- sums: count, sum and average of few groups and of many, into the noop sink. CPU for each event over the
  scan: of `aggregate`, and of `signed_sums`, whose state is Spark's;
- many-keys: a batch of few rows on a state of few keys and on one of many; the restart, the memory of the
  largest Python worker (its own, and with the mapped files of the state) and the size of the state.

Invariants: each system reads all rows, and gives the rows that the input must give, or the run ends.
"""
