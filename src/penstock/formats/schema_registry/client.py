"""A client of the Confluent Schema Registry's REST API: schemas by id, and ids by subject.

Runs on driver and executors; one cache per process and registry. Invariant: an answer is bounded in time
and size, a schema is asked for once, and credentials are in no message, log or repr.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import threading
import time
import urllib.parse
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from penstock.errors import OptionError, SchemaRegistryError
from penstock.options.config import KafkaProperties
from penstock.security.http import http_request, safe_url
from penstock.security.oauth import TokenEndpoint
from penstock.security.references import resolved, resolved_text
from penstock.security.tls import tls_settings
from penstock.security.tokens import RegistryTokens, with_secret

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
UNKNOWN_ID_SECONDS = 30.0
"""How long an id that the registry does not know is not asked for again."""

_SERVER_ERROR = 500
_NOT_FOUND = 404
_SUBJECT_NOT_FOUND = 40401
_SCHEMA_NOT_FOUND = 40403
_NO_SUCH_VERSION = (_SUBJECT_NOT_FOUND, 40402)
_ATTEMPTS = 3


@dataclass(frozen=True)
class RegistrySettings:
    """Where the registry is and who asks. Hashable: it is the key of the process's cache.

    `tls` holds `ssl.*` under the names of Kafka's properties. The process that asks opens the stores.
    """

    urls: tuple[str, ...]
    user_info: str | None = field(default=None, repr=False)
    bearer_token: str | None = field(default=None, repr=False)
    tls: KafkaProperties = field(default_factory=KafkaProperties)
    timeout_ms: int = 10_000
    token_endpoint: TokenEndpoint | None = None
    token_buffer_s: int = 300
    headers: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return f"RegistrySettings({', '.join(safe_url(url) for url in self.urls)})"


@dataclass(frozen=True)
class Reference:
    """Another schema that a schema imports under a name."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True)
class RegisteredSchema:
    """A schema as the registry has it."""

    schema_id: int
    text: str
    schema_type: str = "AVRO"
    references: tuple[Reference, ...] = ()


class SchemaRegistry:
    """Schemas of one registry, cached. Thread-safe."""

    def __init__(self, settings: RegistrySettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = _resolved(settings)
        endpoint = self._settings.token_endpoint
        self._tokens = None if endpoint is None else RegistryTokens(endpoint, self._settings.token_buffer_s)
        self._clock = clock
        self._lock = threading.Lock()
        self._schemas: dict[tuple[int, str], RegisteredSchema] = {}
        self._referenced: dict[tuple[Reference, str], RegisteredSchema] = {}
        self._unknown_until: dict[int, float] = {}
        self._ids: dict[tuple[object, ...], int] = {}

    def schema(self, schema_id: int, form: str = "") -> RegisteredSchema | None:
        """Return the schema of an id, None where the registry has none.

        Args:
            schema_id: The id.
            form: "serialized" for Protobuf's schemas in binary (base64), else as text.

        Raises:
            SchemaRegistryError: the registry cannot be reached, or refuses.
        """
        with self._lock:
            if (schema_id, form) in self._schemas:
                return self._schemas[schema_id, form]
            if self._unknown_until.get(schema_id, 0) > self._clock():
                return None
            path = f"/schemas/ids/{schema_id}" + (f"?format={form}" if form else "")
            status, answer = self._call("GET", path, None)
            if status == _NOT_FOUND and answer.get("error_code") == _SCHEMA_NOT_FOUND:
                self._unknown_until[schema_id] = self._clock() + UNKNOWN_ID_SECONDS
                return None
            found = self._registered(schema_id, path, status, answer)
            self._schemas[schema_id, form] = found
            return found

    def referenced(self, reference: Reference, form: str = "") -> RegisteredSchema:
        """Return the schema that another one imports.

        Raises:
            SchemaRegistryError: the registry cannot be reached, or does not have it.
        """
        with self._lock:
            if (reference, form) not in self._referenced:
                name = urllib.parse.quote(reference.subject, safe="")
                path = f"/subjects/{name}/versions/{reference.version}" + (f"?format={form}" if form else "")
                status, answer = self._call("GET", path, None)
                if status == _NOT_FOUND and answer.get("error_code") in _NO_SUCH_VERSION:
                    raise _not_registered(reference)
                found = self._registered(int(answer.get("id", -1)), path, status, answer)
                self._referenced[reference, form] = found
            return self._referenced[reference, form]

    def _registered(self, schema_id: int, path: str, status: int, answer: dict[str, Any]) -> RegisteredSchema:
        if "schema" not in answer:
            raise self._no_registry(path, status)
        references = tuple(
            Reference(str(one["name"]), str(one["subject"]), int(one["version"]))
            for one in answer.get("references") or ()
        )
        schema_type = str(answer.get("schemaType", "AVRO"))
        return RegisteredSchema(schema_id, str(answer["schema"]), schema_type, references)

    def is_cached(self, schema_id: int, form: str = "") -> bool:
        """Whether `schema` answers without asking the registry."""
        is_unknown = self._unknown_until.get(schema_id, 0) > self._clock()
        return (schema_id, form) in self._schemas or is_unknown

    def schema_id(
        self,
        subject: str,
        text: str,
        schema_type: str = "AVRO",
        references: tuple[Reference, ...] = (),
        *,
        registers: bool,
    ) -> int:
        """Return the id of a schema under a subject.

        Args:
            subject: The subject.
            text: The schema.
            schema_type: AVRO, JSON or PROTOBUF.
            references: What it imports.
            registers: Whether a schema that the subject does not have is registered; else it is an error.

        Raises:
            SchemaRegistryError: the registry cannot be reached, or does not have or take the schema.
        """
        key = ("id", subject, text, schema_type, references)
        return self._asked(key, "id", _body(text, schema_type, references), registers=registers)

    def version(
        self, subject: str, text: str, schema_type: str, references: tuple[Reference, ...] = ()
    ) -> int:
        """Return the version that a registered schema has under a subject, for those that import it.

        Raises:
            SchemaRegistryError: the registry cannot be reached, or does not have the schema.
        """
        key = ("version", subject, text, schema_type, references)
        return self._asked(key, "version", _body(text, schema_type, references), registers=False)

    def _asked(self, key: tuple[object, ...], wanted: str, body: dict[str, Any], *, registers: bool) -> int:
        subject = str(key[1])
        with self._lock:
            if key not in self._ids:
                name = urllib.parse.quote(subject, safe="")
                path = f"/subjects/{name}/versions" if registers else f"/subjects/{name}"
                status, answer = self._call("POST", path, body)
                if status == _NOT_FOUND and answer.get("error_code") in (
                    _SUBJECT_NOT_FOUND,
                    _SCHEMA_NOT_FOUND,
                ):
                    raise SchemaRegistryError(
                        f"The Schema Registry has no such schema under subject '{subject}', and "
                        "'auto.register.schemas' is false. Register it, or set the option to true.",
                        subject=subject,
                    )
                if wanted not in answer:
                    raise self._no_registry(path, status)
                self._ids[key] = int(answer[wanted])
            return self._ids[key]

    def _no_registry(self, path: str, status: int) -> SchemaRegistryError:
        # Taken for "no such schema", a wrong URL would make every record a bad one.
        urls = ", ".join(safe_url(url) for url in self._settings.urls)
        return SchemaRegistryError(
            f"What answers {path} at {urls} ({status}) is not a Schema Registry. Check the format's 'url'.",
            status=status,
            path=path,
        )

    def _call(self, method: str, path: str, body: dict[str, Any] | None) -> tuple[int, dict[str, Any]]:
        """Ask the registry's servers in turn, a few times; 404 is an answer, other refusals are errors."""
        last = "no URL"
        tls = _tls(self._settings)
        settings = self._settings
        if self._tokens is not None:
            settings = replace(settings, bearer_token=self._tokens.token())
        for attempt in range(_ATTEMPTS):
            for url in self._settings.urls:
                try:
                    status, answer = _request(settings, tls, url, method, path, body)
                except (OSError, http.client.HTTPException, ValueError) as error:
                    last = f"{safe_url(url)}: {type(error).__name__}: {error}"
                    continue
                if status < _SERVER_ERROR:
                    return _accepted(url, path, status, answer)
                last = f"{safe_url(url)} answers {status}: {answer.get('message', '')}"
            time.sleep(0.1 * 2**attempt)
        raise SchemaRegistryError(
            f"The Schema Registry cannot be reached for {method} {path}: {last}. No record was decoded or "
            "written with it; the query can be started again.",
            path=path,
        )


def _not_registered(reference: Reference) -> SchemaRegistryError:
    return SchemaRegistryError(
        f"The Schema Registry has no version {reference.version} of subject '{reference.subject}', which a "
        f"schema refers to as '{reference.name}'. No record was decoded with it; register it, and start the "
        "query again.",
        subject=reference.subject,
        version=reference.version,
    )


def _body(text: str, schema_type: str, references: tuple[Reference, ...]) -> dict[str, Any]:
    body: dict[str, Any] = {"schema": text}
    if schema_type != "AVRO":
        body["schemaType"] = schema_type
    if references:
        body["references"] = [asdict(one) for one in references]
    return body


def _accepted(url: str, path: str, status: int, answer: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    if status < http.client.MULTIPLE_CHOICES or status == _NOT_FOUND:
        return status, answer
    hints = {401: " Check 'basic-auth.*' or 'bearer-auth.*'.", 403: " The user may not do that."}
    raise SchemaRegistryError(
        f"The Schema Registry at {safe_url(url)} refuses {path} with {status}: {answer.get('message', '')}."
        f"{hints.get(status, '')}",
        status=status,
        path=path,
    )


def _request(
    settings: RegistrySettings,
    tls: ssl.SSLContext | None,
    url: str,
    method: str,
    path: str,
    body: dict[str, Any] | None,
) -> tuple[int, dict[str, Any]]:
    parts = urllib.parse.urlsplit(url)
    status, answer = http_request(
        method,
        safe_url(url).rstrip("/") + path,
        headers=_headers(settings, parts),
        body=None if body is None else json.dumps(body).encode(),
        tls=tls,
        timeout_ms=settings.timeout_ms,
    )
    return status, _parsed(status, answer)


def _parsed(status: int, answer: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(answer)
    except ValueError:
        if status < http.client.MULTIPLE_CHOICES:
            raise
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _headers(settings: RegistrySettings, parts: urllib.parse.SplitResult) -> dict[str, str]:
    headers = {"Accept": CONTENT_TYPE, "Content-Type": CONTENT_TYPE, **dict(settings.headers)}
    user_info = settings.user_info
    if user_info is None and parts.username:
        user_info = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
    if user_info is not None:
        headers["Authorization"] = "Basic " + base64.b64encode(user_info.encode()).decode()
    elif settings.bearer_token is not None:
        headers["Authorization"] = "Bearer " + settings.bearer_token
    return headers


def _tls(settings: RegistrySettings) -> ssl.SSLContext | None:
    """Make the context for servers that are asked over TLS.

    Raises:
        SchemaRegistryError: a store is missing or damaged, or its password is wrong.
    """
    if not any(url.startswith("https:") for url in settings.urls):
        return None
    try:
        return tls_settings(settings.tls).ssl_context()
    except OptionError as error:
        raise SchemaRegistryError(
            f"{error.message} No record was decoded or written with the Schema Registry.", **error.facts
        ) from error


_registries: dict[RegistrySettings, SchemaRegistry] = {}
_registries_lock = threading.Lock()


def _resolved(settings: RegistrySettings) -> RegistrySettings:
    """Return the settings with the secrets that references stand for; they are never part of a plan."""

    def text(value: str | None, option: str) -> str | None:
        return None if value is None else resolved_text(value, settings.tls.spelled(option))

    endpoint = settings.token_endpoint
    if endpoint is not None:
        key = settings.tls.spelled("properties.bearer.auth")
        endpoint = with_secret(endpoint, lambda given: resolved_text(given, key))
    return replace(
        settings,
        urls=tuple(resolved_text(url, settings.tls.spelled("url")) for url in settings.urls),
        user_info=text(settings.user_info, "basic-auth.user-info"),
        bearer_token=text(settings.bearer_token, "bearer-auth.token"),
        tls=resolved(settings.tls),
        token_endpoint=endpoint,
    )


def registry_for(settings: RegistrySettings) -> SchemaRegistry:
    """Return the process's registry for these settings, with its cache."""
    with _registries_lock:
        return _registries.setdefault(settings, SchemaRegistry(settings))
