"""Tokens that are renewed before they end: of a login at brokers, and of a client of the Schema Registry.

Runs wherever connections are open; a login has a thread of its own while there is a token to renew.
Invariants: the IO thread never waits for a token; a token that has ended is never given out; each callback is
called once, for a token or an error; at most one token is being asked for at a time.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from penstock.errors import AuthenticationError, OptionError, PenstockError, SchemaRegistryError
from penstock.security.oauth import OAuthLogin, RefreshRules, TokenEndpoint
from penstock.security.token_sources import Token, fetch_token

_LOG = logging.getLogger(__name__)
_RETRY_S = 1.0
_CLOSE_S = 5.0
_BUFFER_PART_MAX = 0.5
"""A buffer longer than this part of a token's lifetime would ask for a token with each request."""

TokenCallback = Callable[[PenstockError | None], None]


class TokenKeeper:
    """The token of a login. Thread-safe."""

    def __init__(
        self,
        login: OAuthLogin,
        *,
        fetch: Callable[[], Token] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._login = login
        self._fetch = partial(fetch_token, login.source) if fetch is None else fetch
        self._clock = clock
        self._changed = threading.Condition()
        self._token: Token | None = None
        self._ends_at = 0.0
        self._waiting: list[TokenCallback] = []
        self._thread: threading.Thread | None = None
        self._is_closed = False

    @property
    def extensions(self) -> dict[str, str]:
        return dict(self._login.extensions)

    def token(self) -> str:
        """Return the token; does not wait. Raises AuthenticationError if there is none, or it has ended."""
        with self._changed:
            if self._token is None or self._clock() >= self._ends_at:
                raise AuthenticationError(
                    "There is no valid token for the login at the moment.", is_retriable=True
                )
            return self._token.text

    def when_there(self, callback: TokenCallback) -> None:
        """Call `callback(None)` as soon as there is a token, or with the error that prevents it.

        It is called here and now, or on the thread of this object.
        """
        with self._changed:
            if not self._is_closed and (self._token is None or self._clock() >= self._ends_at):
                self._waiting.append(callback)
                self._start()
                return
            error = AuthenticationError("The connections were closed.") if self._is_closed else None
        callback(error)

    def close(self) -> None:
        """Forget the token and end the thread; again is harmless."""
        with self._changed:
            self._is_closed, self._token = True, None
            thread = self._thread
            self._changed.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join(_CLOSE_S)

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="penstock-login", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _run(self) -> None:
        pause_s = 0.0
        while self._is_to_ask_after(pause_s):
            pause_s = self._ask()

    def _ask(self) -> float:
        """Ask for a token; returns the pause before the next time."""
        try:
            token = self._fetch()
        except PenstockError as error:
            return self._failed(error)
        except Exception as error:  # noqa: BLE001  # what waits for the token has to be told
            text = f"Getting a token for the login failed: {type(error).__name__}."
            return self._failed(AuthenticationError(text))
        return self._got(token)

    def _is_to_ask_after(self, pause_s: float) -> bool:
        """Wait for the time to ask; False ends the thread."""
        until = self._clock() + pause_s
        with self._changed:
            while not self._is_closed and not self._waiting and (left := until - self._clock()) > 0:
                self._changed.wait(left)
            if not self._is_closed and (self._waiting or self._token is not None):
                return True
            self._thread, is_closed = None, self._is_closed
        if is_closed:
            self._tell(AuthenticationError("The connections were closed."))
        return False

    def _got(self, token: Token) -> float:
        with self._changed:
            self._token = None if self._is_closed else token
            self._ends_at = self._clock() + token.lifetime_s
        self._tell(None)
        return pause_before_refresh(token.lifetime_s, self._login.refresh)

    def _failed(self, error: PenstockError) -> float:
        with self._changed:
            has_token = self._token is not None and self._clock() < self._ends_at
            if not has_token:
                self._token = None
        if has_token:
            _LOG.warning("The token of the login could not be renewed, and is tried again: %s", error)
        self._tell(None if has_token else error)
        return _RETRY_S

    def _tell(self, error: PenstockError | None) -> None:
        with self._changed:
            waiting, self._waiting = self._waiting, []
        for each in waiting:
            each(error)


def pause_before_refresh(
    lifetime_s: float, rules: RefreshRules, draw: Callable[[], float] = random.random
) -> float:
    """Return how long after a token was given the next one is asked for, as Java's client has it.

    That is after a part of its lifetime, but not within the last `buffer_s` nor before `min_period_s`; both
    are ignored for a token that is too short for them.
    """
    part = rules.window_factor + rules.window_jitter * draw()
    wanted_s = lifetime_s * part
    if rules.min_period_s + rules.buffer_s > lifetime_s:
        return wanted_s
    return max(float(rules.min_period_s), min(wanted_s, lifetime_s - rules.buffer_s))


class RegistryTokens:
    """The token of one client of the Schema Registry, as Confluent's client gets it. Not thread-safe.

    It is asked for when the last one is about to end. It needs no thread, because a request can wait for it.
    """

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
        """Return a token that is valid for a while. Raises SchemaRegistryError if the endpoint gives none."""
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
            buffer_s = min(self._buffer_s, token.lifetime_s * _BUFFER_PART_MAX)
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
