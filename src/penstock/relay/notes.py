"""The notes that tasks leave with the offsets that they commit. So the driver needs no connection to a task.

Runs on driver and executor. Pure. A note is short, because 50 are written in a second. Its first word says
the form, so that later versions read it. The topic id tells a topic that was created again from the first.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.client.cluster.log_offsets import CONTINUOUS_FORM
from penstock.relay.messages import Totals

_FORM = CONTINUOUS_FORM
_UNKNOWN, _QUERY = "-", ":"
_OF_TASK = 4
_KNOWN_TOTALS = (3, len(Totals._fields))
"""How many totals a note may have. The first notes said nothing of bytes and bad records."""


class TaskNote(NamedTuple):
    """What a task says of itself.

    Attributes:
        generation: of its plan.
        number: of the task in the plan.
        attempt: the number of its process in the plan.
        start_count: how often it has taken its ids; more than once after faults.
        totals: what its process has committed.
    """

    generation: int
    number: int
    attempt: int
    start_count: int
    totals: Totals

    def text(self, topic_id: object, query: str | None = None) -> str:
        """Return the note for the offsets of one topic."""
        words = (*self[:_OF_TASK], *self.totals)
        return f"{plan_note(topic_id, query)} {' '.join(map(str, words))}"


def plan_note(topic_id: object, query: str | None = None) -> str:
    """Return the note of the driver, which commits where a query begins.

    Args:
        topic_id: of the topic of the offsets.
        query: tells the query from others; None if it may be any.
    """
    return f"{_FORM} {topic_id or _UNKNOWN}{'' if query is None else _QUERY + query}"


def topic_id_of(note: str) -> str | None:
    """Return the topic id in a note; None if it has none, e.g. because another program has committed."""
    topic_id = _noted(note)[0]
    return None if topic_id in ("", _UNKNOWN) else topic_id


def query_of(note: str) -> str | None:
    """Return which query has left a note; None if the note does not say it."""
    return _noted(note)[1] or None


def _noted(note: str) -> tuple[str, str]:
    words = note.split(" ")
    topic_id, _, query = (words[1] if words[0] == _FORM and len(words) > 1 else "").partition(_QUERY)
    return topic_id, query


def task_note_of(note: str) -> TaskNote | None:
    """Return what a task has said; None if no task has written the note."""
    form, *words = note.split(" ")
    numbers = words[1:]
    has_all = len(numbers) - _OF_TASK in _KNOWN_TOTALS
    if form != _FORM or not has_all or not all(each.isdigit() for each in numbers):
        return None
    generation, number, attempt, start_count, *totals = map(int, numbers)
    return TaskNote(generation, number, attempt, start_count, Totals(*totals))
