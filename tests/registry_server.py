"""A Schema Registry over HTTP for tests: the part of the documented REST API that clients of formats use.

A real server on a real port, so that clients are tested with sockets, headers and status codes.
"""

from __future__ import annotations

import base64
import json
import re
import ssl
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from tests.http_server import QuietHandler, serving


@dataclass
class Registry:
    """The schemas of the server, the requests that it got, and the headers of the last one."""

    url: str = ""
    user_info: str | None = None
    bearer_token: str | None = None
    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    subjects: dict[str, list[int]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    failures_to_come: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def register(self, subject: str, schema: Any, schema_type: str = "AVRO", references: Any = ()) -> int:
        """Register a schema, as POST /subjects/<subject>/versions does."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        with self.lock:
            entry: dict[str, Any] = {"schema": text} | (
                {} if schema_type == "AVRO" else {"schemaType": schema_type}
            )
            entry |= {"references": list(references)} if references else {}
            known = next((i for i, one in self.schemas.items() if one == entry), None)
            schema_id = known or len(self.schemas) + 1
            self.schemas[schema_id] = entry
            versions = self.subjects.setdefault(subject, [])
            if schema_id not in versions:
                versions.append(schema_id)
            return schema_id

    def answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Return status and JSON of a request."""
        if self.failures_to_come:
            self.failures_to_come -= 1
            return 500, {"error_code": 50001, "message": "Error in the backend datastore"}
        path, _, query = path.partition("?")
        if match := re.fullmatch(r"/schemas/ids/(\d+)", path):
            found = self.schemas.get(int(match[1]))
            missing = {"error_code": 40403, "message": "Schema not found"}
            return (200, self.shown(found, query)) if found else (404, missing)
        if match := re.fullmatch(r"/subjects/([^/]+)/versions/(\d+)", path):
            return self.version(unquote(match[1]), int(match[2]), query)
        if match := re.fullmatch(r"/subjects/([^/]+)/versions", path):
            kind = body.get("schemaType", "AVRO")
            schema_id = self.register(unquote(match[1]), body["schema"], kind, body.get("references"))
            return 200, {"id": schema_id}
        if match := re.fullmatch(r"/subjects/([^/]+)", path):
            return self.look_up(unquote(match[1]), body["schema"])
        return 404, {"error_code": 404, "message": f"HTTP 404 Not Found: {method}"}

    def version(self, subject: str, version: int, query: str) -> tuple[int, dict[str, Any]]:
        """Answer GET /subjects/<subject>/versions/<version>."""
        versions = self.subjects.get(subject, [])
        if not 0 < version <= len(versions):
            return 404, {"error_code": 40402, "message": "Version not found"}
        schema_id = versions[version - 1]
        return 200, {"id": schema_id, **self.shown(self.schemas[schema_id], query)}

    @staticmethod
    def shown(entry: dict[str, Any], query: str) -> dict[str, Any]:
        """A schema as it is given out: Protobuf's as text, unless `format=serialized` is asked for."""
        if entry.get("schemaType") != "PROTOBUF" or query == "format=serialized":
            return entry
        return {**entry, "schema": 'syntax = "proto3"; // this server cannot write it out'}

    def look_up(self, subject: str, text: str) -> tuple[int, dict[str, Any]]:
        """Answer POST /subjects/<subject>."""
        if subject not in self.subjects:
            return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
        found = [i for i in self.subjects[subject] if self.schemas[i]["schema"] == text]
        if not found:
            return 404, {"error_code": 40403, "message": "Schema not found"}
        version = self.subjects[subject].index(found[0]) + 1
        return 200, {"subject": subject, "id": found[0], "version": version, "schema": text}

    def is_allowed(self, authorization: str | None) -> bool:
        """Check the Authorization header."""
        if self.user_info is not None:
            return authorization == "Basic " + base64.b64encode(self.user_info.encode()).decode()
        return self.bearer_token is None or authorization == f"Bearer {self.bearer_token}"


@contextmanager
def running_registry(tls: ssl.SSLContext | None = None, **settings: Any) -> Iterator[Registry]:
    """Run a registry until the block ends, over TLS when given a server's context."""
    registry = Registry(**settings)
    # Clients remember schemas by URL for the life of the process, and ports are used again.
    prefix = f"/{uuid.uuid4().hex}"

    class Handler(QuietHandler):
        def handle_request(self, method: str) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else {}
            path = self.path.removeprefix(prefix)
            registry.requests.append(f"{method} {path}")
            registry.headers = {name.lower(): text for name, text in self.headers.items()}
            if registry.is_allowed(self.headers.get("Authorization")):
                status, answer = registry.answer(method, path, body)
            else:
                status, answer = 401, {"error_code": 401, "message": "Unauthorized"}
            self.send(status, json.dumps(answer).encode(), "application/vnd.schemaregistry.v1+json")

        def do_GET(self) -> None:
            self.handle_request("GET")

        def do_POST(self) -> None:
            self.handle_request("POST")

    with serving(Handler, tls) as url:
        registry.url = url + prefix
        yield registry
