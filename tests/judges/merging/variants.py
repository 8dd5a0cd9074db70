"""The part of the judge about VARIANT: what is written as JSON text is read with `variant_get`.

Invariant: it ends without an error only if each row of the table is that of the last message of its key, with
all digits, each batch has one commit, and what cannot be a VARIANT was refused with nothing written.
"""

from __future__ import annotations

import argparse
import json
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests import judge
from tests.judges.debezium.hunt import say
from tests.judges.merging.job import COMPACTION, MERGE
from tests.judges.merging.running import ran
from tests.judges.merging.variant_job import DOC, REST

_KEYS, _CHANGES, _LONG = 120, 240, 20_000
_PRICE = "@price"
"""Stands for a number that `json` of Python would round."""


class Scene:
    """A table, its topic, and what the table has to be."""

    def __init__(self, given: argparse.Namespace, bootstrap: str, topic: str, folder: Path) -> None:
        self._given = given
        self._bootstrap = bootstrap
        self._topic = topic
        self._folder = folder
        self._random = random.Random(given.seed)
        self.rows = dict[int, dict[str, Any]]()
        folder.mkdir()
        judge.create_topic(bootstrap, topic)

    @property
    def is_iceberg(self) -> bool:
        return bool(self._given.format == "iceberg")

    def change(self, *, is_kept: bool = True, length: int = 8) -> None:
        """Send changes to the topic, of a table with fields that are not declared.

        Args:
            is_kept: whether the query keeps these fields.
            length: of a text in them.
        """
        judge.produce(self._bootstrap, self._topic, *(self._one(is_kept, length) for _ in range(_CHANGES)))

    def _one(self, is_kept: bool, length: int) -> tuple[bytes, bytes]:
        key, number = self._random.randrange(_KEYS), self._random.randrange(10**20)
        price = f"{number}.{self._random.randrange(10**9):09}"
        row: dict[str, Any] = {"id": key, "name": f"name {number}"}
        rest: dict[str, Any] = {
            "price": _PRICE,
            "tags": ["ü" * length, str(number)],
            "none": None,
            "deep": {'a"b': [{}]},
        }
        doc = {"number": number, "is": True}
        has_rest, has_doc = self._random.random() < 0.8, self._random.random() < 0.7
        after = row | (rest if has_rest else {}) | ({DOC: doc} if has_doc else {})
        if self._random.random() < 0.25:
            self.rows.pop(key, None)
            return _message(key, {"before": {"id": key}, "after": None, "op": "d"})
        self.rows[key] = row | {
            "doc": doc if is_kept and has_doc else None,
            "rest": rest | {"price": Decimal(price)} if is_kept and has_rest else None,
        }
        record = _message(key, {"before": None, "after": after, "op": "u"})
        return record[0], record[1].replace(json.dumps(_PRICE).encode(), price.encode())

    def send(self, row: dict[str, Any]) -> None:
        """Send one more row."""
        record = _message(row["id"], {"before": None, "after": row, "op": "u"})
        judge.produce(self._bootstrap, self._topic, record)

    def run(self, *more: str) -> dict[str, Any] | None:
        """Run the job to its end; return what it said, None if it died."""
        command = [self._given.python, "-m", "tests.judges.merging.variant_job"]
        command += ["--format", self._given.format, "--jars", self._given.jars, "--folder", str(self._folder)]
        command += ["--bootstrap", self._bootstrap, "--topic", self._topic, *more]
        return ran(command, self._folder)

    def compare(self, answer: dict[str, Any] | None) -> int:
        """Compare the table with what it has to be; return the number of the next batch."""
        if answer is None or "error" in answer:
            raise AssertionError(f"expected rows, got {answer}")
        found = {row["id"]: _read(row) for row in answer["rows"]}
        wrong = {key for key in found | self.rows if found.get(key) != _expected(self.rows.get(key))}
        if wrong or len(found) < len(answer["rows"]):
            some = [(found.get(key), _expected(self.rows.get(key))) for key in sorted(wrong)[:3]]
            raise AssertionError(f"{len(wrong)} of {len(self.rows)} rows differ (found and expected): {some}")
        batches: list[int] = answer["batches"]
        if batches != list(range(batches[0], -2, -1)):
            raise AssertionError(f"expected each batch once, got {batches}")
        kept = sum(row["rest"] is not None for row in self.rows.values())
        types = {name: kind for name, kind in answer["types"].items() if name in (DOC, REST)}
        if set(types.values()) - {"variant"} or (kept and len(types) < 2):
            raise AssertionError(f"expected columns of the type variant, got {answer['types']}")
        say(
            f"{len(self.rows)} rows equal, {kept} of them with fields in a VARIANT, {batches[0] + 1} batches "
            "in a commit each"
        )
        return batches[0] + 1


def _message(key: int, value: dict[str, Any]) -> tuple[bytes, bytes]:
    return json.dumps({"id": key}).encode(), json.dumps(value).encode()


def _read(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of the job with its JSON as values."""
    texts = {name: row.get(name) for name in ("doc", "rest")}
    price, tag = row.get("price"), row.get("tag")
    return {
        **{name: row[name] for name in ("id", "name")},
        **{
            name: None if one is None else json.loads(one, parse_float=Decimal) for name, one in texts.items()
        },
        "got": [None if price is None else Decimal(price), tag],
    }


def _expected(row: dict[str, Any] | None) -> dict[str, Any] | None:
    if row is None:
        return None
    rest = row["rest"]
    return row | {"got": [None, None] if rest is None else [rest["price"], rest["tags"][1]]}


def judged(given: argparse.Namespace, bootstrap: str, folder: Path) -> None:
    """Let a table get its VARIANTs in a later batch, and another one have them from its first batch on."""
    _added(Scene(given, bootstrap, "shop.public.later", folder / "later"))
    _from_the_start(Scene(given, bootstrap, "shop.public.first", folder / "first"))


def _added(scene: Scene) -> None:
    scene.change(is_kept=False)
    number = str(scene.compare(scene.run()))
    scene.change()
    kept = ["--rest", "--variants"]
    if scene.is_iceberg:
        _refused(scene.run(*kept), "version 3 of Iceberg's format")
        kept.append("--upgrade")
    if (answer := scene.run(*kept, "--part", MERGE, "--batch", number)) is not None:
        raise AssertionError(f"expected that the driver dies in batch {number}, got {answer}")
    say(f"the driver died after the MERGE of batch {number}, which has added the columns")
    scene.compare(scene.run("--rest", "--variants"))
    scene.send({"id": -1, "name": "late"})
    _refused(scene.run("--rest"), "has type variant, and `variants` does not name it")


def _from_the_start(scene: Scene) -> None:
    kept = ("--rest", "--variants")
    scene.change()
    if (answer := scene.run(*kept, "--part", MERGE, "--batch", "0")) is not None:
        raise AssertionError(f"expected that the driver dies in batch 0, got {answer}")
    say("the driver died after the MERGE of batch 0, which has created the table")
    number = scene.compare(scene.run(*kept))
    scene.change(length=_LONG)
    scene.compare(scene.run(*kept, "--staging", "--part", COMPACTION, "--batch", str(number)))
    scene.send({"id": -1, "name": "bad", DOC: '{"a": 1} {"b": 2}'})
    _refused(scene.run(*kept), f"Column '{DOC}' of the")
    scene.compare(scene.run("--read"))


def _refused(answer: dict[str, Any] | None, message: str) -> None:
    if answer is None or message not in answer.get("error", ""):
        raise AssertionError(f"expected an error with the text {message!r}, got {answer}")
    say(f"refused: {message}")
