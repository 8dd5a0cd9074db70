"""The site: it builds without a warning, and each page can be read in a browser, on a desk and on a phone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.page.browser import Page, find_chromium, open_browser
from tests.page.test_page import AXE
from tests.site.__main__ import HTML, MKDOCS, build
from tests.site.menu import entries
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(not MKDOCS.exists(), reason="MkDocs is not installed (`make site` does it)")
WIDTHS = (1280, 390)
SAMPLES = ("/index.html", "/how-it-works.html", "/sink.html", "/api/penstock.errors.html")
"""Pages with all kinds of parts: tables, code, diagrams, signatures. axe-core takes seconds for a page."""
SCHEMES = ("default", "slate")
SERIOUS = """axe.run({resultTypes: ['violations']}).then(found => found.violations
    .filter(each => ['serious', 'critical'].includes(each.impact))
    .map(each => each.id + ': ' + each.nodes.map(node => node.html).slice(0, 3)))"""
FACTS = """({
    title: document.title,
    heading: document.querySelectorAll('article h1').length,
    wide: document.documentElement.scrollWidth,
    noAlt: [...document.images].filter(each => !each.alt).map(each => each.src),
    broken: [...document.images].filter(each => each.complete && !each.naturalWidth).map(each => each.src),
    noText: [...document.querySelectorAll('article a[href]:not(.headerlink)')]
        .filter(each => !each.innerText.trim() && !each.title && !each.ariaLabel).map(each => each.href),
})"""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_args: object) -> None:
        """Print nothing."""


@contextmanager
def served(html: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(html))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_the_site_builds_without_a_warning_and_each_page_can_be_read(tmp_path: Path) -> None:
    """One test, because each build has the same folder."""
    done = build()
    shown = done.stdout + done.stderr
    assert done.returncode == 0, shown
    assert "WARNING" not in shown
    _check_files(HTML)
    if find_chromium() is None:
        pytest.skip("no Chromium here (on Debian: apt-get install chromium), so no page was read")
    with served(HTML) as address, open_browser(tmp_path) as page:
        for width in WIDTHS:
            _check_pages(page, address, width)
            if AXE.exists():
                _check_access(page, address)
        _check_search(page, address)


def _check_files(html: Path) -> None:
    pages = {str(page.relative_to(html)) for page in html.rglob("*.html")} - {"404.html"}
    named = {each.path.removesuffix(".md").replace("README", "index") + ".html" for each in entries()}
    assert pages == named
    assert (html / "llms.txt").read_text(encoding="utf-8").startswith("# penstock\n")
    assert (html / "search" / "search_index.json").stat().st_size > 100_000


def _check_pages(page: Page, address: str, width: int) -> None:
    wrong = []
    page.resize(width, 800)
    for entry in entries():
        path = "/" + entry.path.removesuffix(".md").replace("README", "index") + ".html"
        wrong += [f"{path}: {each}" for each in _mistakes(page, address, path, width)]
    assert wrong == []


def _mistakes(page: Page, address: str, path: str, width: int) -> Iterator[str]:
    page.problems.clear()
    page.requests.clear()
    page.open(address + path)
    facts = page.evaluate(FACTS)
    if not facts["title"] or facts["heading"] != 1:
        yield f"the title is {facts['title']!r}, the page has {facts['heading']} headings of the first level"
    if facts["wide"] > width:
        yield f"it is {facts['wide']} pixels wide, the window {width}"
    yield from (f"{name}: {facts[name]}" for name in ("noAlt", "broken", "noText") if facts[name])
    yield from page.problems
    yield from (f"asked for {each}" for each in page.requests if not each.startswith((address, "data:")))


def _check_access(page: Page, address: str) -> None:
    """Contrast, names, keyboard: what axe-core finds in light and in dark colours."""
    wrong = []
    for path in SAMPLES:
        page.open(address + path)
        page.evaluate(AXE.read_text(encoding="utf-8") + ";0")
        page.evaluate(
            "document.head.append(Object.assign(document.createElement('style'), "
            "{textContent: '* {transition: none !important}'}))"
        )
        for scheme in SCHEMES:
            page.evaluate(f"document.body.setAttribute('data-md-color-scheme', '{scheme}')")
            wrong += [f"{path}, {scheme}: {each}" for each in page.evaluate(SERIOUS)]
    assert wrong == []


def _check_search(page: Page, address: str) -> None:
    """A word that one page explains leads to that page."""
    page.resize(WIDTHS[0], 800)
    page.open(f"{address}/index.html")
    page.evaluate("""(() => {
        const query = document.querySelector('[data-md-component=search-query]')
        query.focus()
        query.value = 'kerberos'
        query.dispatchEvent(new Event('keyup'))
        query.dispatchEvent(new Event('input'))
    })()""")
    links = (
        "[...document.querySelectorAll('.md-search-result__link')].map(each => new URL(each.href).pathname)"
    )
    wait_until(lambda: "/security.html" in page.evaluate(links), "the answer of the search")
