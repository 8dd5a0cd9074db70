"""The token of a login: asked for once, renewed in time, never given out when it has ended."""

from __future__ import annotations

import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import AuthenticationError, BrokerUnavailableError, PenstockError
from penstock.security.oauth import OAuthLogin, RefreshRules, UnsecuredToken
from penstock.security.token_sources import Token
from penstock.security.tokens import TokenKeeper, pause_before_refresh
from tests.waiting import PATIENCE_S, wait_until

LOGIN = OAuthLogin(UnsecuredToken((("sub", "alice"),)))


class Source:
    """Gives numbered tokens, or raises what it is told to."""

    def __init__(self, *lifetimes_s: float) -> None:
        self.lifetimes_s = list(lifetimes_s)
        self.count = 0
        self.error: PenstockError | Exception | None = None

    def __call__(self) -> Token:
        if self.error is not None:
            raise self.error
        self.count += 1
        return Token(f"token-{self.count}", self.lifetimes_s.pop(0) if self.lifetimes_s else 3_600)


def waited(keeper: TokenKeeper) -> PenstockError | None:
    """Wait for the keeper's answer."""
    told: list[PenstockError | None] = []
    done = threading.Event()

    def tell(error: PenstockError | None) -> None:
        told.append(error)
        done.set()

    keeper.when_there(tell)
    assert done.wait(PATIENCE_S)
    assert len(told) == 1
    return told[0]


def test_many_that_wait_share_one_token() -> None:
    may_answer = threading.Event()
    source = Source()

    def slow() -> Token:
        assert may_answer.wait(PATIENCE_S)
        return source()

    keeper = TokenKeeper(LOGIN, fetch=slow)
    told: list[PenstockError | None] = []
    for _ in range(10):
        keeper.when_there(told.append)
    assert told == []
    may_answer.set()
    wait_until(lambda: len(told) == 10, "all to be told")
    assert told == [None] * 10
    assert waited(keeper) is None
    assert (keeper.token(), source.count) == ("token-1", 1)
    keeper.close()


def test_a_token_is_renewed_before_it_ends() -> None:
    source = Source(0.4)
    keeper = TokenKeeper(LOGIN, fetch=source)
    assert waited(keeper) is None
    start = time.monotonic()
    wait_until(
        lambda: keeper.token() == "token-2", "the second token"
    )  # raises if there is none for a moment
    assert time.monotonic() - start < 0.4
    keeper.close()


def test_a_renewal_that_fails_is_tried_again_while_the_token_is_good(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = Source(3.0)
    keeper = TokenKeeper(OAuthLogin(LOGIN.source, refresh=RefreshRules(0.5, 0.0)), fetch=source)
    assert waited(keeper) is None
    source.error = BrokerUnavailableError("the endpoint is away")
    wait_until(lambda: "could not be renewed" in caplog.text, "a warning")
    assert keeper.token() == "token-1"
    source.error = None
    wait_until(lambda: keeper.token() == "token-2", "the second token")
    keeper.close()


@pytest.mark.parametrize("error", [AuthenticationError("refused"), ZeroDivisionError("x")])
def test_an_error_is_told_and_the_next_one_asks_again(error: Exception) -> None:
    source = Source()
    source.error = error
    keeper = TokenKeeper(LOGIN, fetch=source)
    assert isinstance(waited(keeper), AuthenticationError)
    with pytest.raises(AuthenticationError, match="no valid token"):
        keeper.token()
    source.error = None
    assert waited(keeper) is None
    assert keeper.token() == "token-1"
    keeper.close()


def test_a_token_that_has_ended_is_not_given_out() -> None:
    now = [0.0]
    source = Source(1_000)
    keeper = TokenKeeper(LOGIN, fetch=source, clock=lambda: now[0])
    assert waited(keeper) is None
    source.error = BrokerUnavailableError("away")
    now[0] = 1_000
    with pytest.raises(AuthenticationError):
        keeper.token()
    assert isinstance(waited(keeper), BrokerUnavailableError)
    keeper.close()


def test_closing_ends_the_thread_and_tells_those_that_wait() -> None:
    keeper = TokenKeeper(LOGIN, fetch=Source())
    assert waited(keeper) is None
    keeper.close()
    keeper.close()
    assert not any(thread.name == "penstock-login" for thread in threading.enumerate())
    assert isinstance(waited(keeper), AuthenticationError)
    with pytest.raises(AuthenticationError):
        keeper.token()


@given(
    st.floats(0.1, 1e6), st.floats(0.5, 1.0), st.floats(0, 0.25), st.integers(0, 900), st.integers(0, 3600)
)
def test_the_rules_of_renewal(
    lifetime_s: float, factor: float, jitter: float, period_s: int, buffer_s: int
) -> None:
    rules = RefreshRules(factor, jitter, period_s, buffer_s)
    pauses = [pause_before_refresh(lifetime_s, rules, lambda at=at: at) for at in (0.0, 0.5, 0.999)]  # type: ignore[misc]
    assert pauses == sorted(pauses)
    if period_s + buffer_s <= lifetime_s:
        assert all(period_s <= pause <= lifetime_s - buffer_s for pause in pauses)
    else:
        assert pauses[0] == lifetime_s * factor


def test_javas_defaults() -> None:
    rules = RefreshRules()
    assert pause_before_refresh(3_600, rules, lambda: 0) == 2_880
    assert pause_before_refresh(600, rules, lambda: 0) == 300
    assert pause_before_refresh(20, rules, lambda: 0) == 16
