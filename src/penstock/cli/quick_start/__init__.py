"""Let `penstock sql` start in less time: Spark's classes from an archive, our modules while Java starts."""
