"""Tokens for the Schema Registry from a token endpoint (client credentials), as Confluent's client gets them.

Runs on driver and executors, where the registry is asked. Invariant: no token is shown, or sent after its
end.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from penstock.errors import OptionError, PenstockError, SchemaRegistryError
from penstock.security.oauth import TokenEndpoint
from penstock.security.token_sources import Token, fetch_token

_PART_OF_LIFETIME = 0.5
"""A buffer longer than this part of a token's lifetime would ask for a token with each request."""


class RegistryTokens:
    """The token of one client, asked for when the last one is about to end. Not thread-safe."""

    def __init__(
        self,
        source: TokenEndpoint,
        buffer_s: int,
        *,
        fetch: Callable[[TokenEndpoint], Token] = fetch_token,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._buffer_s = buffer_s
        self._fetch = fetch
        self._clock = clock
        self._text = ""
        self._renew_at = float("-inf")

    def token(self) -> str:
        """Return a token that is valid for a while.

        Raises:
            SchemaRegistryError: the endpoint gives none.
        """
        if self._clock() >= self._renew_at:
            asked_at = self._clock()
            try:
                token = self._fetch(self._source)
            except PenstockError as error:
                raise SchemaRegistryError(
                    f"{error.message} No record was decoded or written with the Schema Registry; the query "
                    "can be started again.",
                    **error.facts,
                ) from error
            self._text = token.text
            buffer_s = min(self._buffer_s, token.lifetime_s * _PART_OF_LIFETIME)
            self._renew_at = asked_at + token.lifetime_s - buffer_s
        return self._text


def with_secret(source: TokenEndpoint, resolve: Callable[[str], str]) -> TokenEndpoint:
    """Return an endpoint with the texts that its references stand for.

    Raises:
        OptionError: a reference cannot be looked up here, or the URL is not one.
    """
    url = resolve(source.url)
    if not url.startswith(("https://", "http://")):
        raise OptionError("The issuer endpoint of the Schema Registry has to begin with https: or http:.")
    return replace(
        source, url=url, client_id=resolve(source.client_id), client_secret=resolve(source.client_secret)
    )
