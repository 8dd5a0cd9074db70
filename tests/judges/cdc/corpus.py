"""All that Flink is asked, and where its answers are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.judges.cdc import (
    corpus_arrays,
    corpus_avro,
    corpus_canal,
    corpus_debezium,
    corpus_keys,
    corpus_maxwell,
    corpus_money,
    corpus_ogg,
    corpus_written,
)
from tests.judges.cdc.corpus_written import WRITES
from tests.judges.cdc.tables import Case, Read, Upsert

FOLDER = Path(__file__).parents[2] / "data" / "cdc"

READS: list[Read] = [
    *corpus_debezium.READS,
    *corpus_canal.READS,
    *corpus_maxwell.READS,
    *corpus_ogg.READS,
    *corpus_avro.READS,
    *corpus_arrays.READS,
    *corpus_money.READS,
]
UPSERTS: list[Upsert] = [*corpus_written.UPSERTS, *corpus_keys.UPSERTS]
_ALL: list[Case] = [*READS, *WRITES, *UPSERTS]
CASES = {one.name: one for one in _ALL}


def file_of(name: str) -> Path:
    """Return the file with the recorded answers of a case: one for each first word."""
    return FOLDER / f"{name.partition(',')[0].replace(' ', '-')}.json"


def recorded(name: str) -> dict[str, Any]:
    """Return what was asked, and Flink's answer."""
    found: dict[str, Any] = json.loads(file_of(name).read_text(encoding="utf-8"))[name]
    return found
