"""A login's token for kafka-python.

Runs where a connection is opened with SASL/OAUTHBEARER; imported there only, because asking for a token needs
modules that no other connection needs.
"""

from __future__ import annotations

from kafka.net.sasl.oauth import AbstractTokenProvider

from penstock.security.oauth import OAuthLogin
from penstock.security.tokens import TokenKeeper


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
