"""A driver that dies at a step of the protocol, within the test's own process."""

from __future__ import annotations

from penstock.sink.exactly_once._probes import Step, observe


class Death(BaseException):
    """The process is gone: nothing of it may handle this."""


def die_at(step: Step) -> None:
    """The next to reach the step raises Death there."""

    def observer(reached: Step) -> None:
        if reached is step:
            observe(None)
            raise Death

    observe(observer)
