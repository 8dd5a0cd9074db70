"""Compare the speed of penstock with Spark's own Kafka connector and Flink, on this machine, in one run."""
