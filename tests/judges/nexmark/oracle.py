"""What Nexmark's queries give over all events, in plain Python: the rows of the target of each.

Where ORDER BY does not decide, a stream has the rows of Flink: in a Top-N the record with the
earlier offset comes first, and of the last rows of a time the one with the later offset stays. `DECIDED` has
the columns that SQL decides, for a run that does not know offsets.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from tests.judges.nexmark.events import Events, Row

Rows = Counter[tuple[Any, ...]]
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - the columns are TIMESTAMP(3), without a zone
_TEN = timedelta(seconds=10)
_EUROS = Decimal("0.908")
_CHANNEL_ID = re.compile(r"(&|^)channel_id=([^&]*)")
_CHANNEL_IDS = {"apple": "0", "google": "1", "facebook": "2", "baidu": "3"}
_LOW, _HIGH = 10_000, 1_000_000


def _rows(rows: Iterable[Row], *names: str) -> Rows:
    return Counter(tuple(row[name] for name in names) for row in rows)


def _windows(time: datetime, slide_s: int) -> Iterator[datetime]:
    """Yield the beginnings of the windows of 10 seconds that a time is in."""
    slide = timedelta(seconds=slide_s)
    start = _EPOCH + (time - _EPOCH) // slide * slide
    while start + _TEN > time:
        yield start
        start -= slide


def _valid(events: Events) -> Iterator[tuple[Row, Row]]:
    """Yield each bid of the time in which its auction was open, with the auction."""
    auctions = {each["id"]: each for each in events.auctions}
    for bid in events.bids:
        auction = auctions.get(bid["auction"])
        if auction is not None and auction["dateTime"] <= bid["dateTime"] <= auction["expires"]:
            yield auction, bid


def q0(events: Events) -> Rows:
    """Return the bids."""
    return _rows(events.bids, "auction", "bidder", "price", "dateTime", "extra")


def q1(events: Events) -> Rows:
    """Return the bids in euros."""
    bids = ({**bid, "price": bid["price"] * _EUROS} for bid in events.bids)
    return _rows(bids, "auction", "bidder", "price", "dateTime", "extra")


def q2(events: Events) -> Rows:
    """Return the bids for some auctions."""
    return _rows((bid for bid in events.bids if bid["auction"] % 123 == 0), "auction", "price")


def q3(events: Events) -> Rows:
    """Return who sells in three states in category 10."""
    persons = {each["id"]: each for each in events.persons if each["state"] in ("OR", "ID", "CA")}
    return Counter(
        (person["name"], person["city"], person["state"], auction["id"])
        for auction in events.auctions
        if auction["category"] == 10 and (person := persons.get(auction["seller"])) is not None
    )


def q4(events: Events) -> Rows:
    """Return the average of the final prices of each category."""
    final: dict[tuple[int, int], int] = defaultdict(int)
    for auction, bid in _valid(events):
        key = (auction["id"], auction["category"])
        final[key] = max(final[key], bid["price"])
    prices: dict[int, list[int]] = defaultdict(list)
    for (_, category), price in final.items():
        prices[category].append(price)
    return Counter((category, sum(each) // len(each)) for category, each in prices.items())


def q5(events: Events) -> Rows:
    """Return the auctions with the most bids of each window."""
    counts: Counter[tuple[datetime, int]] = Counter()
    for bid in events.bids:
        starts = _windows(bid["dateTime"], 2)
        counts.update((start, bid["auction"]) for start in starts if start + _TEN <= events.closed)
    most: dict[datetime, int] = defaultdict(int)
    for (start, _), count in counts.items():
        most[start] = max(most[start], count)
    return Counter((auction, count) for (start, auction), count in counts.items() if count >= most[start])


def q7(events: Events) -> Rows:
    """Return the highest bids of each window."""
    highest: dict[datetime, int] = defaultdict(int)
    for bid in events.bids:
        for end in (start + _TEN for start in _windows(bid["dateTime"], 10)):
            if end <= events.closed:
                highest[end] = max(highest[end], bid["price"])
    ends: dict[int, list[datetime]] = defaultdict(list)
    for end, price in highest.items():
        ends[price].append(end)
    return Counter(
        (bid["auction"], bid["price"], bid["bidder"], bid["dateTime"], bid["extra"])
        for bid in events.bids
        for end in ends[bid["price"]]
        if end - _TEN <= bid["dateTime"] <= end
    )


def q8(events: Events) -> Rows:
    """Return the persons that offered an auction in the window in which they came."""
    sellers = {
        (auction["seller"], start)
        for auction in events.auctions
        for start in _windows(auction["dateTime"], 10)
        if start + _TEN <= events.closed
    }
    return Counter(
        (person["id"], person["name"], start)
        for person in events.persons
        for start in _windows(person["dateTime"], 10)
        if (person["id"], start) in sellers
    )


def q9(events: Events) -> Rows:
    """Return each auction with its highest bid, the earliest one of these."""
    best: dict[int, tuple[Row, Row]] = {}
    for auction, bid in _valid(events):
        if auction["id"] not in best or bid["price"] > best[auction["id"]][1]["price"]:
            best[auction["id"]] = auction, bid
    return Counter(
        (*auction.values(), bid["auction"], bid["bidder"], bid["price"], bid["dateTime"], bid["extra"])
        for auction, bid in best.values()
    )


def q10(events: Events) -> Rows:
    """Return the bids with their days and minutes."""
    bids = (
        {**bid, "dt": f"{bid['dateTime']:%Y-%m-%d}", "hm": f"{bid['dateTime']:%H:%M}"} for bid in events.bids
    )
    return _rows(bids, "auction", "bidder", "price", "dateTime", "extra", "dt", "hm")


def q11(events: Events) -> Rows:
    """Return the sessions of each bidder. Bids that are 10 seconds apart are in one, as in Flink."""
    times: dict[int, list[datetime]] = defaultdict(list)
    for bid in events.bids:
        times[bid["bidder"]].append(bid["dateTime"])
    sessions: list[list[Any]] = []
    for bidder, each in times.items():
        sessions.append([bidder, 0, each[0], each[0] + _TEN])
        for time in each:
            if time > sessions[-1][3]:
                sessions.append([bidder, 0, time, time])
            sessions[-1][1] += 1
            sessions[-1][3] = time + _TEN
    return Counter(tuple(each) for each in sessions if each[3] <= events.closed)


def q12(events: Events) -> Rows:
    """Return the number of bids of each bidder; the windows depend on when the query runs."""
    return Counter(Counter(bid["bidder"] for bid in events.bids).items())


def q13(events: Events) -> Rows:
    """Return the bids with the text of their auction's number in the side input."""
    bids = ({**bid, "value": str(bid["auction"] % 10_000)} for bid in events.bids if bid["auction"] >= 0)
    return _rows(bids, "auction", "bidder", "price", "dateTime", "value")


def q14(events: Events) -> Rows:
    """Return the bids of middle prices, with the kind of their time and a count of a letter."""
    return Counter(
        (
            bid["auction"],
            bid["bidder"],
            bid["price"] * _EUROS,
            _kind_of(bid["dateTime"].hour),
            bid["dateTime"],
            bid["extra"],
            bid["extra"].count("c"),
        )
        for bid in events.bids
        if 1_000_000 < bid["price"] * _EUROS < 50_000_000
    )


def _kind_of(hour: int) -> str:
    if 8 <= hour <= 18:
        return "dayTime"
    return "nightTime" if hour <= 6 or hour >= 20 else "otherTime"


def _ranks(bids: list[Row]) -> list[list[Row]]:
    """Return all bids, and those of each rank of prices."""
    return [
        bids,
        [bid for bid in bids if bid["price"] < _LOW],
        [bid for bid in bids if _LOW <= bid["price"] < _HIGH],
        [bid for bid in bids if bid["price"] >= _HIGH],
    ]


def _statistics(bids: list[Row]) -> tuple[int, ...]:
    """Return the numbers of bids, of bidders and of auctions, each in all and of each rank."""
    ranks = _ranks(bids)
    names = ("bidder", "auction")
    return (
        *map(len, ranks),
        *(len({bid[name] for bid in each}) for name in names for each in ranks),
    )


def _groups(events: Events, *names: str) -> dict[tuple[Any, ...], list[Row]]:
    """Return the bids of each group of a day."""
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for bid in events.bids:
        groups[(*(bid[name] for name in names), f"{bid['dateTime']:%Y-%m-%d}")].append(bid)
    return groups


def q15(events: Events) -> Rows:
    """Return the statistics of each day."""
    return Counter((*key, *_statistics(bids)) for key, bids in _groups(events).items())


def q16(events: Events) -> Rows:
    """Return the statistics of each channel and day."""
    return Counter(
        (*key, max(f"{bid['dateTime']:%H:%M}" for bid in bids), *_statistics(bids))
        for key, bids in _groups(events, "channel").items()
    )


def q17(events: Events) -> Rows:
    """Return the bids and prices of each auction and day."""
    found: Rows = Counter()
    for key, bids in _groups(events, "auction").items():
        prices = [bid["price"] for bid in bids]
        total = sum(prices)
        counts = map(len, _ranks(bids))
        found[(*key, *counts, min(prices), max(prices), total // len(prices), total)] += 1
    return found


_BID = ("auction", "bidder", "price", "channel", "url", "dateTime", "extra")


def q18(events: Events) -> Rows:
    """Return the last bid of each bidder for each auction."""
    last = {(bid["bidder"], bid["auction"]): bid for bid in events.bids}
    return _rows(last.values(), *_BID)


def q19(events: Events) -> Rows:
    """Return the ten highest bids of each auction."""
    bids: dict[int, list[Row]] = defaultdict(list)
    for bid in events.bids:
        bids[bid["auction"]].append(bid)
    return Counter(
        (*(bid[name] for name in _BID), rank)
        for each in bids.values()
        for rank, bid in enumerate(sorted(each, key=lambda bid: -bid["price"])[:10], 1)
    )


def q20(events: Events) -> Rows:
    """Return the bids for auctions of category 10, with them."""
    auctions = {each["id"]: each for each in events.auctions if each["category"] == 10}
    names = ("itemName", "description", "initialBid", "reserve", "dateTime", "expires", "seller", "category")
    return Counter(
        (*(bid[name] for name in _BID), *(auction[name] for name in (*names, "extra")))
        for bid in events.bids
        if (auction := auctions.get(bid["auction"])) is not None
    )


def q21(events: Events) -> Rows:
    """Return the bids with the number of their channel, of those that have one."""
    found: Rows = Counter()
    for bid in events.bids:
        own = _CHANNEL_ID.search(bid["url"])
        number = _CHANNEL_IDS.get(bid["channel"].lower()) or (own[2] if own is not None else None)
        if number is not None:
            found[bid["auction"], bid["bidder"], bid["price"], bid["channel"], number] += 1
    return found


def q22(events: Events) -> Rows:
    """Return the bids with the folders of their URLs."""
    return Counter(
        (bid["auction"], bid["bidder"], bid["price"], bid["channel"], *bid["url"].split("/")[3:6])
        for bid in events.bids
    )


def q23(events: Events) -> Rows:
    """Return the bids of persons that sell, with their auctions."""
    persons = {each["id"]: each for each in events.persons}
    auctions: dict[int, list[Row]] = defaultdict(list)
    for each in events.auctions:
        auctions[each["seller"]].append(each)
    found: Rows = Counter()
    for bid in events.bids:
        person = persons.get(bid["bidder"])
        if person is None:
            continue
        for auction in auctions[bid["bidder"]]:
            found[
                *(bid[name] for name in ("bidder", "price", "channel", "url", "extra")),
                *(person[name] for name in _PERSON),
                *(auction[name] for name in _AUCTION),
            ] += 1
    return found


_PERSON = ("id", "name", "emailAddress", "creditCard", "city", "state", "extra")
_AUCTION = (
    *("itemName", "description", "initialBid", "reserve", "dateTime", "expires", "seller", "category"),
    "extra",
)
ORACLES: dict[str, Callable[[Events], Rows]] = {
    each.__name__: each
    for each in (
        *(q0, q1, q2, q3, q4, q5, q7, q8, q9, q10, q11, q12, q13, q14, q15, q16, q17, q18, q19, q20),
        *(q21, q22, q23),
    )
}
"""The queries that there is an oracle for: all but q6, which Flink refuses."""
_OF_JOIN = (*range(10), 12, 13)
_DECIDED: dict[tuple[str, bool], tuple[int, ...]] = {
    # Rows of a join have two records, so no offsets put them in order.
    ("q9", False): _OF_JOIN,
    ("q9", True): _OF_JOIN,
    ("q18", True): (0, 1, 5),
    ("q19", True): (0, 2, 7),
}
"""For a query and whether it is a batch: the columns that SQL decides, if not all."""


def decided(name: str, rows: Rows, *, is_batch: bool) -> Rows:
    """Return rows with the columns that the query decides."""
    columns = _DECIDED.get((name, is_batch))
    if columns is None:
        return rows
    found: Rows = Counter()
    for row, count in rows.items():
        found[tuple(row[column] for column in columns)] += count
    return found
