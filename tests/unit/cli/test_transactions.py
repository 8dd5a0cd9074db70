"""`penstock transactions` without a broker."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli import transactions
from penstock.cli.app import app
from penstock.client.net.connection import close_shared_connections
from penstock.errors import OptionError, PenstockError


@pytest.mark.parametrize("spelling", ["--bootstrap-server", "--bootstrap-servers", "-b"])
def test_a_broker_that_does_not_answer_is_named_soon(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, spelling: str
) -> None:
    monkeypatch.setattr(transactions, "_PATIENCE_SECONDS", 0.1)
    config = tmp_path / "client.properties"
    config.write_text("default.api.timeout.ms=600\nrequest.timeout.ms=500\n")
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        server = f"127.0.0.1:{holder.getsockname()[1]}"
        arguments = ["transactions", "list", "--prefix", "p", spelling, server]
        result = CliRunner().invoke(app, [*arguments, "--command-config", str(config)])
    close_shared_connections()
    assert f"trying {server} ..." in result.stderr
    assert isinstance(result.exception, PenstockError)


def test_help_shows_flags_without_a_value() -> None:
    shown = CliRunner().invoke(app, ["transactions", "abort", "--help"]).stdout
    assert "--yes" in shown
    assert "bool" not in shown


@pytest.mark.parametrize("given", [["--query", "q"], ["--resolution", "write-again"], ["--log-topic", "t"]])
def test_options_of_a_decision_are_not_for_a_foreign_transaction(given: list[str]) -> None:
    command = ["transactions", "abort", "--transactional-id", "billing-7", "-b", "localhost:1", *given]
    error = CliRunner().invoke(app, command).exception
    assert isinstance(error, OptionError)
    assert "are for --prefix" in str(error)
