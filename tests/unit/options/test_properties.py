"""Kafka's properties as the options carry them: the table, the checks, and no secret in any message."""

from __future__ import annotations

import logging
import pickle

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.errors import OptionError, UnsupportedOptionError
from penstock.options._recognise import check_properties
from penstock.options.config import KafkaProperties
from penstock.options.declare import Dialect, parse_value
from penstock.options.option_names import worded
from penstock.options.properties import GROUPS, PROPERTIES, ClientRole, Handling, Property, property_value

SECRETS = [name for name, declared in PROPERTIES.items() if declared.is_secret]


def check(
    name: str, text: str, *, dialect: Dialect = Dialect.FLINK, role: ClientRole = ClientRole.CONSUMER
) -> KafkaProperties:
    return check_properties({name: text}, dialect=dialect, role=role)


def test_each_property_is_declared_once() -> None:
    assert len(PROPERTIES) == sum(len(group) for group in GROUPS.values())


@pytest.mark.parametrize("declared", PROPERTIES.values(), ids=lambda declared: declared.name)
def test_a_declaration_is_whole(declared: Property) -> None:
    assert declared.doc.endswith(".")
    if declared.default is not None:
        # The default is a value a user may write.
        text = declared.type.render(declared.default)
        check(declared.name, text, role=declared.role)
        assert declared.type.parse(text) == declared.default
    for value, instead in declared.unsupported_values.items():
        assert value == value.lower()
        assert not instead.endswith(".")
        parse_value(declared.type, value, declared.name)


@pytest.mark.parametrize(
    "name", [name for name, declared in PROPERTIES.items() if declared.handling is Handling.UNSUPPORTED]
)
def test_an_unsupported_property_says_what_to_do(name: str) -> None:
    declared = PROPERTIES[name]
    role = ClientRole.CONSUMER if declared.role is ClientRole.ADMIN else declared.role
    with pytest.raises(UnsupportedOptionError) as caught:
        check(name, "x", role=role)
    doc = worded(declared.doc, Dialect.FLINK)
    assert str(caught.value) == f"Option 'properties.{name}' is not supported. {doc}"


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, declared in PROPERTIES.items() for value in declared.unsupported_values],
)
def test_an_unsupported_value_says_what_to_do(name: str, value: str) -> None:
    declared = PROPERTIES[name]
    with pytest.raises(UnsupportedOptionError) as caught:
        check(name, f" {value.upper()} ", role=declared.role)
    instead = worded(declared.unsupported_values[value], Dialect.FLINK)
    assert str(caught.value) == f"Option 'properties.{name}' cannot be '{value.upper()}': {instead}."


@pytest.mark.parametrize("role", [ClientRole.CONSUMER, ClientRole.PRODUCER])
@pytest.mark.parametrize(
    "name",
    ["auto.offset.reset", "enable.auto.commit", "key.deserializer", "value.deserializer",
     "key.serializer", "value.serializer", "interceptor.classes"],
)  # fmt: skip
def test_what_spark_refuses_is_refused_in_its_dialect(name: str, role: ClientRole) -> None:
    declared = PROPERTIES[name]
    if declared.role not in (role, ClientRole.COMMON):
        assert check(name, "false", dialect=Dialect.SPARK, role=role) == KafkaProperties()
        return
    with pytest.raises(UnsupportedOptionError, match=rf"^Option 'kafka.{name}' (cannot be set|is not supp)"):
        check(name, "false", dialect=Dialect.SPARK, role=role)


def test_flinks_dialect_takes_what_changes_nothing() -> None:
    serialization = "org.apache.kafka.common.serialization"
    assert check("enable.auto.commit", "false").items
    assert check("key.deserializer", f"{serialization}.ByteArrayDeserializer").items
    assert check("value.serializer", f"{serialization}.ByteArraySerializer", role=ClientRole.PRODUCER).items
    with pytest.raises(OptionError, match=r"StringDeserializer'. Allowed: one of .*ByteArrayDeserializer"):
        check("value.deserializer", f"{serialization}.StringDeserializer")


def test_an_unknown_property_is_left_out_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert check("my.acks", "hunter2") == KafkaProperties()
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage() == (
        "Option 'properties.my.acks' is not known. Did you mean 'properties.acks'? It is ignored."
    )


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_in_no_message(name: str, caplog: pytest.LogCaptureFixture) -> None:
    texts = [shown(name, "correct-horse", dialect) for dialect in (Dialect.FLINK, Dialect.SPARK)]
    texts += [record.getMessage() for record in caplog.records]
    assert not any("correct-horse" in text for text in texts)


def shown(name: str, text: str, dialect: Dialect) -> str:
    """All that can be seen of a property that was given."""
    try:
        return repr(check(name, text, dialect=dialect))
    except OptionError as error:
        return f"{error} {error!r} {error.facts} {pickle.dumps(error)!r}"


def test_the_secrets_are_those_that_kafka_calls_passwords() -> None:
    kafkas = {
        "sasl.jaas.config",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.client.credentials.client.secret",
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.password",
        "ssl.truststore.certificates",
        "ssl.truststore.password",
    }
    assert kafkas <= set(SECRETS)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(PROPERTIES)), st.text(min_size=1))
def test_any_value_is_taken_as_it_is_or_refused(name: str, text: str) -> None:
    for role in (ClientRole.CONSUMER, ClientRole.PRODUCER):
        kept = kept_or_message(name, text, role)
        if isinstance(kept, str):
            assert f"'properties.{name}'" in kept
        elif PROPERTIES[name].role in (role, ClientRole.COMMON, ClientRole.ADMIN):
            # Word for word, and its value can be read.
            assert kept.items == ((name, text),)
            property_value(kept, name)
        else:
            assert kept.items == ()


def kept_or_message(name: str, text: str, role: ClientRole) -> KafkaProperties | str:
    try:
        return check(name, text, role=role)
    except OptionError as error:
        return str(error)


@pytest.mark.parametrize(
    ("text", "servers"),
    [
        ("a:1", ("a:1",)),
        ("a:1, b:65535,", ("a:1", "b:65535")),
        ("a:1,a:1", ("a:1",)),
        ("PLAINTEXT://a.example:9092", ("a.example:9092",)),
        ("[::1]:9092,127.0.0.1:9093", ("[::1]:9092", "127.0.0.1:9093")),
    ],
)
def test_bootstrap_servers(text: str, servers: tuple[str, ...]) -> None:
    assert property_value(KafkaProperties((("bootstrap.servers", text),)), "bootstrap.servers") == servers


@pytest.mark.parametrize(
    "text", ["", ",", "a", "a:", ":9092", "a:0", "a:65536", "a:1 b:2", "a:1;b:2", "::1:9092"]
)
def test_what_are_no_bootstrap_servers(text: str) -> None:
    with pytest.raises(OptionError, match=r"Option 'bootstrap.servers' cannot be .* Allowed: .*host:port"):
        property_value(KafkaProperties((("bootstrap.servers", text),)), "bootstrap.servers")
