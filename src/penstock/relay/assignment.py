"""Divide topic partitions among tasks. Runs on the driver. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.types import TopicPartition


def divided(topic_partitions: Iterable[TopicPartition], tasks: int) -> list[list[TopicPartition]]:
    """Return the topic partitions of each task: at most `tasks`, each with one at least, as even as possible.

    Neighbours of a topic go to different tasks, because one topic may have more records than another.
    """
    ordered = sorted(topic_partitions)
    count = min(tasks, len(ordered))
    return [ordered[first::count] for first in range(count)]
