"""Texts that outlive a process, as penstock writes them now: positions, decisions, markers of tables.

Each has a value here: a later version has to read the text of an earlier one as this value. What was recorded
never changes. A new field gets a new name here.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from penstock.client.produce.spans import WrittenSpan
from penstock.client.transactions.markers import Witness
from penstock.client.transactions.steps import TransactionIdentity, TransactionProtocol
from penstock.observe.shadow_note import NAME, ShadowNote, read_note
from penstock.relay.messages import Totals
from penstock.relay.notes import TaskNote, query_of, task_note_of, topic_id_of
from penstock.sink.dead_letters.found import DeadLetter, Origin
from penstock.sink.dead_letters.notes import decode_note, encode_note, key_of_note
from penstock.sink.exactly_once import _log_records as records
from penstock.sink.exactly_once import receipt
from penstock.sink.exactly_once.committable import Committable, TargetTopic, TaskSpan
from penstock.sink.exactly_once.decision import (
    Begun,
    DecidedTransaction,
    Decision,
    DecisionStatus,
    Ended,
    EndReason,
    Outcome,
)
from penstock.sink.exactly_once.digest import RecordDigest
from penstock.sink.exactly_once.names import TransactionNames
from penstock.source.checkpoint_offset import Markers, SourceOffset
from penstock.sql.connectors.datagen.offset import MadeOffset
from penstock.state.seal import Seal, parse_seal
from penstock.targets._iceberg_snapshots import properties_of
from penstock.targets._merge_log import said_by, said_in
from penstock.targets._merge_properties import made_in
from penstock.targets._merge_properties import new_properties as merge_properties
from penstock.targets._table_properties import new_properties
from penstock.targets.hand_over import HANDED_OVER, HandOver, steps_of, text_of
from penstock.targets.marker import marker_of
from penstock.types import OffsetRange, TopicPartition
from tests.compat import notes
from tests.compat.tables import batch_of

_A, _B = TopicPartition("a", 0), TopicPartition("a", 10)
_IDS = {"a": "00000000-0000-0000-0000-00000000000a"}
_AT_MS = 1_795_000_000_000
_QUERY = "8c19773b-93ee-4f08-a627-63d7f625a574"

OFFSETS = {
    "positions": SourceOffset({_A: 3, _B: 4}),
    "first": SourceOffset({_A: 3}, Markers(whole_start={_A: 1}, topic_ids=_IDS)),
    "discovered": SourceOffset(
        {_A: 3, _B: 4}, Markers(partial_start={_B: 2}, left={TopicPartition("b", 1): 9})
    ),
    "bounded": SourceOffset({_A: 3}, Markers(stops={_A: 8}, ended_runs=2)),
    "waiting": SourceOffset({_A: 3}, Markers(waiting=frozenset([_B]), planned_at_ms=_AT_MS)),
}
MADE_OFFSETS = {
    "datagen": MadeOffset(7, 100, _AT_MS, 1_000),
    "datagen without end": MadeOffset(7, 100, _AT_MS),
}


def _decided(outcome: Outcome, number: int, witness: Witness | None) -> DecidedTransaction:
    identity = TransactionIdentity(f"app-{number}-0", 7, 3, TransactionProtocol.V2)
    return DecidedTransaction(
        Committable(identity, number, 5, str(RecordDigest(5, 0x12AB, 0x34CD)), witness), outcome
    )


_TOPICS = (TargetTopic("orders", "7aa50000-0000-0000-0000-000000000001"), TargetTopic("old", None))
_PENDING = (_decided(Outcome.PENDING, 0, Witness(_A, 17)), _decided(Outcome.COMMITTED, 1, None))
DECISIONS = {
    "decided": Decision(_QUERY, 41, DecisionStatus.DECIDED, 2, 10, _PENDING, _AT_MS, topics=_TOPICS),
    "lost": Decision(
        _QUERY, 41, DecisionStatus.LOST, 1, 5, (_decided(Outcome.LOST, 0, None),), _AT_MS, topics=_TOPICS
    ),
    "finished": Decision(
        _QUERY, 41, DecisionStatus.FINISHED, 2, 10, (), _AT_MS, str(RecordDigest(10, 0x12AB, 0x34CD)), _TOPICS
    ),
    "finished by hand": Decision(
        _QUERY,
        41,
        DecisionStatus.FINISHED,
        2,
        10,
        (),
        _AT_MS,
        None,
        _TOPICS,
        True,
        "2 records are missing",
        1,
    ),
    "withdrawn": Decision(_QUERY, 41, DecisionStatus.WITHDRAWN, 2, 10, (), _AT_MS),
    "handed over": Decision(
        _QUERY,
        41,
        DecisionStatus.FINISHED,
        2,
        10,
        (),
        _AT_MS,
        str(RecordDigest(10, 0x12AB, 0x34CD)),
        _TOPICS,
        ended=Ended(EndReason.HANDED_OVER, "heir", "/checkpoints/heir"),
    ),
    "begun by promote": Decision(
        _QUERY,
        0,
        DecisionStatus.FINISHED,
        0,
        0,
        (),
        _AT_MS,
        str(RecordDigest()),
        _TOPICS,
        begun=Begun("older", 41, "/checkpoints/heir", {"metadata": '{"id":"heir"}', "commits/0": "v1\n{}"}),
    ),
    "shadow": Decision(
        _QUERY,
        0,
        DecisionStatus.FINISHED,
        0,
        0,
        (),
        _AT_MS,
        topics=(TargetTopic("orders"),),
        ended=Ended(EndReason.SHADOW, "live", "/checkpoints/shadow"),
    ),
}
SHADOW_NOTE = ShadowNote(
    "live", "app", "orders", 41, 50, "app-shadow", "orders-shadow", {"source": {"0": 17}}, "all-decisions"
)
RECEIPT = receipt.Receipt(
    _QUERY,
    41,
    _AT_MS,
    (
        receipt.WrittenTransaction(
            7, 3, RecordDigest(5, 0x12AB, 0x34CD), "tp", (TaskSpan(_A, WrittenSpan(5, 17, 30, True)),)
        ),
        receipt.WrittenTransaction(8, 3, RecordDigest(0, 0, 0)),
    ),
    "0.1.0",
    "4.2.1",
    (OffsetRange(_B, 5, 10),),
    _IDS,
)
DEAD_LETTER = DeadLetter(
    TopicPartition("orders-bad", 0),
    17,
    Origin("orders", 2, 41, _AT_MS, "0123456789abcdef0123456789abcdef"),
    "value: no JSON",
    None,
    b"x",
    (),
)
_LOCATION = records.LogLocation("other", "other-decisions")
_NAMES = TransactionNames("app")
TAKEN_RECEIPT = replace(RECEIPT, previous=38, idle=(OffsetRange(_B, 2, 5),), taken_lost=3)
UNKNOWN_RECEIPT = replace(
    RECEIPT, idle=(), unknown=(receipt.WrittenTransaction(9, 0, RecordDigest(2, 3, 4)),)
)
_RECEIPTS = (
    "log: receipt",
    "log: receipt after idle batches, taken as written",
    "log: receipt taken as written, with an unknown outcome",
)
_NOTE = "note of a dead letter"
_TASK_NOTE = TaskNote(7, 2, 1, 3, Totals(1_000, 990, 41, 64_000, 21_000, 6, 3, 1))
_TASK = "note of a continuous task"
_OF_SPARK, _MERGE = "properties of a table of Spark", "commit of a MERGE"
_SHADOW = "note of a shadow"
_SHARED = "query.json with one read for both sides of a join"
_STEPS = "hand-overs of a table"
STEPS = (HandOver("live", 41, "heir", "/checkpoints/heir"), HandOver("heir", 3, "back", "/checkpoints/back"))
_SEAL = Seal(0x10000002A, "0123456789abcdef", 7, frozenset([(5, "aa"), (6, "bb")]))

Texts = dict[str, str]


def made() -> Texts:
    """Return each text, by what it is."""
    decisions = {name: records.encode(each) for name, each in DECISIONS.items()}
    first, last = batch_of(0), batch_of(1)
    with patch.object(records, "now_ms", lambda: _AT_MS):
        log = {
            "log: key": records.key_of("app", _QUERY),
            "log: key of a move": records.moved_key_of("app", _QUERY, "other"),
            "log: key of a trace": records.first_key_of("app", _QUERY),
            "log: started": records.encode_started(),
            "log: moved": records.encode_moved(_LOCATION),
            "log: back": records.encode_back(_LOCATION),
            "log: snapshot": records.encode_snapshot(
                4711, {_QUERY: decisions["finished"]}, [("q", records.encode_moved(_LOCATION))]
            ),
            **{f"log: {name}": text for name, text in decisions.items()},
            "log: key of a receipt": receipt.key_of_receipt("app", 4711),
            "log: receipt": receipt.encode_receipt(RECEIPT),
            "log: receipt after idle batches, taken as written": receipt.encode_receipt(TAKEN_RECEIPT),
            "log: receipt taken as written, with an unknown outcome": receipt.encode_receipt(UNKNOWN_RECEIPT),
            "log: key of a receipt taken as written": receipt.key_of_taken("app", _QUERY, 41),
            "note of a dead letter: key": key_of_note(DEAD_LETTER.origin),
            "note of a dead letter": encode_note(DEAD_LETTER, TopicPartition("orders", 2)),
        }
    return {
        **{f"offset: {name}": json.dumps(each.to_json()) for name, each in (OFFSETS | MADE_OFFSETS).items()},
        **{name: text.decode() for name, text in log.items()},
        "seal of a state": _SEAL.to_json().decode(),
        _SHADOW: SHADOW_NOTE.text(),
        _TASK: _TASK_NOTE.text(_IDS["a"], "0123456789ab"),
        "query.json": _note(),
        _SHARED: _note(frozenset({"1-join"})),
        "id of a transaction": _NAMES.data_id(3, 1),
        "id of the driver's transactions": _NAMES.committer_id,
        "topic of decisions": _NAMES.default_log_topic,
        "properties of a table": json.dumps(new_properties(first)),
        "properties of a snapshot": json.dumps(properties_of(marker_of(last))),
        _OF_SPARK: json.dumps(merge_properties(first)),
        _MERGE: json.dumps(said_by(marker_of(last), 7)),
        _STEPS: text_of(STEPS),
    }


def _note(shared: frozenset[str] = frozenset()) -> str:
    with tempfile.TemporaryDirectory() as folder:
        return notes.text(Path(folder), shared)


def _read_shared(text: str) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        return notes.shared_reads(Path(folder), text), notes.is_same_query(Path(folder), text)


def read(texts: Texts) -> dict[str, Any]:
    """Return what this version reads in texts of another one."""
    found: dict[str, Any] = {}
    for name, text in texts.items():
        if name.startswith("offset: datagen"):
            found[name] = MadeOffset.from_json(json.loads(text))
        elif name.startswith("offset: "):
            found[name] = SourceOffset.from_json(json.loads(text))
        elif name.removeprefix("log: ") in DECISIONS:
            found[name] = records.decode(_QUERY, text.encode())
    return found | _read_others(texts)


def _read_task(text: str) -> Any:
    return task_note_of(text), topic_id_of(text), query_of(text)


def _read_shadow(text: str) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / NAME).write_text(text, encoding="utf-8")
        return read_note(folder)


def _read_others(texts: Texts) -> dict[str, Any]:
    value = {name: text.encode() for name, text in texts.items()}
    return {
        "log: key": records.decode_key(value["log: key"]),
        "log: key of a move": records.decode_moved_key("app", value["log: key of a move"]),
        "log: moved": records.decode_moved(value["log: moved"]),
        "log: back": records.decode_moved(value["log: back"]),
        "log: started": records.decode_snapshot(value["log: started"]),
        "log: snapshot": records.decode_snapshot(value["log: snapshot"]),
        **{name: receipt.decode_receipt(value[name]) for name in _RECEIPTS if name in value},
        **(
            {"note of a dead letter": decode_note(value[f"{_NOTE}: key"], value[_NOTE])}
            if _NOTE in value
            else {}
        ),
        **({_TASK: _read_task(texts[_TASK])} if _TASK in texts else {}),
        **(
            {_OF_SPARK: made_in(json.loads(texts[_OF_SPARK]), "t"), _MERGE: said_in(texts[_MERGE])}
            if _OF_SPARK in texts
            else {}
        ),
        **({_SHADOW: _read_shadow(texts[_SHADOW])} if _SHADOW in texts else {}),
        **({_SHARED: _read_shared(texts[_SHARED])} if _SHARED in texts else {}),
        **({_STEPS: steps_of({HANDED_OVER: texts[_STEPS]}, "t")} if _STEPS in texts else {}),
        "seal of a state": parse_seal(value["seal of a state"], "seal"),
        "id of a transaction": _NAMES.parse(texts["id of a transaction"]),
    }
