"""Java's properties as settings of connections, fetches and produces."""

from __future__ import annotations

import dataclasses
import logging
import pickle
import socket
import ssl
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.net.manager import KafkaConnectionManager

from penstock.client.settings import (
    ConnectionSettings,
    FetchSettings,
    ProduceSettings,
    connection_settings,
    fetch_settings,
    produce_settings,
)
from penstock.errors import MissingOptionError, OptionError, UnsupportedOptionError
from penstock.options.config import DeliveryGuarantee, KafkaProperties

SERVERS = {"bootstrap.servers": "a:1,b:2"}
PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="al=i,ce" password="pw";'
SCRAM = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="al=i,ce" password="pw";'
AT_LEAST_ONCE, NONE = DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.NONE


def props(properties: dict[str, str]) -> KafkaProperties:
    return KafkaProperties(tuple(sorted(properties.items())))


def connection(properties: dict[str, str]) -> ConnectionSettings:
    return connection_settings(props(SERVERS | properties), client_id="penstock-test")


def produce(properties: dict[str, str], guarantee: DeliveryGuarantee = AT_LEAST_ONCE) -> ProduceSettings:
    return produce_settings(props(properties), guarantee)


# --- the defaults of the classes are those of the table -------------------------------------------------


def test_without_properties_the_defaults_hold() -> None:
    assert connection({}) == ConnectionSettings(("a:1", "b:2"), "penstock-test")
    assert fetch_settings(props({})) == FetchSettings()
    assert produce({}) == ProduceSettings()
    assert produce({}, NONE) == ProduceSettings(enable_idempotence=False)


def test_settings_pickle_and_hash() -> None:
    for settings in (connection({}), fetch_settings(props({})), produce({})):
        again = pickle.loads(pickle.dumps(settings))  # noqa: S301 - just made here
        assert again == settings
        assert hash(again) == hash(settings)


# --- each property arrives, unchanged, where it belongs --------------------------------------------------

CONNECTION_FIELDS = {
    "request.timeout.ms": "request_timeout_ms",
    "default.api.timeout.ms": "default_api_timeout_ms",
    "retry.backoff.ms": "retry_backoff_ms",
    "retry.backoff.max.ms": "retry_backoff_max_ms",
    "reconnect.backoff.ms": "reconnect_backoff_ms",
    "reconnect.backoff.max.ms": "reconnect_backoff_max_ms",
    "socket.connection.setup.timeout.ms": "socket_connection_setup_timeout_ms",
    "socket.connection.setup.timeout.max.ms": "socket_connection_setup_timeout_max_ms",
    "connections.max.idle.ms": "connections_max_idle_ms",
    "metadata.max.age.ms": "metadata_max_age_ms",
    "send.buffer.bytes": "send_buffer_bytes",
    "receive.buffer.bytes": "receive_buffer_bytes",
}
FETCH_FIELDS = {
    "max.partition.fetch.bytes": "max_partition_fetch_bytes",
    "fetch.max.bytes": "fetch_max_bytes",
    "fetch.max.wait.ms": "fetch_max_wait_ms",
    "request.timeout.ms": "request_timeout_ms",
    "default.api.timeout.ms": "default_api_timeout_ms",
}
PRODUCE_FIELDS = {
    "batch.size": "batch_size_bytes",
    "linger.ms": "linger_ms",
    "max.request.size": "max_request_size_bytes",
    "max.in.flight.requests.per.connection": "max_in_flight",
    "request.timeout.ms": "request_timeout_ms",
    "delivery.timeout.ms": "delivery_timeout_ms",
    "retry.backoff.ms": "retry_backoff_ms",
    "retry.backoff.max.ms": "retry_backoff_max_ms",
    "max.block.ms": "max_block_ms",
    "buffer.memory": "buffer_memory_bytes",
}


def numbers(fields: dict[str, str]) -> st.SearchStrategy[dict[str, int]]:
    return st.fixed_dictionaries({}, optional={name: st.integers(1, 2**31 - 1) for name in fields})


def text_of(given_numbers: dict[str, int]) -> dict[str, str]:
    return {name: str(number) for name, number in given_numbers.items()}


@given(numbers(CONNECTION_FIELDS))
def test_every_number_of_a_connection_arrives(given_numbers: dict[str, int]) -> None:
    settings = connection(text_of(given_numbers))
    rest: dict[str, Any] = {CONNECTION_FIELDS[name]: number for name, number in given_numbers.items()}
    assert settings == dataclasses.replace(connection({}), **rest)


@given(numbers(FETCH_FIELDS))
def test_every_number_of_a_fetch_arrives(given_numbers: dict[str, int]) -> None:
    settings = fetch_settings(props(text_of(given_numbers)))
    rest: dict[str, Any] = {FETCH_FIELDS[name]: number for name, number in given_numbers.items()}
    assert settings == dataclasses.replace(FetchSettings(), **rest)


@given(numbers(PRODUCE_FIELDS))
def test_every_number_of_a_produce_arrives(given_numbers: dict[str, int]) -> None:
    text = text_of(given_numbers) | {"enable.idempotence": "false"}
    linger_ms, request_timeout_ms = (
        given_numbers.get("linger.ms", 20),
        given_numbers.get("request.timeout.ms", 30_000),
    )
    room_ms = linger_ms + request_timeout_ms
    if given_numbers.get("delivery.timeout.ms", room_ms) < room_ms:
        with pytest.raises(OptionError, match=r"'delivery.timeout.ms' cannot be"):
            produce(text)
        return
    rest: dict[str, Any] = {PRODUCE_FIELDS[name]: number for name, number in given_numbers.items()}
    rest.setdefault("delivery_timeout_ms", max(120_000, room_ms))
    assert produce(text) == dataclasses.replace(ProduceSettings(), enable_idempotence=False, **rest)


def test_sizes_of_zero_are_the_least_that_there_can_be() -> None:
    settings = produce({"batch.size": "0", "max.request.size": "0"})
    assert (settings.batch_size_bytes, settings.max_request_size_bytes) == (1, 1)


def test_words_and_switches_arrive() -> None:
    settings = fetch_settings(props({"check.crcs": "false", "client.rack": "rack-1"}))
    assert (settings.check_crcs, settings.client_rack) == (False, "rack-1")
    settings_c = connection(
        {"client.id": "mine", "client.dns.lookup": "resolve_canonical_bootstrap_servers_only"}
    )
    assert settings_c.client_id == "mine"
    assert settings_c.client_dns_lookup == "resolve_canonical_bootstrap_servers_only"


@pytest.mark.parametrize(
    ("properties", "compression"),
    [
        ({}, ("none", None)),
        ({"compression.type": "Snappy"}, ("snappy", None)),
        ({"compression.type": "gzip"}, ("gzip", -1)),
        ({"compression.type": "gzip", "compression.gzip.level": "9"}, ("gzip", 9)),
        ({"compression.type": "gzip", "compression.gzip.level": "-1"}, ("gzip", -1)),
        ({"compression.type": "lz4", "compression.lz4.level": "17"}, ("lz4", 17)),
        ({"compression.type": "zstd", "compression.zstd.level": "-131072"}, ("zstd", -131_072)),
        ({"compression.type": "zstd", "compression.gzip.level": "9"}, ("zstd", 3)),
    ],
)
def test_compression(properties: dict[str, str], compression: tuple[str, int | None]) -> None:
    settings = produce(properties)
    assert (settings.compression_type, settings.compression_level) == compression


# --- contradictions -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("properties", "guarantee", "what"),
    [
        ({"acks": "1"}, AT_LEAST_ONCE, "'acks' = '1' contradicts the delivery guarantee at-least-once"),
        ({"acks": "0"}, AT_LEAST_ONCE, "'acks' = '0' contradicts the delivery guarantee at-least-once"),
        ({"acks": "1"}, DeliveryGuarantee.EXACTLY_ONCE, "contradicts the delivery guarantee exactly-once"),
        ({"enable.idempotence": "false"}, DeliveryGuarantee.EXACTLY_ONCE,
         "'enable.idempotence' = 'false' contradicts the delivery guarantee exactly-once"),
        ({"enable.idempotence": "true", "acks": "1"}, NONE, "'acks' = '1' contradicts an idempotent"),
        ({"max.in.flight.requests.per.connection": "6"}, AT_LEAST_ONCE,
         "'max.in.flight.requests.per.connection' = '6' contradicts an idempotent producer"),
        ({"enable.idempotence": "true", "retries": "0"}, AT_LEAST_ONCE, "'retries' = '0' contradicts"),
        ({"delivery.timeout.ms": "100"}, AT_LEAST_ONCE,
         "it must be at least 'linger.ms' + 'request.timeout.ms' = 20 + 30000"),
    ],
)  # fmt: skip
def test_contradictions_are_refused(
    properties: dict[str, str], guarantee: DeliveryGuarantee, what: str
) -> None:
    with pytest.raises(OptionError) as caught:
        produce(properties, guarantee)
    assert what in str(caught.value)


def test_without_a_guarantee_acks_and_flight_are_free() -> None:
    settings = produce({"acks": "0", "max.in.flight.requests.per.connection": "50"}, NONE)
    assert (settings.acks, settings.max_in_flight, settings.enable_idempotence) == (0, 50, False)
    assert produce({"acks": "all", "enable.idempotence": "true"}, NONE).enable_idempotence
    assert not produce({"enable.idempotence": "false"}).enable_idempotence


def test_the_default_delivery_time_out_makes_room_for_a_request() -> None:
    assert produce({"request.timeout.ms": "300000"}).delivery_timeout_ms == 300_020


def test_no_bootstrap_servers() -> None:
    with pytest.raises(MissingOptionError, match=r"'bootstrap.servers' is required"):
        connection_settings(props({}), client_id="x")


# --- SASL -------------------------------------------------------------------------------------------------


def sasl(mechanism: str | None, jaas: str | None, protocol: str = "SASL_PLAINTEXT") -> dict[str, str]:
    given_ = {"security.protocol": protocol, "sasl.mechanism": mechanism, "sasl.jaas.config": jaas}
    return {name: text for name, text in given_.items() if text is not None}


def test_plain() -> None:
    kwargs = connection(sasl("plain", PLAIN)).kafka_python_kwargs()
    assert {name: kwargs[name] for name in kwargs if name.startswith(("sasl", "sec"))} == {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "al=i,ce",
        "sasl_plain_password": "pw",  # the test's own
    }


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_writes_the_signs_of_its_own_grammar_as_it_must(mechanism: str) -> None:
    kwargs = connection(sasl(mechanism, SCRAM)).kafka_python_kwargs()
    assert kwargs["sasl_mechanism"] == mechanism
    assert kwargs["sasl_plain_username"] == "al=3Di=2Cce"
    assert kwargs["sasl_plain_password"] == "pw"  # noqa: S105 - the test's own


def test_a_shaded_login_module_is_known_too() -> None:
    shaded = f"org.apache.flink.kafka.shaded.{PLAIN}"
    assert connection(sasl("PLAIN", shaded)).security.sasl == connection(sasl("PLAIN", PLAIN)).security.sasl


@pytest.mark.parametrize(
    ("properties", "kind", "what"),
    [
        (sasl(None, PLAIN), MissingOptionError, "'sasl.mechanism' is required with 'security.pro"),
        (sasl("GSSAPI", PLAIN), OptionError, "has to name Krb5LoginModule"),
        (sasl("OAUTHBEARER", PLAIN), OptionError, "has to name OAuthBearerLoginModule"),
        (sasl("PLAIN", None), MissingOptionError, "'sasl.jaas.config' is required with 'sasl.mech"),
        (sasl("PLAIN", SCRAM), OptionError, "but 'sasl.mechanism' = 'PLAIN' needs PlainLoginModule"),
        (sasl("SCRAM-SHA-256", PLAIN), OptionError, "names PlainLoginModule, but"),
        (sasl("PLAIN", 'a.PlainLoginModule required username="alice";'), OptionError, "has no password"),
        (sasl("PLAIN", 'a.PlainLoginModule required password="pw";'), OptionError, "has no username"),
        (sasl("PLAIN", "a.Krb5LoginModule required;"), UnsupportedOptionError,
         "PlainLoginModule, ScramLoginModule"),
        (sasl("PLAIN", PLAIN.replace(";", ' tokenauth="true";')), OptionError, "needs SCRAM-SHA-256 or"),
    ],
)  # fmt: skip
def test_logins_that_cannot_work_are_refused(
    properties: dict[str, str], kind: type[OptionError], what: str
) -> None:
    with pytest.raises(kind) as caught:
        connection(properties)
    assert what in str(caught.value)


def test_a_login_that_is_not_used_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    assert connection(sasl("PLAIN", PLAIN, "PLAINTEXT")).security.sasl is None
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "'sasl.jaas.config' is not used, because 'security.protocol' is 'PLAINTEXT'" in record.getMessage()


@given(st.text(min_size=8), st.sampled_from(["PLAIN", "SCRAM-SHA-512"]))
def test_no_secret_in_repr_or_error(secret: str, mechanism: str) -> None:
    secret = f"<{secret}>"
    quoted = secret.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    for module in ("PlainLoginModule", "ScramLoginModule", "OtherLoginModule"):
        for rest in ('username="u"', ""):
            properties = sasl(mechanism, f'a.{module} required {rest} password="{quoted}";')
            assert secret not in repr(props(properties))
            assert secret not in shown(properties)


def shown(properties: dict[str, str]) -> str:
    """All that can be seen of a login that was given."""
    try:
        settings = connection(properties)
    except OptionError as error:
        return f"{error} {error!r} {error.facts} {pickle.dumps(error)!r}"
    return f"{settings} {settings!r}"


# --- kafka-python's side ----------------------------------------------------------------------------------


def test_kafka_python_knows_every_keyword() -> None:
    for properties in ({}, sasl("PLAIN", PLAIN, "SASL_SSL")):
        assert set(connection(properties).kafka_python_kwargs()) <= set(KafkaConnectionManager.DEFAULT_CONFIG)


def test_a_connection_in_kafka_pythons_terms() -> None:
    kwargs = connection({"client.id": "mine", "reconnect.backoff.ms": "7"}).kafka_python_kwargs()
    assert kwargs["bootstrap_servers"] == ["a:1", "b:2"]
    assert kwargs["client_id"] == "mine"
    assert kwargs["client_software_name"] == "penstock"
    assert kwargs["reconnect_backoff_ms"] == 7
    assert kwargs["reconnect_backoff_max_ms"] == 1_000
    assert kwargs["security_protocol"] == "PLAINTEXT"
    assert "ssl_context" not in kwargs


def test_tls_is_a_context_of_ours() -> None:
    kwargs = connection({"security.protocol": "ssl"}).kafka_python_kwargs()
    assert kwargs["security_protocol"] == "SSL"
    assert isinstance(kwargs["ssl_context"], ssl.SSLContext)


def test_buffers_are_socket_options() -> None:
    kwargs = connection({"send.buffer.bytes": "1000", "receive.buffer.bytes": "2000"}).kafka_python_kwargs()
    assert (socket.SOL_SOCKET, socket.SO_SNDBUF, 1000) in kwargs["socket_options"]
    assert (socket.SOL_SOCKET, socket.SO_RCVBUF, 2000) in kwargs["socket_options"]
    assert (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1) in connection({}).kafka_python_kwargs()[
        "socket_options"
    ]
    assert not any(o[1] == socket.SO_SNDBUF for o in connection({}).kafka_python_kwargs()["socket_options"])


def test_an_answer_may_be_as_long_as_was_asked_for() -> None:
    assert connection({}).max_response_bytes == 256 << 20
    asked = 2**30
    assert connection({"fetch.max.bytes": str(asked)}).max_response_bytes > asked


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda p: connection_settings(p, client_id="x"), "metadata.max.age.ms"),
        (fetch_settings, "fetch.max.bytes"),
        (lambda p: produce_settings(p, AT_LEAST_ONCE), "batch.size"),
    ],
)
def test_settings_check_values_by_themselves(make: Callable[[KafkaProperties], object], name: str) -> None:
    with pytest.raises(OptionError, match=rf"Option '{name}' cannot be 'many'. Allowed: a whole number"):
        make(props(SERVERS | {name: "many"}))
