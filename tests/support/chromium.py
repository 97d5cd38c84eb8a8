"""A headless Chromium driven over its DevTools pipe with the standard library alone."""

import base64
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"),
    *("--no-first-run", "--disable-extensions", "--disable-background-networking", "--remote-debugging-pipe"),
)
# The protocol speaks on descriptors 3 and 4 of the browser.
_TRAMPOLINE = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
_PATIENCE = 300  # seconds for one answer; a busy machine has been seen to give a test 2 s of work in 240 s


def start():
    """A running browser; skips the test where none is installed."""
    program = next((found for name in _NAMES if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip(f"no Chromium on PATH ({', '.join(_NAMES)})")
    return Chromium(program)


class Chromium:
    """One browser with one page; remembers what the page logged and asked the network for."""

    def __init__(self, program):
        self.profile = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        theirs_in, self.out = (_high(fd) for fd in os.pipe())
        self.inp, theirs_out = (_high(fd) for fd in os.pipe())
        arguments = [program, *_FLAGS, f"--user-data-dir={self.profile.name}", "about:blank"]
        self.process = subprocess.Popen(
            [sys.executable, "-c", _TRAMPOLINE, str(theirs_in), str(theirs_out), *arguments],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        os.set_blocking(self.inp, False)
        self.buffer, self.number, self.session = b"", 0, None
        self.logged, self.requested = [], []
        target = next(t for t in self.send("Target.getTargets")["targetInfos"] if t["type"] == "page")
        attached = self.send("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=_PATIENCE)
        os.close(self.out)
        os.close(self.inp)
        self.profile.cleanup()

    def send(self, method, **params):
        """The result of one command."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            for answer in self._read():
                if answer.get("id") == self.number:
                    assert "error" not in answer, answer
                    return answer["result"]
                self._note(answer)
            time.sleep(0.005)
        raise TimeoutError(method)

    def open(self, path, *, width=1280, height=900, scheme="light", media="screen"):
        """Load a file and wait until its charts are drawn (or it says that they cannot be)."""
        self.logged.clear()
        self.requested.clear()
        self.show(width=width, height=height, scheme=scheme, media=media)
        self.send("Page.navigate", url=Path(path).resolve().as_uri())
        deadline = time.monotonic() + _PATIENCE
        while not self.run("document.documentElement?.dataset.drawn || ''"):
            assert time.monotonic() < deadline, f"charts were not drawn: {self.logged}"
            time.sleep(0.05)

    def show(self, *, width=1280, height=900, scheme="light", media="screen"):
        """Set the size of the window, light or dark, screen or print."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.send("Emulation.setDeviceMetricsOverride", **size)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.send("Emulation.setEmulatedMedia", media="" if media == "screen" else media, features=features)

    def run(self, expression):
        """The JSON value of a JavaScript expression."""
        found = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def press(self, key, text=None):
        """One key, as from a keyboard."""
        event = {"key": key, "code": key, "windowsVirtualKeyCode": {"Tab": 9, "Enter": 13}[key]}
        if text:
            event["text"] = text
        self.send("Input.dispatchKeyEvent", type="keyDown", **event)
        self.send("Input.dispatchKeyEvent", type="keyUp", **event)

    def picture(self, path):
        """A PNG of the whole page."""
        data = self.send("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        Path(path).write_bytes(base64.b64decode(data))

    def pdf(self, path):
        """The page as it prints."""
        Path(path).write_bytes(base64.b64decode(self.send("Page.printToPDF", printBackground=True)["data"]))

    def _read(self):
        try:
            chunk = os.read(self.inp, 1 << 20)
        except BlockingIOError:
            return []
        assert chunk, "the browser ended"
        *whole, self.buffer = (self.buffer + chunk).split(b"\0")
        return [json.loads(part) for part in whole]

    def _note(self, event):
        method, params = event.get("method"), event.get("params", {})
        if method == "Runtime.consoleAPICalled":
            values = " ".join(str(a.get("value", a.get("description"))) for a in params["args"])
            self.logged.append(f"{params['type']}: {values}")
        elif method == "Runtime.exceptionThrown":
            self.logged.append(f"exception: {params['exceptionDetails'].get('exception', params)}")
        elif method == "Log.entryAdded":
            self.logged.append(f"{params['entry']['level']}: {params['entry']['text']}")
        elif method == "Network.requestWillBeSent":
            self.requested.append(params["request"]["url"])


def _high(descriptor):
    """The same pipe on a number that is neither 3 nor 4."""
    high = fcntl.fcntl(descriptor, fcntl.F_DUPFD, 20)
    os.close(descriptor)
    return high
