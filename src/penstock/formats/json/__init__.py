"""JSON: plain, and with Confluent's header and the Schema Registry."""
