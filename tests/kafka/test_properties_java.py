"""Our table of properties against the list that Kafka's own client jar prints."""

from __future__ import annotations

import html
import os
import re
import subprocess
from dataclasses import dataclass

import pytest

from penstock.devbroker.jars import kafka_jars
from penstock.devbroker.java import find_java
from penstock.options.properties import PROPERTIES, ClientRole, Handling

CLASSES = {
    ClientRole.CONSUMER: "org.apache.kafka.clients.consumer.ConsumerConfig",
    ClientRole.PRODUCER: "org.apache.kafka.clients.producer.ProducerConfig",
    ClientRole.ADMIN: "org.apache.kafka.clients.admin.AdminClientConfig",
}
_ENTRY = re.compile(
    r'<h4><a id="([^"]+)">.*?<th>Type:</th><td>(.*?)</td>.*?<th>Default:</th><td>(.*?)</td>', re.S
)


@dataclass(frozen=True)
class JavaProperty:
    """Java's description of a property. Its clients do not agree on every default."""

    roles: frozenset[ClientRole]
    is_password: bool
    defaults: frozenset[str]


@pytest.fixture(scope="module")
def java_properties() -> dict[str, JavaProperty]:
    """Each property that the clients document, by name."""
    class_path = os.pathsep.join(str(jar) for jar in kafka_jars())
    found: dict[str, JavaProperty] = {}
    for role, java_class in CLASSES.items():
        command = [str(find_java()), "-XX:TieredStopAtLevel=1", "-cp", class_path, java_class]
        page = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
        for name, kind, default in _ENTRY.findall(page):
            known = found.get(name, JavaProperty(frozenset(), is_password=False, defaults=frozenset()))
            text = re.sub(r" \(.*\)$", "", html.unescape(default))
            found[name] = JavaProperty(
                known.roles | {role},
                kind == "password",
                known.defaults | {"" if text in ('""', "null") else text},
            )
    assert len(found) > 100
    return found


def test_every_property_of_javas_clients_is_in_the_table(java_properties: dict[str, JavaProperty]) -> None:
    assert set(java_properties) - set(PROPERTIES) == set()
    # Only Flink's properties are not Kafka's.
    flinks = {"partition.discovery.interval.ms", "commit.offsets.on.checkpoint"}
    flinks |= {
        f"security.kerberos.login.{name}" for name in ("contexts", "keytab", "principal", "use-ticket-cache")
    }
    assert set(PROPERTIES) - set(java_properties) == flinks


def test_each_belongs_to_the_clients_that_java_says(java_properties: dict[str, JavaProperty]) -> None:
    for name, java in java_properties.items():
        clients = java.roles - {ClientRole.ADMIN}
        wanted = ClientRole.COMMON if len(clients) == 2 else next(iter(clients), ClientRole.ADMIN)
        # `default.api.timeout.ms` and `retries` have a meaning for both sides here.
        ours = PROPERTIES[name].role
        assert ours is wanted or (ours is ClientRole.COMMON and ClientRole.ADMIN in java.roles), name


def test_what_java_hides_we_hide(java_properties: dict[str, JavaProperty]) -> None:
    shown = [
        name for name, java in java_properties.items() if java.is_password and not PROPERTIES[name].is_secret
    ]
    assert shown == []


def test_a_default_differs_from_javas_only_where_the_table_says_so(
    java_properties: dict[str, JavaProperty],
) -> None:
    for name, java in java_properties.items():
        declared = PROPERTIES[name]
        if declared.handling not in (Handling.OURS, Handling.TRANSLATED):
            continue
        if declared.java_default is not None:
            assert declared.java_default in java.defaults, name
        elif declared.default in {None, ""}:
            assert "" in java.defaults, name
        else:
            assert declared.default in {declared.type.parse(text) for text in java.defaults if text}, name
