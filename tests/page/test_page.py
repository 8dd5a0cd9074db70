"""The page in a real browser: it loads, updates, and can be read by everybody."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

websocket = pytest.importorskip("websocket", reason="websocket-client is not installed")

from tests.page.browser import Page, find_chromium, open_browser  # noqa: E402 - after the check
from tests.page.scene import BLOCKED, SECRET, SHOWN, SLOW, Scene, served  # noqa: E402 - the same
from tests.waiting import wait_until  # noqa: E402 - the same

pytestmark = [
    pytest.mark.skipif(
        find_chromium() is None, reason="no Chromium here (on Debian: apt-get install chromium)"
    ),
    pytest.mark.xdist_group("page"),
]
AXE = Path(__file__).parent / "node_modules/axe-core/axe.min.js"
NO_AXE = "neither npm nor axe-core is here, so contrast and accessibility were not checked"
NEXT_FRAME = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


def has_axe() -> bool:
    """Tell whether axe-core is here. If npm is here it has to be, because `make npm` installs it."""
    if AXE.exists():
        return True
    if shutil.which("npm") is None:
        return False
    pytest.fail(
        "npm is here and axe-core is not. Run `npm install --prefix tests/page`, and read what it says"
    )


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with open_browser(tmp_path_factory.mktemp("browser")) as page:
        yield page


@pytest.fixture
def scene(page: Page) -> Iterator[Scene]:
    """A scene that the browser shows; it must not complain about anything."""
    page.problems.clear()
    page.requests.clear()
    with served() as (scene, url):
        page.resize(1240, 900)
        page.go_to(url)
        wait_until(lambda: page.evaluate(SHOWN), "the page")
        yield scene
        page.evaluate("document.body.textContent")  # takes what the browser has said until now
        assert {each.split("/", 3)[2] for each in page.requests} == {url.split("/")[2]}
        page.go_to("about:blank")
        assert page.problems == []


def text(page: Page, element: str = "main") -> str:
    found: str = page.evaluate(f"document.querySelector({json.dumps(element)}).innerText")
    return found


def test_the_page_names_what_is_wrong(page: Page, scene: Scene) -> None:
    assert text(page, "#health") == "BLOCKED_BY_TRANSACTION"
    shown = text(page)
    assert f"Transaction billing-7 (producer 4001) has kept back readers of {BLOCKED}" in shown
    assert f"The lag in {SLOW} grew" in shown
    assert page.evaluate("byId('map').childElementCount") == 24
    assert page.evaluate("[...document.querySelectorAll('#map .flag')].map(each => each.title)") != []
    assert "The source continues if records were deleted" in shown
    assert "Exactly once from end to end" in shown
    assert "4.4 to 1" in text(page, "#sinks")
    assert "billing-7" in text(page, "#holders")


def test_the_page_moves(page: Page, scene: Scene) -> None:
    before = text(page, "#tiles"), page.evaluate("plots.lag.data[0].length")
    scene.step()
    wait_until(lambda: text(page, "#tiles") != before[0], "newer figures")
    assert page.evaluate("plots.lag.data[0].length") == before[1] + 1
    drawn = "byId('plot-{}').querySelector('canvas').toDataURL()"
    empty = "document.createElement('canvas').toDataURL()"
    for name in ("lag", "rates", "skew", "batches"):
        assert page.evaluate(f"{drawn.format(name)} !== {empty}"), name


def test_secrets_are_hidden_and_texts_are_no_scripts(page: Page, scene: Scene) -> None:
    scene.transactional_id = "<img src=x onerror=document.title='run'>"
    scene.step()
    page.evaluate("ask()")  # without waiting for the page
    wait_until(lambda: "<img" in text(page, "#holders"), "the hostile name")
    assert page.evaluate("document.querySelector('img')") is None
    page.evaluate("document.querySelector('details').open = true")
    assert "(hidden)" in text(page, "#options")
    assert SECRET not in page.evaluate("document.documentElement.innerHTML + JSON.stringify(last)")


def test_a_phone_shows_everything_without_scrolling_sideways(page: Page, scene: Scene) -> None:
    page.resize(360, 740)
    page.evaluate(NEXT_FRAME)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.evaluate("plots.lag.width") <= 340
    sizes = "[...document.querySelectorAll('main *')].map(e => parseFloat(getComputedStyle(e).fontSize))"
    assert page.evaluate(f"Math.min(...{sizes})") >= 12


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_is_accessible(page: Page, scene: Scene, theme: str) -> None:
    if not has_axe():
        pytest.skip(NO_AXE)
    page.evaluate(f"setTheme('{theme}'); document.querySelector('details').open = true")
    page.evaluate(AXE.read_text() + ";0")
    result: dict[str, Any] = page.evaluate("axe.run()")
    found = [(each["id"], [node["html"] for node in each["nodes"]]) for each in result["violations"]]
    assert found == []
    assert len(result["passes"]) > 15
