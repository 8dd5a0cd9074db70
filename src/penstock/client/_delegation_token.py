"""A login with a delegation token (SCRAM with `tokenauth=true`) for kafka-python.

Runs where a connection is opened with one; imported there only. kafka-python's SCRAM has no extensions. Ours
adds the one that says that the user name is the id of a token. Invariant: other logins do not change.
"""

from __future__ import annotations

from typing import Any

from kafka.net.sasl import register_sasl_mechanism
from kafka.net.sasl.scram import SaslMechanismScram, ScramClient

_EXTENSION = b",tokenauth=true"


class TokenId(str):
    """The user name of a login that is the id of a delegation token."""

    __slots__ = ()


class TokenScramClient(ScramClient):  # type: ignore[misc]  # kafka-python is untyped
    """The client's side of SCRAM with Kafka's extension."""

    def first_message(self) -> bytes:
        """Return the first message; the proof covers the extension too."""
        message: bytes = super().first_message() + _EXTENSION
        self.auth_message += _EXTENSION
        return message


class DelegationTokenMechanism(SaslMechanismScram):  # type: ignore[misc]  # kafka-python is untyped
    """kafka-python's mechanism; it adds the extension where the user name is a `TokenId`."""

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        if isinstance(self.username, TokenId):
            self._scram_client = TokenScramClient(
                self.username, config["sasl_plain_password"], self.mechanism
            )


for _name in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
    register_sasl_mechanism(_name, DelegationTokenMechanism, overwrite=True)
