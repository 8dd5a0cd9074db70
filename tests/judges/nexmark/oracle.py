"""What Nexmark's queries give over all events, in plain Python: the rows of the target of each."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

from tests.judges.nexmark.events import Events

Rows = Counter[tuple[Any, ...]]
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - the columns are TIMESTAMP(3), without a zone
_TEN = timedelta(seconds=10)


def _windows(time: datetime, slide_s: int) -> Iterator[datetime]:
    """Yield the beginnings of the windows of 10 seconds that a time is in."""
    slide = timedelta(seconds=slide_s)
    start = _EPOCH + (time - _EPOCH) // slide * slide
    while start + _TEN > time:
        yield start
        start -= slide


def _valid(events: Events) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield each bid of the time in which its auction was open, with the auction."""
    auctions = {each["id"]: each for each in events.auctions}
    for bid in events.bids:
        auction = auctions[bid["auction"]]
        if auction["dateTime"] <= bid["dateTime"] <= auction["expires"]:
            yield auction, bid


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
        counts.update((start, bid["auction"]) for start in _windows(bid["dateTime"], 2))
    most: dict[datetime, int] = defaultdict(int)
    for (start, _), count in counts.items():
        most[start] = max(most[start], count)
    return Counter((auction, count) for (start, auction), count in counts.items() if count >= most[start])


def q7(events: Events) -> Rows:
    """Return the highest bid of each window."""
    highest: dict[datetime, int] = defaultdict(int)
    for bid in events.bids:
        for end in (start + _TEN for start in _windows(bid["dateTime"], 10)):
            highest[end] = max(highest[end], bid["price"])
    return Counter(
        (bid["auction"], bid["price"], bid["bidder"], bid["dateTime"], bid["extra"])
        for bid in events.bids
        for end, price in highest.items()
        if bid["price"] == price and end - _TEN <= bid["dateTime"] <= end
    )


def q8(events: Events) -> Rows:
    """Return the persons that offered an auction in the window in which they came."""
    sellers = {
        (auction["seller"], start)
        for auction in events.auctions
        for start in _windows(auction["dateTime"], 10)
    }
    return Counter(
        (person["id"], person["name"], start)
        for person in events.persons
        for start in _windows(person["dateTime"], 10)
        if (person["id"], start) in sellers
    )


def q9(events: Events) -> Rows:
    """Return each auction with its highest bid."""
    best: dict[int, tuple[dict[str, Any], dict[str, Any]]] = {}
    for auction, bid in _valid(events):
        if auction["id"] not in best or bid["price"] > best[auction["id"]][1]["price"]:
            best[auction["id"]] = auction, bid
    return Counter(
        (*auction.values(), bid["auction"], bid["bidder"], bid["price"], bid["dateTime"], bid["extra"])
        for auction, bid in best.values()
    )


ORACLES: dict[str, Callable[[Events], Rows]] = {"q4": q4, "q5": q5, "q7": q7, "q8": q8, "q9": q9}
