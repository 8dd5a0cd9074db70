"""`penstock top` of running queries by their HTTP ends, without a broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from penstock.cli._watched import WatchedReader
from penstock.cli.app import app
from penstock.cli.lag import find_reader
from penstock.errors import MissingOptionError, OptionError
from penstock.observe import checkpoint
from penstock.observe._folders import LocalFolder
from penstock.observe.health import HealthRules
from penstock.observe.serve.http import MetricsServer
from penstock.options.config import MetricsSettings
from penstock.source.metrics import Phase
from tests.checkpoint_files import write_checkpoint
from tests.http_server import QuietHandler, serving
from tests.unit.observe.test_serve import CONFIG, NOW_MS, Served


class Other(QuietHandler):
    """A server that is not penstock's."""

    def do_GET(self) -> None:
        self.send(200, b"{}")


def top(*urls: str) -> str:
    given = [part for url in urls for part in ("--url", url)]
    arguments = ["top", *given, "--looks", "1", "--partitions", "5"]
    result = CliRunner(env={"COLUMNS": "300"}).invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


@pytest.fixture
def served() -> Served:
    return Served()


@pytest.fixture
def url(served: Served) -> Iterator[str]:
    server = MetricsServer(served.view, MetricsSettings(0), CONFIG)
    yield f"http://127.0.0.1:{server.port}"
    server.close()


@pytest.mark.parametrize("end", ["", "/", "/lag"])
@pytest.mark.parametrize(("batch_ms", "took"), [(0, ["-"]), (3_200, ["3.2", "s"])])
def test_a_running_query_is_shown_with_its_sinks(
    served: Served, url: str, end: str, batch_ms: int, took: list[str]
) -> None:
    assert "no batch was planned yet" in top(url)
    served.plan()
    for _ in range(2 if batch_ms else 0):
        for phase in (Phase.LATEST_OFFSET, Phase.PARTITIONS):
            with served.metrics.phase(phase):
                served.now_ms += 100
        served.now_ms += batch_ms - 200
    message = {"sink": "orders", "guarantee": "exactly-once", "values": {}}
    served.sinks.take({**message, "event": "begun"})
    served.now_ms += 3_000
    writing = top(url + end)
    assert "sink orders (exactly-once): 0 records, tasks have been writing for" in writing
    assert "transactions open" not in writing
    opened = {"open_transactions": 2, "oldest_opened_at_ms": NOW_MS}
    served.sinks.take({**message, "event": "prepared", "values": opened})
    shown = top(url + end)
    assert "no answer for gone-0: no leader" in shown
    assert "transaction billing (producer 3) has kept back readers of b-1" in shown
    assert "sink orders (exactly-once): 0 records, 2 transactions open, the oldest for" in shown
    rows = [line.split() for line in shown.splitlines()]
    assert [
        url.removeprefix("http://") + end,
        "BLOCKED_BY_TRANSACTION",
        "-",
        *took,
        "5",
        "60.0",
        "4",
        "-",
        "-",
        "-",
    ] in rows
    assert ["a-0", "5", "9", "4", "2.5", "OK", "-"] in rows


def test_the_table_fits_into_80_columns(served: Served, url: str) -> None:
    served.plan()
    result = CliRunner(env={"COLUMNS": "80"}).invoke(app, ["top", "--url", url, "--looks", "1"])
    table = result.output.splitlines()[:2]
    assert table[0].split() == ["query", "or", "group", "health", "lag", "seconds", "reads/s", "arriving/s"]
    name = url.removeprefix("http://")
    shown = name if len(name) <= 18 else f"...{name[-15:]}"
    assert table[1].split() == [shown, "BLOCKED_BY_TRANSACTION", "5", "60.0", "-", "-"]


def test_a_query_that_ended_and_another_server_are_shown_with_the_reason(url: str) -> None:
    with serving(Other) as other:
        shown = top("http://127.0.0.1:1", other)
    assert "Cannot reach http://127.0.0.1:1/lag" in shown
    assert f"{other}/lag is not the HTTP end of a query of penstock" in shown


def test_the_status_of_a_proxy_is_shown() -> None:
    class Proxy(QuietHandler):
        def do_GET(self) -> None:
            self.send(502, b"<html>Bad Gateway</html>", "text/html")

    with serving(Proxy) as proxy:
        assert f"{proxy}/lag answered with status 502." in top(proxy)


def test_what_to_watch_has_to_be_named() -> None:
    with pytest.raises(MissingOptionError, match="--url http://host:port"):
        CliRunner().invoke(app, ["top"], catch_exceptions=False)
    with pytest.raises(OptionError, match="Expected --url http://host:port"):
        top("driver:9250")


@pytest.mark.parametrize(
    "url", ["http://user:hunter2@host:1", "user:hunter2@host:1", "http://host:1?t=hunter2"]
)
def test_a_url_with_credentials_is_refused_without_them(url: str) -> None:
    with pytest.raises(OptionError, match="without user, password") as raised:
        top(url)
    assert "hunter2" not in f"{raised.value} {raised.value.facts}"


def test_a_checkpoint_is_shown_without_its_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_checkpoint(tmp_path / "c", {"t": {"0": 1}})
    monkeypatch.setattr(checkpoint, "open_folder", lambda _: LocalFolder(folder))
    uri = "s3://key:hun/ter2@bucket/c?secret=hunter2"
    unused: Any = None  # a checkpoint needs no broker to say where it stands
    reader = find_reader(unused, uri, None, None)
    assert reader.named["checkpoint"] == "s3://bucket/c"
    monkeypatch.undo()
    shown = WatchedReader("none://key:hunter2@bucket/c", None, unused, unused, HealthRules()).look()
    assert shown.name == "none://bucket/c"
    assert "hunter2" not in str(shown.error)
