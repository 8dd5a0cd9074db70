"""Make `llms.txt`, which lists the pages for language models (llmstxt.org), and `llms-full.txt`.

The site has both. The repository has the list at its root, with links to its own files (`make docs`).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from itertools import groupby

from tests.site.menu import Entry, entries
from tests.site.stage import ROOT, decisions_page, sources

_HEAD = """\
# penstock

> Kafka for PySpark, without a JAR: exactly-once reads and writes, typed columns, changes of databases (CDC),
> Flink's SQL, lag and metrics. The package is `pyspark-penstock`; module and data source are `penstock`.

An unknown option of Flink's names is an error. A query that could lose or double a row ends with an error of
`penstock.errors`.
"""
_OPTIONAL = "Contribute"
_NO_PROSE = re.compile(r"[#|<]|[-*] |\d+\. |\*\*[^*]*\*\*$")
"""How a heading, a table, HTML and a list begin."""
_END = re.compile(r"(?<=[^.][.:])\s+(?=[A-Z`*]|[\w./-]+\.md )")
"""Between two sentences, of which the second may begin with a page. Three dots end none."""


def files() -> dict[str, str]:
    """Return the files by their names."""
    return {"llms.txt": index(), "llms-full.txt": full()}


def of_site(entry: Entry) -> str:
    """Return the path of a page on the site."""
    return f"{entry.path.removesuffix('.md')}.html"


def of_repository(entry: Entry) -> str:
    """Return the path of a page in the repository."""
    if entry.path == "decisions/index.md":
        return "docs/decisions"
    return {staged: page for page, staged in sources().items()}[entry.path].as_posix()


def index(link: Callable[[Entry], str] = of_site) -> str:
    """Return the list: a section for each part of the menu, a line for each page with its link."""
    lines = [_HEAD]
    for part, pages in groupby(entries(), key=lambda each: each.part):
        heading = "Optional" if part == _OPTIONAL else part
        lines.append(f"## {heading}\n")
        lines += [_line(each, link(each)) for each in pages]
        lines.append("")
    return "\n".join(lines)


def full() -> str:
    """Return the texts of all pages but those for contributors."""
    return "\n\n".join(_text(each) for each in entries() if each.part != _OPTIONAL)


def _line(entry: Entry, link: str) -> str:
    text = _text(entry)
    title = entry.title or text.splitlines()[0].removeprefix("# ")
    return f"- [{title}]({link}): {_summary(text)}"


def _text(entry: Entry) -> str:
    if entry.path == "decisions/index.md":
        return decisions_page(sources())
    return (ROOT / of_repository(entry)).read_text(encoding="utf-8")


def _summary(text: str) -> str:
    """Return the first sentence of the first paragraph that is prose, with links as their texts."""
    prose = re.sub(r"^```.*?^```|^<!--.*?-->", "", text, flags=re.DOTALL | re.MULTILINE)
    for paragraph in prose.split("\n\n")[1:]:
        plain = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", " ".join(paragraph.split()))
        if plain and not _NO_PROSE.match(plain):
            sentence = _END.split(plain, maxsplit=1)[0]
            return sentence.rstrip(".:") + "."
    return text.splitlines()[0].removeprefix("# ") + "."


FILE = ROOT / "llms.txt"

if __name__ == "__main__":
    FILE.write_text(index(of_repository), encoding="utf-8")
    sys.stdout.write(f"{FILE}\n")
