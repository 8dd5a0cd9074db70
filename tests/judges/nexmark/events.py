"""A small stream of Nexmark's events: 1 person, 3 auctions and 46 bids of each 50.

Invariant: the same seed gives the same events. Times do not go back, and no two bids have one price. Auctions
are open for much longer than a micro-batch of a few seconds.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

STEP = timedelta(milliseconds=20)
_BEGIN = datetime(2026, 1, 1)  # noqa: DTZ001 - the columns are TIMESTAMP(3), without a zone
_CYCLE, _AUCTIONS = 50, 3
_LONGEST_S = 66
_HOT = 40
"""So many of the last auctions get bids."""


@dataclass
class Events:
    """The rows of each kind, and all of them as records in their order."""

    persons: list[dict[str, Any]] = field(default_factory=list)
    auctions: list[dict[str, Any]] = field(default_factory=list)
    bids: list[dict[str, Any]] = field(default_factory=list)
    records: list[bytes] = field(default_factory=list)

    def add(self, kind: int, name: str, row: dict[str, Any]) -> None:
        """Add an event of a kind: 0 person, 1 auction, 2 bid."""
        (self.persons, self.auctions, self.bids)[kind].append(row)
        self.records.append(_record(kind, name, row))


def _record(kind: int, name: str, row: dict[str, Any]) -> bytes:
    return json.dumps({"event_type": kind, name: row}, default=_text).encode()


def _text(time: datetime) -> str:
    return time.isoformat(sep=" ", timespec="milliseconds")


def events(count: int, seed: int = 7) -> Events:
    """Return so many events. One more record of each kind, an hour later, closes the windows before it.

    These three find no partner.
    """
    chance, made = random.Random(seed), Events()
    for number in range(count):
        turn, time = number % _CYCLE, _BEGIN + number * STEP
        if turn == 0:
            made.add(0, "person", _person(len(made.persons), time))
        elif turn <= _AUCTIONS:
            made.add(1, "auction", _auction(chance, made, time))
        else:
            made.add(2, "bid", _bid(chance, made, number, time))
    last = _BEGIN + count * STEP + timedelta(hours=1)
    made.records += [
        _record(0, "person", _person(-1, last)),
        _record(1, "auction", {**_auction(chance, made, last), "id": -2, "seller": -3}),
        _record(2, "bid", {**_bid(chance, made, count, last), "auction": -4}),
    ]
    return made


def _person(number: int, time: datetime) -> dict[str, Any]:
    return {
        "id": number,
        "name": f"name {number}",
        "emailAddress": f"{number}@example.com",
        "creditCard": "1",
        "city": "Bonn",
        "state": "NW",
        "dateTime": time,
        "extra": "",
    }


def _auction(chance: random.Random, made: Events, time: datetime) -> dict[str, Any]:
    number = len(made.auctions)
    return {
        "id": number,
        "itemName": f"item {number}",
        "description": "old",
        "initialBid": 1,
        "reserve": 2,
        "dateTime": time,
        "expires": time + timedelta(milliseconds=chance.randint(1, _LONGEST_S * 1_000)),
        "seller": chance.randrange(len(made.persons)),
        "category": 10 + number % 5,
        "extra": f"of {number}",
    }


def _bid(chance: random.Random, made: Events, number: int, time: datetime) -> dict[str, Any]:
    auctions = made.auctions[-_HOT:]
    return {
        "auction": chance.choice(auctions)["id"],
        "bidder": chance.randrange(len(made.persons)),
        "price": chance.randint(1, 10_000) * 1_000_000 + number,
        "channel": "web",
        "url": "https://example.com",
        "dateTime": time,
        "extra": f"bid {number}",
    }
