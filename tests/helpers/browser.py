"""A headless Chromium, driven over a pipe by its own protocol: what a page looks like, says and asks for."""

import base64
import fcntl
import json
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars", "--remote-debugging-pipe"),
    *("--disable-background-networking", "--disable-extensions", "--disable-component-update", "--disable-sync"),
)
_SECONDS = 120  # that a page may take on a busy machine


def chromium() -> str:
    """The path of a Chromium; empty if there is none."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), "")


class Browser:
    """One browser with one page. `events` keeps all that the page said and asked for since it was opened."""

    def __init__(self, profile: Path) -> None:
        pipes = os.pipe(), os.pipe()
        theirs, answers = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (pipes[0][0], pipes[1][1]))
        self._to, self._from = pipes[0][1], pipes[1][0]
        quiet = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
        ours = [(os.POSIX_SPAWN_DUP2, theirs, 3), (os.POSIX_SPAWN_DUP2, answers, 4)]  # where Chromium looks for pipes
        words = [chromium(), *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        self._process = os.posix_spawn(words[0], words, os.environ, file_actions=[*quiet, *ours])
        for end in (theirs, answers, pipes[0][0], pipes[1][1]):
            os.close(end)
        self._number, self._rest, self._session = 0, b"", ""
        self.events: list[dict[str, Any]] = []
        page = next(one for one in self("Target.getTargets")["targetInfos"] if one["type"] == "page")
        self._session = self("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self(f"{domain}.enable")

    def __call__(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command of the protocol, and return its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            part = os.read(self._from, 1 << 16)
            assert part, "the browser has ended"
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message

    def open(self, page: Path, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Open a page, and wait until it says that it is ready."""
        self.look(width, height, dark)
        self.events.clear()
        self("Page.navigate", url=page.resolve().as_uri())
        end = time.monotonic() + _SECONDS
        while self.run("document.documentElement?.dataset.ready ?? ''") != "true":
            assert time.monotonic() < end, self.said()
            time.sleep(0.05)

    def look(self, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Change the size of the window, and between light and dark."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self("Emulation.setDeviceMetricsOverride", **metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self("Emulation.setEmulatedMedia", features=[scheme])
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page."""
        found = self("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def said(self) -> list[str]:
        """What the page wrote to its console, and errors."""
        kinds = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [json.dumps(one["params"]) for one in self.events if one["method"] in kinds]

    def requests(self) -> list[str]:
        """What the page asked for, itself apart."""
        asked = [e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"]
        return [url for url in asked[1:] if not url.startswith("data:")]

    def pdf(self) -> bytes:
        """The page as it is printed."""
        return base64.b64decode(self("Page.printToPDF", preferCSSPageSize=True)["data"])

    def screenshot(self, path: Path, whole: bool = True) -> None:
        """Save what the page looks like."""
        shown = self("Page.captureScreenshot", captureBeyondViewport=whole, format="png")
        path.write_bytes(base64.b64decode(shown["data"]))

    def close(self) -> None:
        """End the browser."""
        os.kill(self._process, signal.SIGTERM)
        os.waitpid(self._process, 0)
        os.close(self._to)
        os.close(self._from)
