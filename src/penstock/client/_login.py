"""SASL settings in kafka-python's terms.

Runs where a connection is opened.
"""

from __future__ import annotations

from typing import Any

from penstock.security.settings import SaslSettings


def sasl_kwargs(sasl: SaslSettings | None) -> dict[str, Any]:
    """Return keyword arguments for kafka-python's `KafkaConnectionManager`."""
    if sasl is None:
        return {}
    username = sasl.username
    if sasl.mechanism.startswith("SCRAM-"):
        # RFC 5802: these two are signs of the message itself. kafka-python sends the name as it is.
        username = username.replace("=", "=3D").replace(",", "=2C")
    return {
        "sasl_mechanism": sasl.mechanism,
        "sasl_plain_username": username,
        "sasl_plain_password": sasl.password,
    }
