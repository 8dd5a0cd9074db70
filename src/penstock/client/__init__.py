"""See docs/ARCHITECTURE.md."""

from penstock.client._kafka_package import defer_clients

defer_clients()
