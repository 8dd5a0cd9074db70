"""A real Debezium reads a real PostgreSQL, and penstock has to make the same table of its messages."""
