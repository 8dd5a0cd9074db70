"""Give MkDocs the anchors that GitHub gives headings, so that a link works in both places.

Runs in MkDocs, in the environment of the site, which has no penstock.
"""

from __future__ import annotations

import re
from typing import Any


def anchor_of(heading: str, _separator: str = "-") -> str:
    """Return GitHub's anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def on_config(config: Any) -> Any:
    """Set what the YAML file cannot say without naming Python objects."""
    config["mdx_configs"].setdefault("toc", {})["slugify"] = anchor_of
    return config
