"""The files of examples/compose fit together, and Docker Compose accepts them."""

from __future__ import annotations

import ast
import json
from typing import Any

import pytest
import yaml

from penstock.devbroker.jars import KAFKA_VERSION
from penstock.observe.grafana.dashboard import dashboard
from tests.judges import compose as judge

SERVICES: dict[str, Any] = yaml.safe_load(judge.FILE.read_text(encoding="utf-8"))["services"]


def read(path: str) -> Any:
    return yaml.safe_load((judge.FOLDER / path).read_text(encoding="utf-8"))


def mounts(service: str) -> dict[str, str]:
    """Return the files of the checkout that a service has, by their paths in the container."""
    found = (each.split(":") for each in SERVICES[service].get("volumes", []))
    return {parts[1]: parts[0] for parts in found if parts[0].startswith(".")}


def test_docker_compose_has_accepted_this_file() -> None:
    answer = json.loads(judge.ANSWER.read_text(encoding="utf-8"))
    assert answer["sha256"] == judge.digest(), (
        "it has changed since Compose was asked: run `python -m tests.judges.compose`"
    )
    assert (answer["status"], answer["said"]) == (0, "")


@pytest.mark.skipif(judge.find_compose() is None, reason="no Docker Compose here")
def test_docker_compose_still_accepts_it() -> None:
    assert judge.ask() == (0, "")


@pytest.mark.parametrize("service", SERVICES)
def test_what_a_service_mounts_is_there_and_cannot_be_written(service: str) -> None:
    for each in SERVICES[service].get("volumes", []):
        source, _, rest = each.partition(":")
        if source.startswith("."):
            assert (judge.FOLDER / source).exists(), each
            assert rest.endswith(":ro"), each


@pytest.mark.parametrize("service", SERVICES)
def test_a_port_is_of_this_machine_only(service: str) -> None:
    ports = SERVICES[service].get("ports", [])
    assert [each for each in ports if not each.startswith("127.0.0.1:")] == []


def test_an_image_has_a_version_and_no_host() -> None:
    images = [each["image"] for each in SERVICES.values() if "image" in each]
    for image in images:
        name, _, tag = image.partition(":")
        assert "." not in name, image
        assert tag not in ("", "latest"), image
    assert f"apache/kafka:{KAFKA_VERSION}" in images, "the one that penstock is tested with"


def test_prometheus_asks_the_job() -> None:
    [scrape] = read("prometheus.yml")["scrape_configs"]
    [[target]] = [each["targets"] for each in scrape["static_configs"]]
    service, _, port = target.partition(":")
    assert "penstock" in scrape["job_name"], "PenstockDown wants it"
    job = ast.parse((judge.FOLDER / mounts(service)["/app/job.py"]).read_text(encoding="utf-8"))
    [start] = [each for each in job.body if isinstance(each, ast.FunctionDef)]
    assert [ast.literal_eval(each) for each in start.args.defaults] == [int(port)]
    assert read("prometheus.yml")["rule_files"] == ["penstock.yml"]
    assert "/etc/prometheus/penstock.yml" in mounts("prometheus")


def test_grafana_gets_the_dashboard_and_its_source() -> None:
    [source] = read("grafana/provisioning/datasources/prometheus.yml")["datasources"]
    assert source["url"].removeprefix("http://").partition(":")[0] in SERVICES
    assert source["isDefault"] is True
    [provider] = read("grafana/provisioning/dashboards/penstock.yml")["providers"]
    assert f"{provider['options']['path']}/penstock.json" in mounts("grafana")
    assert json.loads(judge.DASHBOARD.read_text(encoding="utf-8")) == dashboard(), (
        "run `python -m tests.judges.compose`"
    )


def test_all_services_ask_the_same_broker() -> None:
    [inside] = [
        each.removeprefix("INSIDE://")
        for each in SERVICES["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"].split(",")
        if each.startswith("INSIDE://")
    ]
    assert SERVICES["spark"]["environment"]["BROKERS"] == inside
    assert f"--bootstrap-server={inside}" in SERVICES["orders"]["command"]
    assert inside in SERVICES["topics"]["command"][-1]
