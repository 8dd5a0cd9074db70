"""The options that every `*-confluent` format has: where the Schema Registry is, who asks, and subjects.

Runs on the driver. Invariant: the same options under each format's name, with Flink's spelling.
"""

from __future__ import annotations

from typing import Any

from penstock.errors import OptionError
from penstock.formats.format_options import VERBATIM, FormatOptions, flag_option, format_option
from penstock.formats.schema_registry.client import RegistrySettings
from penstock.options.declare import Option
from penstock.options.values import SECRET, TEXT, ValueType, choice


def parse_urls(text: str) -> tuple[str, ...]:
    """Split URLs at commas."""
    urls = tuple(url.strip() for url in text.split(",") if url.strip())
    if not urls or not all(url.startswith(("http://", "https://")) for url in urls):
        raise ValueError("URLs that begin with http:// or https://, separated by commas")
    return urls


URLS = ValueType("secret", "URLs separated by commas", parse_urls)
PEM = "a file in PEM; convert a JKS or PKCS12 store first (`keytool`, `openssl pkcs12`)"


def _pem_file(text: str) -> str:
    name = text.strip()
    if name.lower().endswith((".jks", ".p12", ".pfx")):
        raise ValueError(PEM)
    return name


PEM_FILE = ValueType("file", "a file in PEM", _pem_file)


class RegistryOptions:
    """Declares and reads the options of one format."""

    def __init__(self, name: str) -> None:
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
        self.truststore = format_option(
            f"{name}.ssl.truststore.location", PEM_FILE, f"Authorities to trust: {PEM}."
        )
        self.keystore = format_option(
            f"{name}.ssl.keystore.location", PEM_FILE, f"The client's certificate and key: {PEM}."
        )
        self.keystore_password = format_option(
            f"{name}.ssl.keystore.password", SECRET, "Password of that key, where it is encrypted."
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
        return tuple(vars(self).values())

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
            ca_file=given.value(self.truststore),
            certificate_file=given.value(self.keystore),
            key_password=given.value(self.keystore_password),
        )

    def subject_of(self, given: FormatOptions, topic: str | None) -> str | None:
        """Return the subject to write under: the option's, else one made from the table's one topic."""
        subject = given.value(self.subject)
        if subject is not None or topic is None:
            return subject
        return f"{topic}-key" if given.prefix == "key." else f"{topic}-value"
