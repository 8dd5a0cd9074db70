r"""PEM text: its blocks, with the line breaks that OpenSSL wants, and blocks made from DER.

Pure. Invariant: an error never shows any part of the text.
"""

from __future__ import annotations

import base64
import binascii
import re

# A body has no five hyphens, so that each text is read once, however many beginnings without an end it has.
_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----([^-]*(?:-(?!----)[^-]*)*)-----END \1-----")
_LINE_LENGTH = 64
CERTIFICATE = "CERTIFICATE"
PRIVATE_KEY = "PRIVATE KEY"


def pem_blocks(text: str) -> str:
    r"""Return the blocks of a text, empty where it has none.

    A value that travelled through a command line or a properties file often has its lines joined by
    spaces or by the two characters `\n`.
    """
    return "".join(_block(match[1], match[2].replace("\\n", "\n")) for match in _BLOCK.finditer(text))


def der_blocks(text: str, label: str) -> list[bytes]:
    """Return the blocks with a label as DER; a block that is not base64 is left out."""
    found = []
    for match in _BLOCK.finditer(text):
        if match[1] == label:
            try:
                found.append(base64.b64decode("".join(match[2].split()), validate=True))
            except binascii.Error:
                continue
    return found


def pem_of(label: str, der: bytes) -> str:
    return _block(label, base64.b64encode(der).decode("ascii"))


def _block(label: str, body: str) -> str:
    # The headers of an old-style encrypted key ("Proc-Type: ...") have to keep their lines.
    if ":" not in body:
        text = "".join(body.split())
        starts = range(0, len(text), _LINE_LENGTH)
        body = "\n".join(["", *(text[start : start + _LINE_LENGTH] for start in starts), ""])
    return f"-----BEGIN {label}-----{body}-----END {label}-----\n"
