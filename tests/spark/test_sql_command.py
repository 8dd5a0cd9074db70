"""`penstock sql` with real Spark: how rows are shown, and how the command ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from penstock.cli.app import app
from tests.spark.test_sql_connectors import sequence


def test_the_rows_of_a_stream_on_the_command_line(spark: SparkSession, tmp_path: Path) -> None:
    script = tmp_path / "job.sql"
    table = f"CREATE TABLE made (id BIGINT, price DECIMAL(3, 1)) {sequence(3, fields_price_min='1.5', fields_price_max='1.5')}"
    script.write_text(f"{table}; SELECT id, price FROM made;")
    shown = {
        "auto": ["+I[1, 1.5]", "+I[2, 1.5]", "+I[3, 1.5]"],
        "table": ["id  price", "1   1.5", "2   1.5", "3   1.5"],
    }
    for format_, expected in shown.items():
        found = CliRunner().invoke(app, ["sql", "--format", format_, str(script)])
        assert (found.exit_code, found.stdout.splitlines()) == (0, expected), found.output
    found = CliRunner().invoke(app, ["sql", "--format", "json", str(script)])
    assert [json.loads(line) for line in found.stdout.splitlines()] == [
        {"id": number, "price": 1.5} for number in (1, 2, 3)
    ]
    script.write_text(
        f"{table}; SET 'sql-client.execution.result-mode' = 'changelog'; SELECT 1 / (id - 2) FROM made;"
    )
    failed = CliRunner().invoke(app, ["sql", str(script)])
    assert failed.exit_code == 1
    assert "penstock: A job failed: [DIVIDE_BY_ZERO] Division by zero." in failed.output
    assert "Traceback" not in failed.output


ORDERS = """
CREATE TABLE orders (
  id BIGINT, ts TIMESTAMP(3), {watermark}
) WITH (
  'connector' = 'kafka', 'topic' = 'no-such', 'format' = 'json', {options}
);
CREATE TABLE copy (id BIGINT) WITH (
  'connector' = 'kafka', 'topic' = 'copy', 'format' = 'json', {target}
);
INSERT INTO copy SELECT id FROM orders;
"""
SERVERS = "'properties.bootstrap.servers' = '127.0.0.1:1'"


@pytest.mark.parametrize("arguments", [(), ("--explain",)])
@pytest.mark.parametrize(
    ("options", "target", "position", "message"),
    [
        (f"{SERVERS}, 'scan.startup.mod' = 'x'", SERVERS, "Line 5, column ", "Did you mean 'scan.startup.mode'?"),
        (SERVERS, f"{SERVERS}, 'sink.delivery-guarantee' = 'exactly-once'", "Line 10, column 13", "'sink.transactional-id-prefix' is required"),
        (f"{SERVERS}, 'json.fail-on-missing-fields' = 'true'", SERVERS, "Line 5, column ", "json.fail-on-missing-field"),
    ],
)  # fmt: skip
def test_a_wrong_option_is_a_mistake_of_the_script(
    spark: SparkSession,
    tmp_path: Path,
    arguments: tuple[str, ...],
    options: str,
    target: str,
    position: str,
    message: str,
) -> None:
    script = tmp_path / "job.sql"
    watermark = "WATERMARK FOR ts AS ts"
    folder = f"SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoints';"
    script.write_text(folder + ORDERS.format(watermark=watermark, options=options, target=target))
    found = CliRunner().invoke(app, ["sql", *arguments, str(script)])
    assert found.exit_code == 2, found.output
    assert position in found.output
    assert message in found.output
    assert not spark.streams.active
    assert not (tmp_path / "checkpoints").exists()
