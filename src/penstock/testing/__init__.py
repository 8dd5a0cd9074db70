"""What tests of jobs with penstock need: a fake Kafka, the development broker, waiting, an independent judge.

docs/testing.md is the guide.

Inside:

Runs in tests only. No other room of penstock imports it. A name loads its module when it is first used,
because pytest loads the plugin (`plugin.py`) in every run.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.testing.brokers import leader_of as leader_of
    from penstock.testing.fake.clock import Clock as Clock
    from penstock.testing.fake.clock import VirtualClock as VirtualClock
    from penstock.testing.fake.cluster import FakeKafka as FakeKafka
    from penstock.testing.fake.control import Answer as Answer
    from penstock.testing.fake.control import AnswerAfter as AnswerAfter
    from penstock.testing.fake.control import Close as Close
    from penstock.testing.fake.control import Hold as Hold
    from penstock.testing.fake.control import LoseAnswer as LoseAnswer
    from penstock.testing.fake.control import LoseRequest as LoseRequest
    from penstock.testing.fake.control import Refuse as Refuse
    from penstock.testing.fake.control import Twice as Twice
    from penstock.testing.fake.rights import Acl as Acl
    from penstock.testing.fake.rights import Rights as Rights
    from penstock.testing.judge import assert_each_once as assert_each_once
    from penstock.testing.judge import committed_values as committed_values
    from penstock.testing.sql import SqlRun as SqlRun
    from penstock.testing.sql import run_sql as run_sql
    from penstock.testing.streams import run_to_end as run_to_end
    from penstock.testing.tables import assert_table_equals as assert_table_equals
    from penstock.testing.tables import table_of as table_of
    from penstock.testing.tables import upsert_table as upsert_table
    from penstock.testing.waiting import wait_until as wait_until

_FAKE = "penstock.testing.fake"
_HOMES = {
    "assert_each_once": "penstock.testing.judge",
    "committed_values": "penstock.testing.judge",
    "leader_of": "penstock.testing.brokers",
    "assert_table_equals": "penstock.testing.tables",
    "table_of": "penstock.testing.tables",
    "upsert_table": "penstock.testing.tables",
    "run_to_end": "penstock.testing.streams",
    "SqlRun": "penstock.testing.sql",
    "run_sql": "penstock.testing.sql",
    "wait_until": "penstock.testing.waiting",
    "FakeKafka": f"{_FAKE}.cluster",
    "Clock": f"{_FAKE}.clock",
    "VirtualClock": f"{_FAKE}.clock",
    "Acl": f"{_FAKE}.rights",
    "Rights": f"{_FAKE}.rights",
    **dict.fromkeys(
        ("Answer", "AnswerAfter", "Close", "Hold", "LoseAnswer", "LoseRequest", "Refuse", "Twice"),
        f"{_FAKE}.control",
    ),
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)
