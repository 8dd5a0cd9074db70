"""The topic `<dead letters>-requeued`, which says which records are back.

Runs on the machine of `penstock dead-letters`. It is compacted and has one partition. One record for each
record that is back, written in the transaction of that record:

    key    {"topic": "orders", "partition": 0, "offset": 17, "timestamp_ms": 1795000000000,
            "digest": "5f1c..."}
    value  {"version": 1, "dead_letter": [<partition>, <offset>], "into": ["orders", <partition>]}

The key names the record of the source, so a dead letter that a repeated task wrote twice is one. Invariants:
what this version cannot read is an error, never a record that is not back; notes are never deleted.
"""

from __future__ import annotations

import json
import sys

from penstock.errors import ClientError, DecisionLogError
from penstock.sink.dead_letters.found import DeadLetter, Origin
from penstock.sink.exactly_once.log_topic import DecisionTopic
from penstock.types import TopicPartition

NOTES_SUFFIX = "-requeued"
VERSION = 1
_NOTHING = "Nothing more was put back."


def key_of_note(origin: Origin) -> bytes:
    """Return the key of the note about a record."""
    return json.dumps(origin._asdict()).encode()


def encode_note(letter: DeadLetter, into: TopicPartition) -> bytes:
    """Return the value of the note about a record that is put into a topic partition."""
    stored = {"version": VERSION, "dead_letter": [letter.place.partition, letter.offset], "into": [*into]}
    return json.dumps(stored).encode()


def decode_note(key: bytes | None, value: bytes | None) -> Origin:
    """Return the record that is back; KeyError, TypeError or ValueError if this is not such a note."""
    version = json.loads(value or b"")["version"]
    if version != VERSION:
        msg = f"a note of version {version}, while this is version {VERSION}"
        raise ValueError(msg)
    stored = json.loads(key or b"")
    numbers = (int(stored[name]) for name in ("partition", "offset", "timestamp_ms"))
    partition, offset, timestamp_ms = numbers
    return Origin(str(stored["topic"]), partition, offset, timestamp_ms, str(stored["digest"]))


def topic_of_note(value: bytes | None) -> str:
    """Return the topic that the record was put into; raises as `decode_note` does."""
    topic, _ = json.loads(value or b"")["into"]
    return sys.intern(str(topic))  # it is in memory once, and not for each note


class NotesTopic(DecisionTopic):
    """The notes of one topic of dead letters. It has the steps of a decision log, and its own messages."""

    what_it_is = "It says which dead letters are back. Nothing was put back."

    def known_from(self, first: int, *, waits: bool) -> tuple[dict[Origin, str], int]:
        """Return what notes from an offset on say is back, and in which topic, and the offset to go on with.

        Args:
            first: offset to begin with.
            waits: for open transactions; see `stable_end`.

        Raises:
            DecisionLogError: a note cannot be read, or notes are gone.
        """
        end = self.stable_end(waits=waits)
        if end < first:
            raise self.cut_back(first, end)
        found = dict[Origin, str]()
        for record in self.read(first, end):
            try:
                origin = decode_note(record.key, record.value)
                found[origin] = topic_of_note(record.value)
            except (KeyError, TypeError, ValueError) as error:
                raise DecisionLogError(
                    f"Expected a note about a dead letter at offset {record.offset} of {self.topic}, got "
                    f"another record ({error}). {_NOTHING} Use the newest version of penstock that has put "
                    "dead letters back. If another program has written into the topic, look there first.",
                    topic=self.topic,
                    offset=record.offset,
                ) from error
        return found, end

    def stays_open(self, stable: int, patience_ms: int) -> DecisionLogError:
        return DecisionLogError(
            f"Expected that the transaction at offset {stable} of {self.topic} ends within {patience_ms} ms, "
            "but it is still open. It is unknown which dead letters after it are back. "
            f"{_NOTHING} Run the command again when it has ended: `penstock transactions list` shows it.",
            topic=self.topic,
            offset=stable,
        )

    def cut_back(self, first_offset: int, log_start: object) -> DecisionLogError:
        return DecisionLogError(
            f"Expected offset {first_offset} in {self.topic}, which says which dead letters are back, but "
            f"the topic begins or ends at offset {log_start}: notes were deleted. {_NOTHING} Records could "
            "be doubled. Put the records back by hand (docs/bad-records.md), and look first which of them "
            "are there.",
            topic=self.topic,
            offset=first_offset,
            log_start_offset=log_start,
        )

    def name_refused(self, error: ClientError) -> DecisionLogError:
        return DecisionLogError(
            f"The topic {self.topic}, which says which dead letters are back, cannot be created, because "
            f"Kafka refuses its name: {error.message} Nothing was put back. Copy the dead letters into a "
            "topic with another name, and put them back from there.",
            topic=self.topic,
        )

    def unusable(self, why: str) -> DecisionLogError:
        return DecisionLogError(
            f"The topic {self.topic}, which says which dead letters are back, cannot be used: expected "
            f"{why}. Notes could be lost, and records doubled. Nothing was put back. Correct the topic.",
            topic=self.topic,
        )

    def lost(self) -> DecisionLogError:
        """Return the error about notes that were there once."""
        return DecisionLogError(
            f"Dead letters were put back before, but the topic {self.topic}, which says which ones, does not "
            "exist any more. Nothing was put back, because records could be doubled. Put the records back by "
            "hand (docs/bad-records.md), and look first which of them are there.",
            topic=self.topic,
        )
