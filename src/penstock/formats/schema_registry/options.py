"""The options that every `*-confluent` format has: where the Schema Registry is, who asks, and subjects.

Runs on the driver. Invariant: the same options under each format's name, with Flink's spelling.
"""

from __future__ import annotations

from typing import Any

from penstock.errors import OptionError
from penstock.formats.format_options import VERBATIM, FormatOptions, flag_option, format_option
from penstock.formats.schema_registry.client import RegistrySettings
from penstock.options.config import KafkaProperties
from penstock.options.declare import Option
from penstock.options.values import SECRET, TEXT, ValueType, choice, integer
from penstock.security.oauth import TokenEndpoint


def parse_urls(text: str) -> tuple[str, ...]:
    """Split URLs at commas."""
    urls = tuple(url.strip() for url in text.split(",") if url.strip())
    if not urls or not all(url.startswith(("http://", "https://", "${")) for url in urls):
        raise ValueError("URLs that begin with http:// or https://, separated by commas")
    return urls


URLS = ValueType("secret", "URLs separated by commas", parse_urls)
_STORE = "in JKS, PKCS12 or PEM"


class RegistryOptions:
    """Declares and reads the options of one format."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._declare_server_and_schemas(name)
        self._declare_logins(name)
        self._declare_token_endpoint(f"{name}.properties.bearer.auth.")

    def _declare_server_and_schemas(self, name: str) -> None:
        def text(key: str, doc: str) -> Option[str]:
            return format_option(f"{name}.{key}", TEXT, doc)

        self.url = format_option(
            f"{name}.url", URLS, "Required: URLs of the Schema Registry, which may hold user and password."
        )
        self.subject = text("subject", "Subject for writing; default `<topic>-key` or `<topic>-value`.")
        self.schema = format_option(
            f"{name}.schema", VERBATIM, "Schema to write; default made from the columns."
        )
        self.auto_register = flag_option(
            f"{name}.auto.register.schemas",
            "Registers the schema to write if the registry does not have it. With `false` it has to be "
            "registered already.",
            default=True,
        )
        self.truststore = text("ssl.truststore.location", f"File of the authorities to trust, {_STORE}.")
        self.truststore_password = format_option(
            f"{name}.ssl.truststore.password", SECRET, "Password of a trust store in JKS or PKCS12."
        )
        self.keystore = text("ssl.keystore.location", f"File of the client's certificate and key, {_STORE}.")
        self.keystore_password = format_option(
            f"{name}.ssl.keystore.password",
            SECRET,
            "Password of the key store, or of an encrypted key in PEM.",
        )

    def _declare_logins(self, name: str) -> None:
        self.basic_source = format_option(
            f"{name}.basic-auth.credentials-source",
            choice("URL", "USER_INFO"),
            "Where user and password are: in the URL, or in `basic-auth.user-info`.",
            default="URL",
        )
        self.user_info = format_option(f"{name}.basic-auth.user-info", SECRET, "`user:password`.")
        self.bearer_source = format_option(
            f"{name}.bearer-auth.credentials-source",
            choice("STATIC_TOKEN", "OAUTHBEARER"),
            "Where the token is: in `bearer-auth.token`, or at a token endpoint.",
        )
        self.bearer_token = format_option(f"{name}.bearer-auth.token", SECRET, "The token.")

    def _declare_token_endpoint(self, bearer: str) -> None:
        """Declare Confluent's own names, which Flink's `properties` passes on."""

        def text(key: str, doc: str) -> Option[str]:
            return format_option(f"{bearer}{key}", TEXT, doc)

        self.oauth_source = format_option(
            f"{bearer}credentials.source",
            choice("OAUTHBEARER"),
            "Confluent's name of `bearer-auth.credentials-source`.",
        )
        self.issuer = text("issuer.endpoint.url", "The token endpoint (client credentials).")
        self.client_id = text("client.id", "The client's id.")
        self.client_secret = format_option(f"{bearer}client.secret", SECRET, "The client's secret.")
        self.scope = text("scope", "The scope to ask for.")
        self.logical_cluster = text("logical.cluster", "Confluent Cloud: the logical cluster (`lsrc-...`).")
        self.identity_pool = text("identity.pool.id", "Confluent Cloud: the identity pool (`pool-...`).")
        self.expiry_buffer = format_option(
            f"{bearer}cache.expiry.buffer.seconds",
            integer(0, 86_400),
            "A token is renewed this long before its end, but not within the first half of its lifetime.",
            default=300,
        )

    def all(self) -> tuple[Option[Any], ...]:
        return tuple(each for each in vars(self).values() if isinstance(each, Option))

    def settings(self, given: FormatOptions) -> RegistrySettings:
        """Read the settings of the registry.

        Raises:
            OptionError: a value is not allowed.
            MissingOptionError: no URL.
        """
        if given.value(self.basic_source) == "USER_INFO" and given.value(self.user_info) is None:
            key = given.spelled(self.user_info)
            raise OptionError(f"Option '{given.spelled(self.basic_source)}' needs '{key}'.", option=key)
        headers = {
            "target-sr-cluster": given.value(self.logical_cluster),
            "Confluent-Identity-Pool-Id": given.value(self.identity_pool),
        }
        return RegistrySettings(
            urls=given.required(self.url),
            user_info=given.value(self.user_info),
            bearer_token=given.value(self.bearer_token),
            tls=self._tls(given),
            token_endpoint=self._token_endpoint(given),
            token_buffer_s=given.value_or_default(self.expiry_buffer),
            headers=tuple((name, text) for name, text in headers.items() if text is not None),
        )

    def _token_endpoint(self, given: FormatOptions) -> TokenEndpoint | None:
        sources = given.value(self.bearer_source), given.value(self.oauth_source)
        if "OAUTHBEARER" not in sources:
            return None
        if sources[0] == "STATIC_TOKEN" or given.value(self.bearer_token) is not None:
            key = given.spelled(self.bearer_token)
            raise OptionError(
                f"Option '{key}' is not used with OAUTHBEARER, which gets tokens from an endpoint. Remove "
                f"it, or set '{given.spelled(self.bearer_source)}' to STATIC_TOKEN.",
                option=key,
            )
        return TokenEndpoint(
            url=given.required(self.issuer),
            client_id=given.required(self.client_id),
            client_secret=given.required(self.client_secret),
            scope=given.value(self.scope),
            tls=self._tls(given),
            check=f"'{given.prefix}{self._name}.properties.bearer.auth.*'",
        )

    def _tls(self, given: FormatOptions) -> KafkaProperties:
        """Return `ssl.*` under the names that Kafka's properties have."""
        options = (self.truststore, self.truststore_password, self.keystore, self.keystore_password)
        prefix = f"{self._name}."
        found = {option.key.removeprefix(prefix): given.value(option) for option in options}
        items = tuple(sorted((key, text) for key, text in found.items() if text is not None))
        return KafkaProperties(items, given.prefix + prefix)

    def subject_of(self, given: FormatOptions, topic: str | None) -> str | None:
        """Return the subject to write under: the option's, else one made from the table's one topic."""
        subject = given.value(self.subject)
        if subject is not None or topic is None:
            return subject
        return f"{topic}-key" if given.prefix == "key." else f"{topic}-value"
