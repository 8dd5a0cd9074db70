"""Records that are arrays of messages, for each JSON format."""

from __future__ import annotations

from tests.judges.cdc import corpus_canal, corpus_maxwell, corpus_ogg
from tests.judges.cdc.tables import GOODS, Read, message

_ROPE = {"id": 1, "name": "rope", "weight": 2.25}
_MESSAGES: dict[str, tuple[bytes, bytes]] = {
    "debezium-json": (message(op="c", after=_ROPE), message(op="c", after={"id": "one"})),
    "canal-json": (corpus_canal.event("INSERT", [_ROPE]), corpus_canal.event("INSERT", [{"id": "one"}])),
    "maxwell-json": (corpus_maxwell.event("insert", _ROPE), corpus_maxwell.event("insert", {"id": "one"})),
    "ogg-json": (corpus_ogg.event("I", after=_ROPE), corpus_ogg.event("I", after={"id": "one"})),
}


def _arrays(good: bytes, odd: bytes) -> dict[str, bytes | None]:
    return {
        "of one": b"[" + good + b"]",
        "of one, with spaces": b" [ " + good + b" ]\n",
        "empty": b"[]",
        "of two": b"[" + good + b"," + good + b"]",
        "of a good one and an odd one": b"[" + good + b"," + odd + b"]",
        "of an odd one and a good one": b"[" + odd + b"," + good + b"]",
        "of a good one and null": b"[" + good + b",null]",
        "of null and a good one": b"[null," + good + b"]",
        "of a number and a good one": b"[5," + good + b"]",
        "in an array": b"[[" + good + b"]]",
        "cut": b"[" + good,
    }


READS = [
    Read(f"arrays, {name}{', lenient' if options else ''}", name, GOODS, _arrays(*messages), options)
    for name, messages in _MESSAGES.items()
    for options in ({}, {f"{name}.ignore-parse-errors": "true"})
]
