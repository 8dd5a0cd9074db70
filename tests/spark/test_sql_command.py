"""`penstock sql` with real Spark: how rows are shown, and how the command ends."""

from __future__ import annotations

import json
from pathlib import Path

from pyspark.sql import SparkSession
from typer.testing import CliRunner

from penstock.cli import app
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
