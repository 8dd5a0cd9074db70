"""The job of the demo as a SQL script gives the answer of the demo's own check."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from pyspark.sql import SparkSession
from typer.testing import CliRunner

import penstock.demo
from penstock.cli.app import app
from penstock.demo.check import compare, expected_delays
from penstock.demo.flights import flight_records, load_flights
from tests import judge
from tests.fix_broker import MakeTopic

FLIGHTS = 10_000
SCRIPT = Path(penstock.demo.__file__).parent / "delays.sql"


def test_the_script_of_the_demo_has_the_right_answer(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    config = {"retention.ms": "-1"}
    source, target = make_topic(suffix=".source", config=config), make_topic(suffix=".target", config=config)
    flights = load_flights().slice(0, FLIGHTS)
    for batch in flight_records(flights, 1):
        values, times = batch["value"].to_pylist(), batch["timestamp"].to_pylist()
        records = [
            judge.Record(value=value, timestamp_ms=int(time.timestamp() * 1_000))
            for value, time in zip(values, times, strict=True)
        ]
        judge.produce(bootstrap, source, *records)
    changes = {
        "'topic' = 'flights'": f"'topic' = '{source}'",
        "'topic' = 'delays'": f"'topic' = '{target}'",
        "localhost:9092": bootstrap,
        "/checkpoints": f"{tmp_path}/checkpoints",
    }
    text = SCRIPT.read_text()
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    script = tmp_path / "delays.sql"
    script.write_text(text)
    done = CliRunner().invoke(app, ["sql", str(script)])
    assert done.exit_code == 0, done.output
    written = judge.consume_all(bootstrap, target)
    expected = expected_delays(flights, dt.timedelta(days=1))
    assert len(expected) > 100
    assert compare([record.value or b"" for record in written], expected).is_right
    assert {record.key for record in written} == {carrier.encode() for _, carrier in expected}
