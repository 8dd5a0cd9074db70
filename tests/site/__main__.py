"""Build the site: `make site`. The status is 1 if MkDocs warns, a page is in no menu, or a link is broken."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.site import llms
from tests.site.links import broken_links
from tests.site.stage import PAGES, ROOT, stage
from tests.site.versions import HTML, PUBLISHED, publish, version_of_checkout

MKDOCS = ROOT / ".venv" / "site" / "bin" / "mkdocs"
"""MkDocs has an environment of its own, so that its packages and those of penstock's tests do not meet."""

_ENVIRONMENT = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
"""Without Material's advertisement of its successor, which is not a warning about the pages."""


def build() -> subprocess.CompletedProcess[str]:
    """Stage the pages and build the site strictly."""
    stage()
    for name, text in llms.files().items():
        (PAGES / name).write_text(text, encoding="utf-8")
    command = [str(MKDOCS), "build", "--strict", "--config-file", str(ROOT / "mkdocs.yml")]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False, env=_ENVIRONMENT)


if __name__ == "__main__":
    done = build()
    sys.stderr.write(done.stdout + done.stderr)
    broken = broken_links(HTML) if done.returncode == 0 else ["The site was not built"]
    if broken:
        sys.exit("\n".join(broken))
    publish(HTML, PUBLISHED, version_of_checkout())
    sys.stdout.write(f"The site is in {PUBLISHED.relative_to(ROOT)}\n")
