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
from penstock.options.values import SECRET, TEXT, ValueType, choice


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
            "Registers the schema to write if need be; otherwise it has to be registered already.",
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
        self.basic_source = format_option(
            f"{name}.basic-auth.credentials-source",
            choice("URL", "USER_INFO"),
            "Where user and password are: in the URL, or in `basic-auth.user-info`.",
            default="URL",
        )
        self.user_info = format_option(f"{name}.basic-auth.user-info", SECRET, "`user:password`.")
        self.bearer_source = format_option(
            f"{name}.bearer-auth.credentials-source", choice("STATIC_TOKEN"), "Where the token is."
        )
        self.bearer_token = format_option(f"{name}.bearer-auth.token", SECRET, "The token.")

    def all(self) -> tuple[Option[Any], ...]:
        """Every option, for parsing and for the reference page."""
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
        given.value(self.bearer_source)
        return RegistrySettings(
            urls=given.required(self.url),
            user_info=given.value(self.user_info),
            bearer_token=given.value(self.bearer_token),
            tls=self._tls(given),
        )

    def _tls(self, given: FormatOptions) -> KafkaProperties:
        """Return `ssl.*` under the names that Kafka's properties have."""
        options = (self.truststore, self.truststore_password, self.keystore, self.keystore_password)
        place = f"{self._name}."
        found = {option.key.removeprefix(place): given.value(option) for option in options}
        items = tuple(sorted((key, text) for key, text in found.items() if text is not None))
        return KafkaProperties(items, given.prefix + place)

    def subject_of(self, given: FormatOptions, topic: str | None) -> str | None:
        """Return the subject to write under: the option's, else one made from the table's one topic."""
        subject = given.value(self.subject)
        if subject is not None or topic is None:
            return subject
        return f"{topic}-key" if given.prefix == "key." else f"{topic}-value"
