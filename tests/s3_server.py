"""A small S3 for tests: objects in memory, uploads in parts, listings in pages. It checks no signatures.

It keeps the promises of S3 that the state relies on: an object appears when its upload has ended, whole; a
listing has each object whose upload has ended before it. Nothing else is promised: no rename, no condition.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.http_server import QuietHandler, serving

_PAGE = 5
"""The number of names in a page of a listing. Real ones have 1,000."""


@dataclass
class S3:
    """The objects, by "bucket/key", and the parts of uploads that have not ended."""

    address: str = ""
    objects: dict[str, bytes] = field(default_factory=dict)
    uploads: dict[str, dict[int, bytes]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def uri(self, path: str, user: str = "penstock:secret") -> str:
        """Return the URI of a folder."""
        options = f"scheme=http&endpoint_override={self.address}&region=us-east-1"
        return f"s3://{user}@{path}?{options}"

    def page(self, bucket: str, prefix: str, delimiter: str, after: str) -> tuple[list[str], bool]:
        """Return the names after a name: keys, and prefixes that end with the delimiter. And whether all."""
        names = set()
        for path in self.objects:
            key = path.removeprefix(f"{bucket}/")
            if key != path and key.startswith(prefix):
                head, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
                names.add(f"{prefix}{head}{found}" if found else key)
        left = sorted(name for name in names if name > after)
        return left[:_PAGE], len(left) <= _PAGE


def _listing(s3: S3, bucket: str, query: dict[str, str]) -> str:
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
    names, is_last = s3.page(bucket, prefix, delimiter, query.get("continuation-token", ""))
    found = []
    for name in names:
        content = s3.objects.get(f"{bucket}/{name}")
        if content is None:
            found.append(f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>")
        else:
            found.append(
                f"<Contents><Key>{escape(name)}</Key><LastModified>2024-01-01T00:00:00.000Z</LastModified>"
                f"<ETag>{_etag(content)}</ETag><Size>{len(content)}</Size></Contents>"
            )
    token = "" if is_last else f"<NextContinuationToken>{escape(names[-1])}</NextContinuationToken>"
    head = f"<Name>{bucket}</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(names)}</KeyCount>"
    truncated = f"<IsTruncated>{'false' if is_last else 'true'}</IsTruncated>{token}"
    return f"<ListBucketResult>{head}{truncated}{''.join(found)}</ListBucketResult>"


def _etag(content: bytes) -> str:
    return f'"{hashlib.sha256(content).hexdigest()[:32]}"'


class _Handler(QuietHandler):
    s3: S3
    protocol_version = "HTTP/1.1"  # clients ask with "Expect: 100-continue"

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):  # the client is gone, and what it sent does not count
            super().handle()

    def _asked(self) -> tuple[str, str, dict[str, str]]:
        """Return the bucket, the path with the bucket, and the query."""
        url = urlsplit(self.path)
        path = unquote(url.path).lstrip("/")
        query = {name: values[0] for name, values in parse_qs(url.query, keep_blank_values=True).items()}
        return path.partition("/")[0], path.rstrip("/") if path.count("/") == 1 else path, query

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            content = _unchunked(iter(self.rfile.readline, b""), self.rfile)
        else:
            length = int(self.headers.get("Content-Length", 0))
            content = self.rfile.read(length)
            if len(content) < length:
                raise ConnectionError("the client is gone")
        if "aws-chunked" in self.headers.get("Content-Encoding", ""):
            content = _decoded(content)
        return content

    def _answer(self, status: int, content: bytes = b"", **headers: str) -> None:
        self.close_connection = True
        self.send_response(status)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        for name, value in {"Content-Length": str(len(content)), "Connection": "close", **named}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _xml(self, content: str, status: int = 200) -> None:
        self._answer(status, f'<?xml version="1.0"?>{content}'.encode(), Content_Type="application/xml")

    def do_PUT(self) -> None:
        _, path, query = self._asked()
        content = self._body()
        with self.s3.lock:
            if "uploadId" in query:
                self.s3.uploads[query["uploadId"]][int(query["partNumber"])] = content
            else:
                self.s3.objects[path] = content
        self._answer(200, ETag=_etag(content))

    def do_POST(self) -> None:
        bucket, path, query = self._asked()
        content = self._body()
        head = f"<Bucket>{bucket}</Bucket><Key>{escape(path.partition('/')[2])}</Key>"
        with self.s3.lock:
            if "uploads" in query:
                upload_id = uuid.uuid4().hex
                self.s3.uploads[upload_id] = {}
                name, tail = "InitiateMultipartUploadResult", f"<UploadId>{upload_id}</UploadId>"
            else:
                assert b"<CompleteMultipartUpload" in content
                parts = self.s3.uploads.pop(query["uploadId"])
                whole = b"".join(part for _, part in sorted(parts.items()))
                self.s3.objects[path] = whole
                name, tail = "CompleteMultipartUploadResult", f"<ETag>{escape(_etag(whole))}</ETag>"
        self._xml(f"<{name}>{head}{tail}</{name}>")

    def do_GET(self) -> None:
        bucket, path, query = self._asked()
        with self.s3.lock:
            if "/" not in path.rstrip("/"):
                self._xml(_listing(self.s3, bucket, query))
                return
            content = self.s3.objects.get(path)
        if content is None:
            self._xml("<Error><Code>NoSuchKey</Code><Message>no such key</Message></Error>", 404)
            return
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if asked is None:
            self._answer(200, content, ETag=_etag(content))
            return
        first, last = int(asked[1]), min(int(asked[2] or len(content)), len(content) - 1)
        where = f"bytes {first}-{last}/{len(content)}"
        self._answer(206, content[first : last + 1], ETag=_etag(content), Content_Range=where)

    def do_HEAD(self) -> None:
        _, path, _ = self._asked()
        content = self.s3.objects.get(path) if "/" in path else b""
        if content is None:
            self._answer(404)
            return
        self._answer(
            200,
            Content_Length=str(len(content)),
            ETag=_etag(content),
            Last_Modified="Mon, 01 Jan 2024 00:00:00 GMT",
        )

    def do_DELETE(self) -> None:
        _, path, query = self._asked()
        with self.s3.lock:
            if "uploadId" in query:
                self.s3.uploads.pop(query["uploadId"], None)
            else:
                self.s3.objects.pop(path, None)
        self._answer(204)


def _unchunked(lines: Iterator[bytes], source: Any) -> bytes:
    """Return the content of a body in HTTP's chunks."""
    content: bytes = b""
    for line in lines:
        size = int(line.split(b";")[0], 16)
        content += source.read(size)
        source.readline()
        if size == 0:
            return content
    raise ConnectionError("the client is gone")


def _decoded(content: bytes) -> bytes:
    """Return the content of a body in Amazon's chunks, which have checksums after them."""
    found = b""
    while True:
        head, _, content = content.partition(b"\r\n")
        size = int(head.split(b";")[0], 16)
        if size == 0:
            return found
        found, content = found + content[:size], content[size + 2 :]


@contextmanager
def running_s3() -> Iterator[S3]:
    """Run an S3 until the block ends. It has all buckets."""
    s3 = S3()
    handler = type("_HandlerOfOne", (_Handler,), {"s3": s3})
    with serving(handler) as url:
        s3.address = url.removeprefix("http://")
        yield s3
