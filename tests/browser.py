"""A headless Chromium, driven through its DevTools protocol."""

import base64
import contextlib
import json
import subprocess
import zlib
from collections.abc import Callable
from itertools import count
from pathlib import Path

import numpy as np
from websockets.sync.client import connect

from tests.tools import eventually, needs

WIDTH, HEIGHT = 680, 700  # small, since a CPU draws it, but the whole panel is seen
_CODES = {" ": ("Space", 32), "a": ("KeyA", 65), "Tab": ("Tab", 9), "Enter": ("Enter", 13)}


class BrowserError(RuntimeError):
    """What Chromium answered instead of a result, if anything."""


class Browser:
    """One process with any number of pages."""

    def __init__(self, folder):
        needs("chromium")
        self._process = subprocess.Popen(
            [
                "chromium", "--headless=new", "--no-sandbox", "--remote-debugging-port=0", f"--user-data-dir={folder}",
                f"--window-size={WIDTH},{HEIGHT}", "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
                "--no-first-run", "--force-device-scale-factor=1", "--no-proxy-server", "--disable-dev-shm-usage",
                "--disable-backgrounding-occluded-windows", "--disable-renderer-backgrounding", "about:blank",
            ],
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        told = Path(folder, "DevToolsActivePort")
        eventually(lambda: told.exists() and len(told.read_text().split()) == 2)
        port, path = told.read_text().split()
        self._open = contextlib.ExitStack()
        self._connection = self._open.enter_context(
            connect(f"ws://127.0.0.1:{port}{path}", max_size=None, proxy=None, open_timeout=240)
        )
        self._numbers = count(1)

    def call(self, method: str, session: str | None = None, **parameters):
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        self._connection.send(json.dumps(message))
        while True:
            try:
                reply = json.loads(self._connection.recv(timeout=240))
            except TimeoutError:
                raise BrowserError(f"no answer to {method}") from None
            if reply.get("id") == number:
                if "error" in reply:
                    raise BrowserError(reply)
                return reply["result"]

    def open(self, url: str, settle: Callable[[], object]) -> "Page":
        """A page of its own; `settle` is called behind each key and click, and waits until the host saw it."""
        target = self.call("Target.createTarget", url="about:blank", width=WIDTH, height=HEIGHT, newWindow=True)
        session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        page = Page(self, session, settle)
        page.call("Emulation.setDeviceMetricsOverride", width=WIDTH, height=HEIGHT, deviceScaleFactor=1, mobile=False)
        page.call("Emulation.setFocusEmulationEnabled", enabled=True)
        page.call("Page.navigate", url=url)
        eventually(page.loaded)
        return page

    def close(self) -> None:
        self._open.close()
        self._process.terminate()
        self._process.wait()


class Page:
    def __init__(self, browser: Browser, session: str, settle: Callable[[], object]):
        self._browser, self._session, self._host_settles = browser, session, settle

    def call(self, method: str, **parameters):
        return self._browser.call(method, self._session, **parameters)

    def loaded(self) -> bool:
        """False also while Chromium moves the page into another process."""
        try:
            self.pixels(scale=0.02)
            state = self.call("Runtime.evaluate", expression="location.host && document.readyState")
        except BrowserError:
            return False
        return state["result"].get("value") == "complete"

    def click(self, x: float, y: float, times: int = 1) -> None:
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self._settle()
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=times)
            self._settle()

    def press(self, key: str, control: bool = False) -> None:
        code, number = _CODES.get(key) or (f"Digit{key}", ord(key))
        shared = {"key": key, "code": code, "windowsVirtualKeyCode": number, "modifiers": 2 if control else 0}
        text = {"text": key} if len(key) == 1 and not control else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", **shared, **text)
        self._settle()
        self.call("Input.dispatchKeyEvent", type="keyUp", **shared)
        self._settle()

    def _settle(self) -> None:
        """Mouse and keys travel as what they are in each frame of the page, looked at in each frame of the host."""
        for _ in range(2):
            self.call("Runtime.evaluate", expression="new Promise(requestAnimationFrame)", awaitPromise=True)
        self._host_settles()

    def pixels(self, scale: float = 0.25) -> np.ndarray:
        """What the page shows, RGB as integers, made smaller."""
        clip = {"x": 0, "y": 0, "width": WIDTH, "height": HEIGHT, "scale": scale}
        return decode_png(base64.b64decode(self.call("Page.captureScreenshot", format="png", clip=clip)["data"]))


def decode_png(blob: bytes) -> np.ndarray:
    """An 8-bit RGB or RGBA PNG without interlacing, as integers (height, width, 3)."""
    width, height, colour_type = int.from_bytes(blob[16:20]), int.from_bytes(blob[20:24]), blob[25]
    size, at, packed = {2: 3, 6: 4}[colour_type], 8, b""
    while at < len(blob):
        length = int.from_bytes(blob[at : at + 4])
        if blob[at + 4 : at + 8] == b"IDAT":
            packed += blob[at + 8 : at + 8 + length]
        at += 12 + length
    rows = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, 1 + width * size).astype(int)
    above = [0] * (width * size)
    out = np.zeros((height, width * size), int)
    for y in range(height):
        above = _unfilter(rows[y, 0], rows[y, 1:].tolist(), above, size)
        out[y] = above
    return out.reshape(height, width, size)[..., :3]


def _unfilter(kind: int, row: list[int], above: list[int], size: int) -> list[int]:
    for i in range(len(row)):
        left = row[i - size] if i >= size else 0
        corner = above[i - size] if i >= size else 0
        row[i] = (row[i] + (0, left, above[i], (left + above[i]) // 2, _paeth(left, above[i], corner))[kind]) % 256
    return row


def _paeth(left: int, up: int, corner: int) -> int:
    guess = left + up - corner
    return min((left, up, corner), key=lambda value: abs(guess - value))
