"""SQL judged by Flink: scripts and expressions, what Flink answers, and what penstock answers.

`python -m tests.judges.sql` runs all scripts with penstock, in batch and as streams, and compares with the
answers of Flink in tests/data/sql. `FLINK=1 python -m tests.judges.sql` asks a real Flink.
"""
