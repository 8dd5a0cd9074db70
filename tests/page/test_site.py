"""The site: it builds without a warning, a browser can read each page, and each release keeps its pages."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from tests.page.browser import Page, find_chromium, open_browser
from tests.page.test_page import AXE, NO_AXE, has_axe
from tests.site.__main__ import MKDOCS, build
from tests.site.links import broken_links, unlinked_pages
from tests.site.menu import entries
from tests.site.versions import HTML, publish
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(not MKDOCS.exists(), reason="MkDocs is not installed (`make site` does it)")
DESK, PHONE = 1280, 390
SAMPLES = ("/index.html", "/how-it-works.html", "/sink.html", "/api/penstock.errors.html")
"""Pages with all kinds of parts: tables, code, diagrams. All rules of axe-core take seconds for a page."""
SCHEMES = ("default", "slate")
ONLY_OF_CONTRIBUTORS = {"AGENTS.html", "CODE_OF_CONDUCT.html"}
"""Pages that stand in the menu, and that no text needs to name."""
CONTRAST = Path(__file__).with_name("contrast.js")
STILL = """document.head.append(Object.assign(document.createElement('style'),
    {textContent: '*, *::before, *::after {transition: none !important; animation: none !important}'}))"""
SERIOUS = """axe.run({resultTypes: ['violations']}).then(found => found.violations
    .filter(each => ['serious', 'critical'].includes(each.impact))
    .map(each => each.id + ': ' + each.nodes.map(node => node.html).slice(0, 3)))"""
FACTS = """({
    title: document.title,
    heading: document.querySelectorAll('article h1').length,
    noAlt: [...document.images].filter(each => !each.alt).map(each => each.src),
    broken: [...document.images].filter(each => each.complete && !each.naturalWidth).map(each => each.src),
    noText: [...document.querySelectorAll('article a[href]:not(.headerlink)')]
        .filter(each => !each.innerText.trim() && !each.title && !each.ariaLabel).map(each => each.href),
})"""


class _Pages(SimpleHTTPRequestHandler):
    """Serves a folder. Each page loads the index of the search, so all but one test give a short one."""

    has_search: ClassVar[bool] = False

    def do_GET(self) -> None:
        if self.path.endswith("/search_index.json") and not self.has_search:
            self.send_response(200)
            self.end_headers()
            index = json.loads((HTML / "search" / "search_index.json").read_text(encoding="utf-8"))
            self.wfile.write(json.dumps({**index, "docs": index["docs"][:1]}).encode())
        else:
            super().do_GET()

    def log_message(self, *_args: object) -> None:
        """Print nothing."""


class _PagesWithSearch(_Pages):
    has_search = True


@contextmanager
def served(folder: Path, pages: type[_Pages] = _Pages) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(pages, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def test_the_site_builds_without_a_warning_and_each_page_can_be_read(tmp_path: Path) -> None:
    """One test, because each build has the same folder."""
    done = build()
    shown = done.stdout + done.stderr
    assert done.returncode == 0, shown
    assert "WARNING" not in shown
    _check_files(HTML)
    published = tmp_path / "published"
    publish(HTML, published, "0.0.9")
    publish(HTML, published, "0.1.0")
    if find_chromium() is None:
        pytest.skip("no Chromium here (on Debian: apt-get install chromium), so no page was read")
    is_whole = has_axe()
    with served(published) as address, open_browser(tmp_path / "browser") as page:
        assert _mistakes(page, f"{address}/latest") == []
        if is_whole:
            assert _hard_to_use(page, f"{address}/latest") == []
        _check_selector(page, address)
    with served(published, _PagesWithSearch) as address, open_browser(tmp_path / "browser of search") as page:
        _check_search(page, f"{address}/latest")
    if not is_whole:
        pytest.skip(f"{NO_AXE}. All else of the pages was")


def _check_files(html: Path) -> None:
    pages = {str(page.relative_to(html)) for page in html.rglob("*.html")} - {"404.html"}
    assert pages == {_path(each.path) for each in entries()}
    assert broken_links(html) == []
    assert set(unlinked_pages(html)) <= ONLY_OF_CONTRIBUTORS
    assert (html / "llms.txt").read_text(encoding="utf-8").startswith("# penstock\n")
    assert (html / "search" / "search_index.json").stat().st_size > 100_000


def _path(page: str) -> str:
    return page.removesuffix(".md").replace("README", "index") + ".html"


def _mistakes(page: Page, address: str) -> list[str]:
    """Read every page, at both widths and in both colours. Return what is wrong."""
    seen: dict[str, list[str]] = {scheme: [] for scheme in SCHEMES}
    titles: dict[str, str] = {}
    wrong = []
    for entry in entries():
        path = _path(entry.path)
        found = [*_wrong_facts(page, address, f"/{path}", titles), *_wrong_colours(page, seen)]
        wrong += [f"{path}: {each}" for each in found]
    if AXE.exists():
        assert all(len(looks) > 20 for looks in seen.values()), "almost no text was looked at"
    return wrong


def _wrong_facts(page: Page, address: str, path: str, titles: dict[str, str]) -> Iterator[str]:
    page.problems.clear()
    page.requests.clear()
    page.resize(DESK, 800)
    page.open(address + path)
    facts = page.evaluate(FACTS)
    if not facts["title"] or facts["heading"] != 1:
        yield f"the title is {facts['title']!r}, the page has {facts['heading']} headings of the first level"
    if titles.setdefault(facts["title"], path) != path:
        yield f"{titles[facts['title']]} has the same title"
    for width in (DESK, PHONE):
        page.resize(width, 800)
        wide = page.evaluate("document.documentElement.scrollWidth")
        if wide > width:
            yield f"it is {wide} pixels wide, the window {width}"
    yield from (f"{name}: {facts[name]}" for name in ("noAlt", "broken", "noText") if facts[name])
    yield from page.problems
    origin = address.rpartition("/")[0]
    yield from (f"asked for {each}" for each in page.requests if not each.startswith((origin, "data:")))


def _wrong_colours(page: Page, seen: dict[str, list[str]]) -> Iterator[str]:
    """Return texts of this page that are hard to read against what is behind them."""
    if not AXE.exists():
        return
    page.evaluate(AXE.read_text(encoding="utf-8") + ";0")
    page.evaluate(STILL)
    for width in (PHONE, DESK):
        page.resize(width, 800)
        for scheme, looks in seen.items():
            page.evaluate(f"document.body.setAttribute('data-md-color-scheme', '{scheme}')")
            found = page.evaluate(f"({CONTRAST.read_text(encoding='utf-8')})({json.dumps(looks)})")
            looks.extend(found["looks"])
            yield from (f"{scheme}, {width} pixels, contrast: {each}" for each in found["wrong"])


def _hard_to_use(page: Page, address: str) -> list[str]:
    """Names, keyboard, roles, contrast: what axe-core finds with all its rules."""
    wrong = []
    for path in SAMPLES:
        page.resize(DESK, 800)
        page.open(address + path)
        page.evaluate(AXE.read_text(encoding="utf-8") + ";0")
        page.evaluate(STILL)
        for width in (DESK, PHONE):
            page.resize(width, 800)
            wrong += [f"{path}, {width} pixels: {each}" for each in page.evaluate(SERIOUS)]
    return wrong


def _check_selector(page: Page, address: str) -> None:
    """A reader finds the pages of an older release, is told that they are old, and finds back."""
    page.resize(DESK, 800)
    page.open(f"{address}/latest/sink.html")
    options = "[...document.querySelectorAll('.md-version__link')].map(each => each.innerText.trim())"
    wait_until(lambda: page.evaluate(options) == ["0.1.0", "0.0.9"], "the selector of versions")
    page.open(f"{address}/0.0.9/sink.html")
    banner = "document.querySelector('[data-md-component=outdated] a')?.href ?? ''"
    shown = "document.querySelector('[data-md-component=outdated]')?.hidden === false"
    wait_until(lambda: page.evaluate(shown), "the note that the pages are old")
    assert page.evaluate(banner) == f"{address}/latest/index.html"


def _check_search(page: Page, address: str) -> None:
    """A word that one page explains leads to that page."""
    page.resize(DESK, 800)
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
    wait_until(lambda: "/latest/security.html" in page.evaluate(links), "the answer of the search")
