"""The list of what a wheel holds and needs (SBOM): CycloneDX 1.6, in the wheel as PEP 770 says.

Runs in pip's build environment, with the standard library only. Invariant: a wheel always gives the same
list, so it has no time and no random number.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

NAME = "pyspark-penstock.cdx.json"
_UPLOT = "penstock/observe/serve/page/uplot.js"
_EARLIEST = (1980, 1, 1, 0, 0, 0)


def add_to(wheel: Path) -> None:
    """Put the list into a wheel, and its line into the wheel's RECORD."""
    with ZipFile(wheel) as archive:
        entries = [(each, archive.read(each)) for each in archive.infolist()]
    by_name = {info.filename: content for info, content in entries}
    [folder] = {name.split("/")[0] for name in by_name if name.endswith(".dist-info/RECORD")}
    path, record = f"{folder}/sboms/{NAME}", f"{folder}/RECORD"
    metadata = Parser().parsestr(by_name[f"{folder}/METADATA"].decode())
    text = json.dumps(sbom(metadata, by_name.get(_UPLOT, b"").decode()), indent=2).encode() + b"\n"
    made = wheel.with_suffix(".part")
    with ZipFile(made, "w", ZIP_DEFLATED) as archive:
        for info, content in entries:
            if info.filename != record:
                archive.writestr(info, content, compress_type=ZIP_DEFLATED)
        archive.writestr(ZipInfo(path, _EARLIEST), text, compress_type=ZIP_DEFLATED)
        lines = by_name[record].decode() + _record_line(path, text)
        archive.writestr(ZipInfo(record, _EARLIEST), lines, compress_type=ZIP_DEFLATED)
    made.replace(wheel)


def _record_line(path: str, content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{path},sha256={digest},{len(content)}\n"


def sbom(metadata: Message, uplot: str) -> dict[str, Any]:
    """Return the list.

    Args:
        metadata: of the wheel.
        uplot: the text of uPlot in the wheel; empty if the wheel has none, as that of an editable install.
    """
    name, version = metadata["Name"], metadata["Version"]
    itself = f"pkg:pypi/{name}@{version}"
    needed = [_needed(each) for each in metadata.get_all("Requires-Dist", []) if "extra ==" not in each]
    bundled = [_bundled_uplot(uplot)] if uplot else []
    refs = sorted(each["bom-ref"] for each in (*needed, *bundled))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": itself,
                "name": name,
                "version": version,
                "purl": itself,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": [*bundled, *needed],
        "dependencies": [{"ref": itself, "dependsOn": refs}],
    }


def _needed(requirement: str) -> dict[str, Any]:
    """Return a package that pip installs beside penstock, with the range of its versions."""
    [(name, versions)] = re.findall(r"^([\w.-]+) *([^;]*)", requirement)
    purl = f"pkg:pypi/{name.lower()}"
    properties = [{"name": "penstock:versions", "value": versions.strip()}]
    return {"type": "library", "bom-ref": purl, "name": name, "purl": purl, "properties": properties}


def _bundled_uplot(text: str) -> dict[str, Any]:
    """Return uPlot, which stands in the wheel as it was released."""
    [version] = re.findall(r"uPlot \(v([\d.]+)\)", text[:200])
    purl = f"pkg:npm/uplot@{version}"
    return {
        "type": "library",
        "bom-ref": purl,
        "name": "uplot",
        "version": version,
        "purl": purl,
        "licenses": [{"license": {"id": "MIT"}}],
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(text.encode()).hexdigest()}],
    }
