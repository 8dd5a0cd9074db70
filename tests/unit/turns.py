"""Threads of which one runs at any time, until it makes a pause; a test says which one runs next.

Invariant: which one runs is the caller's choice alone, so that a history is repeated exactly.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from tests.deaths import Death


class Actor:
    """A thread that runs when it is told to."""

    def __init__(self, turns: Turns, name: str, body: Callable[[], None]) -> None:
        self.name = name
        self.is_killed = self.is_done = False
        self.error: BaseException | None = None
        self.go = threading.Semaphore(0)
        self._turns, self._body = turns, body
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self.go.acquire()
        try:
            if not self.is_killed:
                self._body()
        except Death:
            pass
        except BaseException as error:  # noqa: BLE001  # told to the test, which runs on another thread
            self.error = error
        self.is_done = True
        self._turns.over.release()

    def join(self) -> None:
        self._thread.join()


class Turns:
    """Who runs now."""

    def __init__(self) -> None:
        self.actors: list[Actor] = []
        self.over = threading.Semaphore(0)
        self._current: Actor | None = None

    def spawn(self, name: str, body: Callable[[], None]) -> Actor:
        """Add an actor; it does nothing yet."""
        actor = Actor(self, name, body)
        self.actors.append(actor)
        return actor

    def run(self, actor: Actor) -> None:
        """Let it go on to its next pause."""
        self._current = actor
        actor.go.release()
        self.over.acquire()
        self._current = None
        if actor.is_done:
            self.actors.remove(actor)
            actor.join()
            if actor.error is not None:
                raise actor.error

    def run_to_the_end(self, actor: Actor) -> None:
        """Let it go on until it is done."""
        while not actor.is_done:
            self.run(actor)

    def kill(self, actor: Actor) -> None:
        """It dies where it stands."""
        actor.is_killed = True
        self.run_to_the_end(actor)

    def kill_all(self) -> None:
        """End all threads."""
        for actor in list(self.actors):
            self.kill(actor)

    def pause(self) -> None:
        """Of the actor that runs: the turn of others."""
        actor = self._current
        if actor is None:
            return
        self.over.release()
        actor.go.acquire()
        if actor.is_killed:
            raise Death
