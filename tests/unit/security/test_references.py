"""Secrets by reference: looked up where they are used, and held nowhere else."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from penstock.client.settings import connection_settings
from penstock.errors import OptionError, UnsupportedOptionError
from penstock.formats.schema_registry.client import RegistrySettings, SchemaRegistry
from penstock.options._recognise import check_properties
from penstock.options.config import KafkaProperties
from penstock.options.declare import Dialect
from penstock.options.properties import ClientRole
from penstock.security.references import resolved, resolved_text
from penstock.security.settings import PasswordLogin
from tests.registry_server import running_registry

HORSE = "correct-horse"
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="{}";'


@pytest.fixture
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KAFKA_PASSWORD", HORSE)
    (tmp_path / "kafka.properties").write_text(f"# a file\npassword = {HORSE}\nempty=\n")
    (tmp_path / "password").write_text(HORSE)
    return tmp_path


def properties(**more: str) -> dict[str, str]:
    return {
        "bootstrap.servers": "b:9092",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
    } | {name.replace("_", "."): text for name, text in more.items()}


@pytest.mark.parametrize(
    "reference",
    ["${env:KAFKA_PASSWORD}", "${file:FOLDER/kafka.properties:password}", "${dir:FOLDER:password}"],
)
def test_a_password_is_known_where_it_is_used_only(secrets: Path, reference: str) -> None:
    reference = reference.replace("FOLDER", str(secrets))
    given = properties(sasl_jaas_config=JAAS.format(reference))
    checked = check_properties(given, dialect=Dialect.FLINK, role=ClientRole.CONSUMER)
    assert HORSE.encode() not in pickle.dumps(checked), "this is what Spark's plans hold"
    settings = connection_settings(checked, client_id="test")
    assert settings.security.sasl == PasswordLogin("PLAIN", "alice", HORSE)
    assert HORSE not in repr(settings)


@pytest.mark.parametrize(
    ("reference", "what"),
    [
        (
            "${env:NOT_SET}",
            "environment variable 'NOT_SET', which is not set here.*spark.executorEnv.NOT_SET",
        ),
        ("${file:FOLDER/kafka.properties:user}", "key 'user', which the properties file .* does not have"),
        ("${file:FOLDER/none.properties:user}", "none.properties' cannot be read here"),
        (
            "${file:kafka.properties}",
            "incomplete reference. It is written like this: \\$\\{file:/path:key\\}",
        ),
        ("${dir:FOLDER:../etc}", "expected the name of a file in that folder"),
        ("${dir:FOLDER:none}", "none' cannot be read here"),
    ],
)
def test_what_cannot_be_looked_up_is_an_error(secrets: Path, reference: str, what: str) -> None:
    given = properties(sasl_jaas_config=JAAS.format(reference.replace("FOLDER", str(secrets))))
    with pytest.raises(OptionError, match=what) as caught:
        connection_settings(KafkaProperties(tuple(sorted(given.items())), "kafka."), client_id="test")
    assert "'kafka.sasl.jaas.config'" in str(caught.value)
    assert HORSE not in str(caught.value)


def test_a_whole_value_and_parts_of_it(secrets: Path) -> None:
    assert resolved_text("a ${env:KAFKA_PASSWORD}, ${env:KAFKA_PASSWORD}!", "x") == f"a {HORSE}, {HORSE}!"
    assert resolved_text(f"${{file:{secrets}/kafka.properties:empty}}", "x") == ""
    assert (
        resolved_text("${vault:x} ${} ${env} $env:KAFKA_PASSWORD", "x")
        == "${vault:x} ${} ${env} $env:KAFKA_PASSWORD"
    )


def test_servers_may_be_a_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVERS", "b:1,c:2")
    checked = check_properties(
        {"bootstrap.servers": "${env:SERVERS}"}, dialect=Dialect.SPARK, role=ClientRole.CONSUMER
    )
    assert connection_settings(checked, client_id="test").bootstrap_servers == ("b:1", "c:2")


def test_other_properties_hold_no_references() -> None:
    with pytest.raises(UnsupportedOptionError, match=r"'kafka.group.id' holds a reference"):
        check_properties({"group.id": "${env:GROUP}"}, dialect=Dialect.SPARK, role=ClientRole.CONSUMER)


def test_names_of_providers_are_the_users(secrets: Path) -> None:
    given = properties(
        config_providers="secrets,Vars",
        config_providers_secrets_class="org.apache.kafka.common.config.provider.FileConfigProvider",
        config_providers_vars_class="org.apache.kafka.common.config.provider.EnvVarConfigProvider",
        sasl_jaas_config=JAAS.format(
            f"${{secrets:{secrets}/kafka.properties:password}}${{Vars:KAFKA_PASSWORD}}"
        ),
        ssl_key_password="${env:KAFKA_PASSWORD}",  # noqa: S106 - a reference
    )
    checked = resolved(check_properties(given, dialect=Dialect.FLINK, role=ClientRole.CONSUMER))
    assert checked.get("sasl.jaas.config") == JAAS.format(HORSE + HORSE)
    assert checked.get("ssl.key.password") == "${env:KAFKA_PASSWORD}", "no provider has this name"


@pytest.mark.parametrize(
    "more",
    [
        {"config_providers": "vault"},
        {"config_providers": "env", "config_providers_env_class": "com.example.VaultConfigProvider"},
        {"config_providers": "env", "config_providers_env_param_allowlist_pattern": "KAFKA_.*"},
    ],
)
def test_other_providers_are_refused(more: dict[str, str]) -> None:
    with pytest.raises(UnsupportedOptionError, match=r"^Option 'properties.config.providers"):
        check_properties(properties(**more), dialect=Dialect.FLINK, role=ClientRole.CONSUMER)


def test_the_schema_registry_looks_up_in_the_process_that_asks(secrets: Path) -> None:
    with running_registry(user_info=f"alice:{HORSE}") as registry:
        schema_id = registry.register("s", '"string"')
        settings = RegistrySettings((registry.url,), user_info="alice:${env:KAFKA_PASSWORD}")
        assert HORSE.encode() not in pickle.dumps(settings)
        assert SchemaRegistry(settings).schema(schema_id) is not None
