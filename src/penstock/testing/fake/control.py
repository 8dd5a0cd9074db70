"""What a test does to requests: refuse, lose, hold back, repeat, close, answer late, answer itself.

Runs in tests only. `FakeKafka.control` gives the next requests of an API to an action, or to a function that
chooses one. Invariant: an action says what happens to the request (is it handled?) and to its answer (does it
reach the client?), because a client that sees no answer has to cope with both.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class SeenRequest:
    """A request as a broker got it. `body` is the request of kafka-python's class."""

    api: str
    version: int
    body: Any
    node_id: int
    principal: str
    client_id: str | None


@dataclass(frozen=True)
class Refuse:
    """Answer with this error code, for everything that the request names. Handle nothing."""

    error_code: int


@dataclass(frozen=True)
class Answer:
    """Answer with these fields of the response's schema. Handle nothing."""

    fields: Mapping[str, Any]


@dataclass(frozen=True)
class LoseRequest:
    """Do not handle the request. Its connection answers nothing any more, as if the network was gone."""


@dataclass(frozen=True)
class LoseAnswer:
    """Handle the request. Its connection answers nothing any more, as if the network was gone."""


@dataclass(frozen=True)
class Close:
    """Close the connection, before or after the request is handled."""

    is_handled: bool = False


@dataclass(frozen=True)
class Twice:
    """Handle the request twice, as after a resend, and send the second answer."""


@dataclass(frozen=True)
class AnswerAfter:
    """Handle the request now, and send its answer after the next answer to this API.

    A Kafka broker answers the requests of one connection in their order. A client may therefore close a
    connection on which both requests came.
    """

    api: str


class Hold:
    """Handle the request when the test calls `release`. What its connection sends meanwhile waits, too."""

    def __init__(self) -> None:
        self._released = threading.Event()

    def release(self) -> None:
        """Let the held requests go on."""
        self._released.set()

    def wait(self) -> None:
        """Wait for `release`."""
        self._released.wait()


Action = Refuse | Answer | LoseRequest | LoseAnswer | Close | Twice | AnswerAfter | Hold
Choose = Callable[[SeenRequest], Action | None]
"""Looks at a request. None: the broker handles it as usual, and it does not count."""


@dataclass(eq=False)
class Control:
    """The requests of one API that a test controls. Usable as a context manager, which ends it.

    Attributes:
        seen: the requests to which an action was applied.
    """

    api: str
    choose: Choose
    times: int | None
    seen: list[SeenRequest] = field(default_factory=list)
    is_ended: bool = False
    holds: list[Hold] = field(default_factory=list)

    def end(self) -> None:
        """Control nothing more. Requests that are held go on."""
        self.is_ended = True
        for hold in self.holds:
            hold.release()

    def __enter__(self) -> Control:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


class Controls:
    """All controls of a cluster, the newest first. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._controls: list[Control] = []

    def add(self, api: str, action: Action | Choose, times: int | None) -> Control:
        """Add a control; see `FakeKafka.control`."""
        choose = action if callable(action) else (lambda _: action)
        control = Control(api, choose, times)
        with self._lock:
            self._controls.insert(0, control)
        return control

    def action_for(self, seen: SeenRequest) -> Action | None:
        """Return what to do with a request; None: handle it as usual."""
        with self._lock:
            for control in self._controls:
                if control.api != seen.api or control.is_ended:
                    continue
                action = control.choose(seen)
                if action is not None:
                    _count(control, seen, action)
                    return action
        return None

    def end(self) -> None:
        """End all controls, so that no request is held any more."""
        with self._lock:
            for control in self._controls:
                control.end()


def _count(control: Control, seen: SeenRequest, action: Action) -> None:
    control.seen.append(seen)
    if isinstance(action, Hold):
        control.holds.append(action)
    if control.times is not None and len(control.seen) >= control.times:
        control.is_ended = True
