"""Speed, side by side: penstock against Spark's own Kafka connector, on this machine, in one run."""
