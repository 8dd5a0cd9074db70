"""What a Kafka topic means as a table: keys, metadata, bad records. Arrow in, Arrow out."""
