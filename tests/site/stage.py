"""Put all pages of the docs into one folder, with links that lead from page to page of the site.

Runs on a developer's machine and in CI. Invariant: a link to a page or an image stays a link. A link to a
file of the checkout that the site does not have becomes its text.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from tests.site.markdown import for_python_markdown

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "build" / "site" / "pages"
AT_THE_ROOT = {
    "README.md": "index.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "SECURITY.md": "SECURITY.md",
    "AGENTS.md": "AGENTS.md",
    "CODE_OF_CONDUCT.md": "CODE_OF_CONDUCT.md",
}
"""Pages outside of docs/, and their names on the site."""
DECISIONS = Path("docs/decisions")
_FENCED = re.compile(r"(^ *```.*?^ *```)", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(?<!\!)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\((?!https?:|mailto:)([^)#\s]*)(#[^)\s]*)?\)")
_NAMED = re.compile(r'^\[([\w-]+)\]: (?!https?:)(\S+)(?: ".*")?$', re.MULTILINE)


def sources() -> dict[Path, str]:
    """Return each page by its path in the checkout, and its path on the site."""
    found = {Path(name): staged for name, staged in AT_THE_ROOT.items() if (ROOT / name).exists()}
    docs = ROOT / "docs"
    found |= {page.relative_to(ROOT): str(page.relative_to(docs)) for page in sorted(docs.rglob("*.md"))}
    return found


def staged_text(page: Path, known: dict[Path, str]) -> str:
    """Return a page as the site has it."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for name, target in _NAMED.findall(text):
        if _target(page, target) not in known:
            text = re.sub(rf"^\[{re.escape(name)}\]: .*\n?", "", text, flags=re.MULTILINE)
            text = re.sub(rf"\[([^\[\]]+)\]\[{re.escape(name)}\]", r"\1", text)
    parts = _FENCED.split(text)
    linked = (
        part if _FENCED.match(part) else _LINK.sub(lambda f: _relinked(f, page, known), part)
        for part in parts
    )
    return for_python_markdown("".join(linked))


def _relinked(found: re.Match[str], page: Path, known: dict[Path, str]) -> str:
    text, target, anchor = found[1], found[2], found[3] or ""
    if not target:
        return found[0]
    at = _target(page, target)
    staged = "decisions/index.md" if at == DECISIONS else known.get(at)
    if staged is None and at.suffix == ".png":
        staged = str(at.relative_to("docs"))
    if staged is None:
        return text
    return f"[{text}]({os.path.relpath(staged, Path(known[page]).parent)}{anchor})"


def _target(page: Path, link: str) -> Path:
    return Path(os.path.normpath(page.parent / link))


def decisions_page(known: dict[Path, str]) -> str:
    """Return the list of decisions."""
    rows = [page for page in known if page.parent == DECISIONS]
    titles = [
        (page, (ROOT / page).read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")) for page in rows
    ]
    lines = [f"- [{title}]({page.name})" for page, title in titles]
    head = "# Decisions\n\nEach page says what was to be decided, what was chosen, and why.\n\n"
    return head + "\n".join(lines) + "\n"


def stage(folder: Path = PAGES) -> None:
    """Write all pages and images into a folder, which is made empty before."""
    shutil.rmtree(folder, ignore_errors=True)
    known = sources()
    for page, staged in known.items():
        target = folder / staged
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(staged_text(page, known), encoding="utf-8")
    (folder / "decisions" / "index.md").write_text(decisions_page(known), encoding="utf-8")
    shutil.copytree(ROOT / "docs" / "images", folder / "images")
    shutil.copytree(Path(__file__).with_name("extra"), folder / "extra")
