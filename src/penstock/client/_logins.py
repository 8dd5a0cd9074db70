"""Logins with tokens for kafka-python: OAUTHBEARER, and delegation tokens (SCRAM with `tokenauth=true`).

Runs where a connection is opened with one; imported there only, because they need modules that no other
connection needs. Invariant: other logins do not change.
"""

from __future__ import annotations

from typing import Any

from kafka.net.sasl import register_sasl_mechanism
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.net.sasl.scram import SaslMechanismScram, ScramClient

from penstock.security.oauth import OAuthLogin
from penstock.security.tokens import TokenKeeper

_EXTENSION = b",tokenauth=true"


class TokenId(str):
    """The user name of a login that is the id of a delegation token."""

    __slots__ = ()


# kafka-python's SCRAM has no extensions. Ours adds the one that says that the user name is the id of a token.
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


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python is untyped
    """A token keeper in kafka-python's form. `client.net` waits for its token before it connects."""

    def __init__(self, login: OAuthLogin) -> None:
        super().__init__()
        self.keeper = TokenKeeper(login)

    def token(self) -> str:
        """Return the token; does not wait."""
        return self.keeper.token()

    def extensions(self) -> dict[str, str]:
        return self.keeper.extensions
