"""Measure the operators of changelogs alone, without Spark: `python -m benchmarks.operators`.

Prints processor microseconds a row of one batch into an empty state, the best of several rounds. The rows are
like those of Nexmark's q9: bids with their auctions, 15 bids of each, with texts and numbers.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.changelog.operators.aggregate import Aggregate
from penstock.changelog.operators.base import Operator
from penstock.changelog.operators.calls import parse_calls
from penstock.changelog.operators.deduplicate import Deduplicate
from penstock.changelog.operators.join import KEY, LEFT, RIGHT, SIDE, Join
from penstock.changelog.operators.top_n import TopN
from penstock.state.columns import state_schema

_BIDS_OF_AUCTION = 15
_ORDER = (("price", True), ("at", False))


def pairs(count: int) -> pa.Table:
    """Return rows of bids with their auctions."""
    random = np.random.default_rng(1)
    auctions = random.integers(0, count // _BIDS_OF_AUCTION + 1, count)
    columns = {"auction": pa.array(auctions), "price": pa.array(random.integers(0, 10**6, count))}
    columns["at"] = pa.array(np.arange(count) * 1_000).cast(pa.timestamp("us"))
    columns |= {f"text{index}": _texts(count, random) for index in range(5)}
    return pa.table(
        columns | {f"number{index}": pa.array(random.integers(0, 10**9, count)) for index in range(7)}
    )


def both_sides(count: int) -> pa.Table:
    """Return rows of auctions and of bids, as they come into a join."""
    random = np.random.default_rng(1)
    auctions = count // (_BIDS_OF_AUCTION + 1) + 1
    bids = count - auctions
    keys = np.concatenate([np.arange(auctions), random.integers(0, auctions, bids)])
    sides = np.repeat(np.array([0, 1], np.int8), (auctions, bids))
    columns = {SIDE: pa.array(sides), f"{KEY}0": pa.array(keys)}
    for prefix, texts, own, others in ((LEFT, 3, auctions, bids), (RIGHT, 1, bids, auctions)):
        made = [_texts(own, random) for _ in range(texts)]
        made += [pa.array(random.integers(0, 10**9, own)) for _ in range(5)]
        for index, each in enumerate(made):
            parts = [each, pa.nulls(others, each.type)]
            columns[f"{prefix}c{index}"] = pa.concat_arrays(parts if prefix == LEFT else parts[::-1])
    return pa.table(columns)


def _texts(count: int, random: np.random.Generator) -> pa.Array:
    return pa.array(["x" * int(each) for each in random.integers(20, 80, count)])


def us_a_row(operator: Operator, rows: pa.Table, rounds: int) -> float:
    """Return the processor time of one batch, a row."""
    nothing = state_schema(operator.kept_columns).empty_table()
    spent_s: list[float] = []
    for _ in range(rounds):
        started_s = time.process_time()
        operator.step(rows, lambda _: nothing, 0)
        spent_s.append(time.process_time() - started_s)
    return float(min(spent_s) / rows.num_rows * 1e6)


def _join(columns: Sequence[str], schema: pa.Schema) -> Join:
    names = [(name.strip("#"), (name,)) for name in columns if name.startswith((LEFT, RIGHT))]
    return Join(schema, "inner", tuple(names))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operators", description=__doc__)
    parser.add_argument("--rows", type=int, default=230_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    rows, sides = pairs(given.rows), both_sides(given.rows)
    calls = tuple(
        parse_calls({"n": "count(*)", **{each: f"{each}(price)" for each in ("sum", "min", "max")}})
    )
    measured: tuple[tuple[str, Operator, pa.Table], ...] = (
        ("top_n: the first of each group", TopN(rows.schema, ("auction",), _ORDER, 1, None, True), rows),
        ("top_n: the first 10", TopN(rows.schema, ("auction",), _ORDER, 10, "rank", True), rows),
        ("top_n of rows that change", TopN(rows.schema, ("auction",), _ORDER, 1), rows),
        ("deduplicate: the last", Deduplicate(rows.schema, ("auction",), ("at",), "last"), rows),
        ("aggregate: count, sum, min and max", Aggregate(rows.schema, ("auction",), calls), rows),
        ("join: inner", _join(sides.column_names, sides.schema), sides),
    )
    for name, operator, table in measured:
        print(f"{name}: {us_a_row(operator, table, given.rounds):.2f} us a row")


if __name__ == "__main__":
    main()
