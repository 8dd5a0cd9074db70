"""A headless Chromium, driven by the DevTools protocol.

Runs in tests only. Invariant: the browser ends with the test, and sees nothing of the user's profile.
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import websocket

from tests.waiting import PATIENCE_S, wait_until

NAMES = ("chromium", "chromium-browser", "google-chrome")
_ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--remote-debugging-port=0",
)


def find_chromium() -> str | None:
    """Return the program; None if there is none."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@contextmanager
def open_browser(folder: Path) -> Iterator[Page]:
    """Start a browser with an empty profile in `folder`, and give its one page."""
    program = find_chromium()
    assert program is not None, "the caller looks first"
    port_file = folder / "DevToolsActivePort"
    process = subprocess.Popen(
        [program, *_ARGUMENTS, f"--user-data-dir={folder}", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: port_file.exists() and port_file.read_text().count("\n") > 0, "the browser")
        port = port_file.read_text().split("\n")[0]
        page = Page(_page_address(port))
        try:
            yield page
        finally:
            page.close()
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def _page_address(port: str) -> str:
    with urlopen(f"http://127.0.0.1:{port}/json", timeout=PATIENCE_S) as answer:
        targets = json.load(answer)
    return str(next(each["webSocketDebuggerUrl"] for each in targets if each["type"] == "page"))


class Page:
    """One tab.

    Attributes:
        problems: what the console reported as an error or a warning, and requests that failed.
        requests: the address of each request.
    """

    def __init__(self, address: str) -> None:
        self.problems: list[str] = []
        self.requests: list[str] = []
        self._socket = websocket.create_connection(address, timeout=PATIENCE_S, suppress_origin=True)
        self._last_id = 0
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        self._last_id += 1
        self._socket.send(json.dumps({"id": self._last_id, "method": method, "params": params}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") == self._last_id:
                assert "error" not in message, message
                result: dict[str, Any] = message["result"]
                return result
            self._note(message)

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression; a promise is awaited."""
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def go_to(self, url: str) -> None:
        """Open a page."""
        self.call("Page.navigate", url=url)

    def open(self, url: str) -> None:
        """Open a page and wait until it and its images are loaded."""
        self.go_to(url)
        loaded = f"document.readyState === 'complete' && location.href === {json.dumps(url)}"
        wait_until(lambda: self.evaluate(loaded), url)

    def resize(self, width: int, height: int) -> None:
        """Take another size of the screen."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def screenshot(self, path: Path) -> None:
        """Write what is seen as a PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _note(self, message: dict[str, Any]) -> None:
        method, params = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(params["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.problems.append(json.dumps(params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.problems.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
