"""Flink's SQL on Spark beside Flink: `python -m benchmarks.sql`."""
