"""Put the built site beside those of older releases, with a selector: `python -m tests.site.versions`.

The published folder has a folder for each release, `latest` with the pages of the newest one, and
`versions.json`, which the selector of the pages reads. Runs on a developer's machine and in the release
workflow. Invariant: the folder of another release is never changed, so its pages stay as they were.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tomllib
from pathlib import Path

from tests.site.stage import ROOT

HTML = ROOT / "build" / "site" / "html"
PUBLISHED = ROOT / "build" / "site" / "published"
LATEST = "latest"
_LIST = "versions.json"
_VERSION = re.compile(r"\d+(\.\d+)*")
_START = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>penstock</title>
<meta http-equiv="refresh" content="0; url={LATEST}/index.html">
<link rel="canonical" href="{LATEST}/index.html">
</head><body><a href="{LATEST}/index.html">penstock</a></body></html>
"""


def version_of_checkout() -> str:
    """Return the version that pyproject.toml has."""
    found: str = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    return found


def publish(html: Path, published: Path, version: str) -> list[str]:
    """Add a release, or make its pages again. Return all releases, the newest first.

    Raises:
        ValueError: The version is not one, such as `1.2.0`.
    """
    if not _VERSION.fullmatch(version):
        msg = f"expected a version such as 1.2.0, got {version!r}. No page was published."
        raise ValueError(msg)
    published.mkdir(parents=True, exist_ok=True)
    _replace(html, published / version)
    found = (each.name for each in published.iterdir() if each.is_dir() and _VERSION.fullmatch(each.name))
    versions = sorted(found, key=_numbers, reverse=True)
    if versions[0] == version:
        _replace(html, published / LATEST)
    listed = [
        {"version": each, "title": each, "aliases": [LATEST] if each == versions[0] else []}
        for each in versions
    ]
    (published / _LIST).write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")
    (published / "index.html").write_text(_START, encoding="utf-8")
    (published / ".nojekyll").touch()
    return versions


def _replace(html: Path, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(html, folder)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def main() -> None:
    """Publish the site that `make site` has built."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, default=PUBLISHED, help="the folder that a web server shows")
    parser.add_argument("--version", default=version_of_checkout())
    given = parser.parse_args()
    versions = publish(HTML, given.into, given.version)
    sys.stdout.write(f"The releases in {given.into}: {', '.join(versions)}\n")


if __name__ == "__main__":
    main()
