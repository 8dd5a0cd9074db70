"""The Schema Registry: its client, and the options that all formats with a registry share."""
