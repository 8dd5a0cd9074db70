"""Changelog (CDC) formats: messages of Debezium, Canal, Maxwell and GoldenGate, as rows with row kinds."""
