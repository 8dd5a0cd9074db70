"""A driver that dies at a step of the protocol, within the test's own process."""

from __future__ import annotations

from penstock.sink.exactly_once._probes import Step, observe


class Death(BaseException):
    """The process has died. No code of penstock may handle this."""


def die_at(step: Step) -> None:
    """Raise Death in the next call that reaches the step."""

    def observer(reached: Step) -> None:
        if reached is step:
            observe(None)
            raise Death

    observe(observer)
