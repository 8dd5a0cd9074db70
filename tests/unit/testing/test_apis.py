"""The fake Kafka serves every request that penstock's client sends."""

from __future__ import annotations

import ast
from pathlib import Path

import penstock.client
from penstock.testing.fake._apis import served_apis

CLIENT = Path(penstock.client.__file__).parent


def sent_by_the_client() -> set[str]:
    """Return the APIs whose request classes the client imports, by Kafka's names."""
    return {
        alias.name.removesuffix("Request")
        for path in CLIENT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kafka.protocol")
        for alias in node.names
        if alias.name.endswith("Request")
    }


def test_every_request_of_the_client_is_served() -> None:
    sent = sent_by_the_client()
    assert {"Produce", "Fetch", "EndTxn", "ApiVersions"} <= sent
    assert sent <= {served.api.name for served in served_apis({}).values()}


def test_a_test_may_lower_the_versions() -> None:
    served = {each.api.name: each for each in served_apis({"Fetch": 11, "EndTxn": -1}).values()}
    assert served["Fetch"].highest == 11
    assert "EndTxn" not in served
