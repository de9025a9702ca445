"""A headless Chromium, spoken to over its DevTools pipe: no driver and no package needed.

Messages are JSON texts that end in a zero byte: we write to the browser's descriptor 3 and read
from its 4.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
)
# Python 3.12 warns of preexec_fn, so a small program moves the descriptors and becomes Chromium.
_BECOME = """
import os, sys
for ours, theirs in zip(sys.argv[1:3], (3, 4)):
    os.dup2(int(ours), theirs)
os.execvp(sys.argv[3], sys.argv[3:])
"""


def find_chromium() -> str | None:
    """PV4FAD_CHROMIUM, or a program of one of the usual names."""
    named = os.environ.get("PV4FAD_CHROMIUM")
    return named or next((path for path in map(shutil.which, NAMES) if path), None)


@dataclass
class Browser:
    """One tab, and everything it reports."""

    to_browser: int
    from_browser: int
    session: str | None = None
    events: list[dict[str, Any]] = field(default_factory=list)
    _number: int = 0
    _rest: bytes = b""

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Ask, and wait for the answer; what is reported meanwhile is kept."""
        self._number += 1
        request = {"id": self._number, "method": method, "params": parameters}
        if self.session is not None:
            request["sessionId"] = self.session
        os.write(self.to_browser, json.dumps(request).encode() + b"\0")
        while True:
            message = self._read()
            if message.get("id") == self._number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.events.append(message)

    def wait_for(self, method: str) -> None:
        """Until this has been reported, now or earlier."""
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self._read())

    def value(self, expression: str) -> Any:
        """What a piece of JavaScript evaluates to."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"]["text"])
        return result["result"].get("value")

    def open(self, page: Path | str, *, width: int, height: int, scheme: str = "light") -> None:
        """Load a file, or an address, at this size of window and colour scheme."""
        self.events.clear()
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        media = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=media)
        self.call("Page.navigate", url=page if isinstance(page, str) else page.resolve().as_uri())
        self.wait_for("Page.loadEventFired")

    def problems(self) -> list[str]:
        """Console messages, exceptions, and what the log says, since the page was opened."""
        return [
            json.dumps(event["params"])
            for event in self.events
            if event.get("method")
            in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        ]

    def requests(self) -> list[str]:
        """The addresses that the page wanted since it was opened."""
        return [
            event["params"]["request"]["url"]
            for event in self.events
            if event.get("method") == "Network.requestWillBeSent"
        ]

    def blocked(self) -> list[str]:
        """The addresses that the page's own policy kept from being fetched."""
        refused = {
            event["params"]["requestId"]
            for event in self.events
            if event.get("method") == "Network.loadingFailed"
            and event["params"].get("blockedReason") == "csp"
        }
        return [
            event["params"]["request"]["url"]
            for event in self.events
            if event.get("method") == "Network.requestWillBeSent"
            and event["params"]["requestId"] in refused
        ]

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            part = os.read(self.from_browser, 1 << 16)
            if not part:
                raise RuntimeError("Chromium has ended")
            self._rest += part
        message, self._rest = self._rest.split(b"\0", 1)
        return json.loads(message)


@contextmanager
def browser(program: str, folder: Path) -> Iterator[Browser]:
    """A Chromium with an empty profile in `folder`, and a tab."""
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    # Above 4, or the first dup2 could overwrite what the second needs.
    command = [sys.executable, "-c", _BECOME, str(theirs_in), str(theirs_out), program, *OPTIONS]
    with (folder / "chromium.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, f"--user-data-dir={folder / 'profile'}"],
            stdout=log,
            stderr=log,
            pass_fds=(theirs_in, theirs_out),
        )
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        tab = Browser(ours_out, ours_in)
        target = tab.call("Target.createTarget", url="about:blank")["targetId"]
        attached = tab.call("Target.attachToTarget", targetId=target, flatten=True)
        tab.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            tab.call(f"{domain}.enable")
        yield tab
        tab.session = None
        tab.call("Browser.close")
    finally:
        os.close(ours_out)
        os.close(ours_in)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def opened_tab() -> Iterator[Browser]:
    """A tab for tests, which are skipped where there is no Chromium."""
    program = find_chromium()
    if program is None:
        pytest.skip("no Chromium here: apt-get install chromium, or set PV4FAD_CHROMIUM")
    # Not in the folders of pytest: Chromium is still writing its profile when it is told to end.
    folder = Path(tempfile.mkdtemp(prefix="pv4fad-chromium-"))
    with browser(program, folder) as opened:
        yield opened
    shutil.rmtree(folder, ignore_errors=True)
