"""Nexmark's events with all of their fields: 1 person, 3 auctions and 46 bids of each 50.

The mix is the benchmark's: half of the bids are for one hot auction of each hundred, three quarters are by
one hot person, ids run ahead of what exists, and the strings have its lengths. Three things are our own. A
bidder is one of the persons (the benchmark adds 1,000 to its number twice), so that the join of all three has
rows. One bid of eight has the price of the one before. Four events have one time, so orders by price or time
have ties.

Invariant: the same seed gives the same events, and times do not go back.
"""

from __future__ import annotations

import json
import random
import string
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

Row = dict[str, Any]
PERSON, AUCTION, BID = range(3)
NAMES = ("person", "auction", "bid")
DELAY = timedelta(seconds=4)
"""Of the watermark of the table of events."""
_CYCLE, _PERSONS, _AUCTIONS = 50, 1, 3
_FIRST_ID, _FIRST_CATEGORY, _CATEGORIES = 1_000, 10, 5
_HOT = 100
"""The first of so many auctions or persons is the hot one."""
_HOT_AUCTIONS, _HOT_SELLERS, _HOT_BIDDERS, _HOT_CHANNELS = 2, 4, 4, 2
"""One in so many is not for, or by, the hot one."""
_IN_FLIGHT, _ACTIVE, _AHEAD = 100, 1_000, 10
_TIED, _REPEATED = 4, 8
_STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
_CITIES = (
    *("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland"),
    *("Bend", "Redmond", "Seattle", "Kent", "Cheyenne"),
)
_FIRST = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
_LAST = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
_COLD_CHANNELS = 10_000
_POOL_LENGTH = 1 << 16


@dataclass(frozen=True)
class Clock:
    """The times of events.

    Attributes:
        per_s: so many events in a second.
        leap_at: the number of the event whose time, and all later ones, is 15 hours and 59 minutes later.
    """

    per_s: int = 50
    leap_at: int | None = None

    def __call__(self, number: int) -> datetime:
        """Return the time of an event, in full milliseconds."""
        tied = number // _TIED * _TIED
        is_late = self.leap_at is not None and tied >= self.leap_at
        leap = timedelta(hours=15, minutes=59) if is_late else timedelta()
        return _BEGIN + leap + timedelta(milliseconds=tied * 1_000 // self.per_s)


_BEGIN = datetime(2026, 1, 1, 7, 59, 30)  # noqa: DTZ001 - the columns are TIMESTAMP(3), without a zone
"""The hour ends after 30 seconds, and with the leap so does the day."""
_NEVER = datetime(9999, 1, 1)  # noqa: DTZ001 - as above


@dataclass
class Events:
    """The rows of each kind, and all of them as records in their order.

    Attributes:
        persons: rows.
        auctions: rows.
        bids: rows.
        records: all of them as JSON.
        closed: the time that the watermark of a stream has reached at the end; a batch closes all windows.
    """

    persons: list[Row] = field(default_factory=list)
    auctions: list[Row] = field(default_factory=list)
    bids: list[Row] = field(default_factory=list)
    records: list[bytes] = field(default_factory=list)
    closed: datetime = _NEVER

    def add(self, kind: int, row: Row) -> None:
        """Add an event."""
        (self.persons, self.auctions, self.bids)[kind].append(row)
        self.records.append(record(kind, row))

    @property
    def of_batch(self) -> Events:
        """Return the same events, as a batch reads them."""
        return replace(self, closed=_NEVER)


def record(kind: int, row: Row) -> bytes:
    """Return an event as JSON, as Flink writes it."""
    rows = {name: row if each == kind else None for each, name in enumerate(NAMES)}
    return json.dumps({"event_type": kind, **rows}, default=_text, separators=(",", ":")).encode()


def _text(time: datetime) -> str:
    return time.isoformat(sep=" ", timespec="milliseconds")


def events(count: int, seed: int = 7) -> Events:
    """Return so many events, with a leap behind the half of them.

    One more record of each kind, an hour later, closes the windows before it in a stream. These three find no
    partner.
    """
    clock, made = Clock(leap_at=count // 2), Events()
    for kind, row in generated(count, clock, seed):
        made.add(kind, row)
    last = clock(count) + timedelta(hours=1)
    made.add(PERSON, {**made.persons[-1], "id": -1, "dateTime": last})
    made.add(AUCTION, {**made.auctions[-1], "id": -2, "seller": -3, "dateTime": last, "expires": last})
    made.add(BID, {**made.bids[-1], "auction": -4, "bidder": -5, "dateTime": last})
    made.closed = last - DELAY
    return made


def generated(count: int, clock: Clock, seed: int = 7) -> Iterator[tuple[int, Row]]:
    """Yield so many events: the kind and the row of each."""
    makes = _Maker(random.Random(seed), clock)
    for number in range(count):
        place = number % _CYCLE
        if place < _PERSONS:
            yield PERSON, makes.person(number)
        elif place < _PERSONS + _AUCTIONS:
            yield AUCTION, makes.auction(number)
        else:
            yield BID, makes.bid(number)


class _Maker:
    """Makes the rows of events by their numbers."""

    def __init__(self, chance: random.Random, clock: Clock) -> None:
        self._chance = chance
        self._clock = clock
        # As in the benchmark: one letter in 13 is a blank.
        self._pool = "".join(chance.choices([*string.ascii_lowercase, " ", " "], k=_POOL_LENGTH))
        self._hot = [(channel, self._url()) for channel in _CHANNELS]
        self._cold = [(f"channel-{number}", self._cold_url(number)) for number in range(_COLD_CHANNELS)]
        self._price = self._new_price()

    def person(self, number: int) -> Row:
        chance = self._chance
        row = {
            "id": _FIRST_ID + _last_person(number),
            "name": f"{chance.choice(_FIRST)} {chance.choice(_LAST)}",
            "emailAddress": f"{self._string(7)}@{self._string(5)}.com",
            "creditCard": " ".join(f"{chance.randrange(10_000):04d}" for _ in range(4)),
            "city": chance.choice(_CITIES),
            "state": chance.choice(_STATES),
            "dateTime": self._clock(number),
        }
        return {**row, "extra": self._extra(100)}

    def auction(self, number: int) -> Row:
        chance, time = self._chance, self._clock(number)
        if chance.randrange(_HOT_SELLERS):
            seller = _last_person(number) // _HOT * _HOT
        else:
            seller = self._some_person(number)
        initial = self._new_price()
        ahead_ms = _IN_FLIGHT * _CYCLE // _AUCTIONS * 1_000 // self._clock.per_s
        return {
            "id": _FIRST_ID + _last_auction(number),
            "itemName": self._string(20),
            "description": self._string(100),
            "initialBid": initial,
            "reserve": initial + self._new_price(),
            "dateTime": time,
            "expires": time + timedelta(milliseconds=1 + chance.randrange(2 * ahead_ms)),
            "seller": _FIRST_ID + seller,
            "category": _FIRST_CATEGORY + chance.randrange(_CATEGORIES),
            "extra": self._extra(400),
        }

    def bid(self, number: int) -> Row:
        chance = self._chance
        if chance.randrange(_HOT_AUCTIONS):
            auction = _last_auction(number) // _HOT * _HOT
        else:
            last = _last_auction(number)
            lowest = max(last - _IN_FLIGHT, 0)
            auction = lowest + chance.randrange(last - lowest + 1 + _AHEAD)
        if chance.randrange(_HOT_BIDDERS):
            bidder = _last_person(number) // _HOT * _HOT + 1
        else:
            bidder = self._some_person(number)
        channel, url = chance.choice(self._hot if chance.randrange(_HOT_CHANNELS) else self._cold)
        if chance.randrange(_REPEATED):
            self._price = self._new_price()
        return {
            "auction": _FIRST_ID + auction,
            "bidder": _FIRST_ID + bidder,
            "price": self._price,
            "channel": channel,
            "url": url,
            "dateTime": self._clock(number),
            "extra": self._extra(68),
        }

    def _some_person(self, number: int) -> int:
        persons = _last_person(number) + 1
        active = min(persons, _ACTIVE)
        return persons - active + self._chance.randrange(active + _AHEAD)

    def _new_price(self) -> int:
        return round(10 ** (self._chance.random() * 6) * 100)

    def _string(self, longest: int, blank: str = " ") -> str:
        return self._exactly(3 + self._chance.randrange(longest - 3)).strip().replace(" ", blank)

    def _extra(self, average: int) -> str:
        more = round(average * 0.2)
        return self._exactly(average - more + self._chance.randrange(2 * more))

    def _exactly(self, length: int) -> str:
        start = self._chance.randrange(_POOL_LENGTH - length)
        return self._pool[start : start + length]

    def _url(self) -> str:
        folders = "/".join(self._string(5, "_") for _ in range(3))
        return f"https://www.nexmark.com/{folders}/item.htm?query=1"

    def _cold_url(self, number: int) -> str:
        own = f"&channel_id={int(f'{number:032b}'[::-1], 2)}" if self._chance.randrange(10) else ""
        return self._url() + own


def _last_person(number: int) -> int:
    """Return the number of the newest person, before or with an event."""
    return number // _CYCLE


def _last_auction(number: int) -> int:
    """Return the number of the newest auction, before or with an event; -1 for none."""
    whole, place = divmod(number, _CYCLE)
    return whole * _AUCTIONS + min(place - _PERSONS, _AUCTIONS - 1)
