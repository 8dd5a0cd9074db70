"""Protobuf: without a header, and with Confluent's header and the Schema Registry."""
