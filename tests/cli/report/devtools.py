"""A browser without a window, driven as a user would: pointer, wheel, keys. By the DevTools protocol over
two pipes (--remote-debugging-pipe: JSON messages that end with a zero byte)."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def find_browser():
    """The path of a Chromium, or None. CUBFC_TEST_BROWSER names another one."""
    named = os.environ.get("CUBFC_TEST_BROWSER")
    return named or next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One page. A call that takes longer than `patience` seconds raises TimeoutError."""

    def __init__(self, path, width=1400, height=1300, patience=90):
        self.patience = patience
        self.folder = tempfile.TemporaryDirectory(prefix="cubfc-page-", ignore_cleanup_errors=True)
        to_browser, self.requests = os.pipe()
        self.answers, from_browser = os.pipe()
        command = [path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                   "--no-first-run", "--hide-scrollbars", "--remote-debugging-pipe",
                   f"--user-data-dir={self.folder.name}", f"--window-size={width},{height}", "about:blank"]
        # The browser reads descriptor 3 and writes descriptor 4.
        script = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        self.process = subprocess.Popen(
            ["bash", "-c", script, "bash", *command], pass_fds=(to_browser, from_browser),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.buffer = b""
        self.number = 0
        self.session = None
        self.events = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=False)

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
        except (OSError, TimeoutError, RuntimeError):
            self.process.kill()
        self.process.wait(timeout=30)
        os.close(self.requests)
        os.close(self.answers)
        self.folder.cleanup()

    def _receive(self, until):
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.answers], [], [], max(0, until - time.monotonic()))
            if not ready:
                raise TimeoutError("the browser does not answer")
            data = os.read(self.answers, 1 << 16)
            if not data:
                raise OSError("the browser has ended")
            self.buffer += data
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.requests, data):]
        until = time.monotonic() + self.patience
        while True:
            answer = self._receive(until)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"])[:2000])
        return answer["result"].get("value")

    def open(self, url):
        self.call("Page.navigate", url=url)

    def wait(self, expression, what=None):
        until = time.monotonic() + self.patience
        while time.monotonic() < until:
            if self.evaluate(expression):
                return
            time.sleep(0.02)
        raise TimeoutError(what or expression)

    def drawn(self):
        """What was changed has been drawn."""
        self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def settle(self):
        """The tables, which come later, are there as well."""
        self.evaluate("new Promise((done) => setTimeout(done, 200))")
        self.drawn()

    def text(self, selector):
        return self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText")

    def box(self, selector):
        """left, top, width, height in the window, after scrolling there."""
        self.evaluate(f"document.querySelector({json.dumps(selector)}).scrollIntoView({{block: 'center'}})")
        return self.evaluate(f"(() => {{ const b = document.querySelector({json.dumps(selector)})"
                             ".getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; })()")

    def pointer(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x, y, **more):
        self.pointer("mouseMoved", x, y)
        self.pointer("mousePressed", x, y, button="left", buttons=1, clickCount=1, **more)
        self.pointer("mouseReleased", x, y, button="left", clickCount=1, **more)

    def click_on(self, selector):
        left, top, width, height = self.box(selector)
        self.click(left + width / 2, top + height / 2)

    def drag(self, x, y, to_x, to_y, **more):
        self.pointer("mouseMoved", x, y, **more)
        self.pointer("mousePressed", x, y, button="left", buttons=1, clickCount=1, **more)
        for step in range(1, 6):
            self.pointer("mouseMoved", x + (to_x - x) * step / 5, y + (to_y - y) * step / 5, button="left",
                         buttons=1, **more)
        self.pointer("mouseReleased", to_x, to_y, button="left", clickCount=1, **more)

    def key(self, key, shift=False):
        codes = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Home": 36, "End": 35,
                 "Enter": 13, "Escape": 27, "Tab": 9, "PageUp": 33, "PageDown": 34}
        more = {"text": key} if len(key) == 1 else {"windowsVirtualKeyCode": codes[key], "code": key}
        if key == "Enter":
            more["text"] = "\r"
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, modifiers=8 if shift else 0,
                      **(more if kind == "keyDown" else {k: v for k, v in more.items() if k != "text"}))

    def choose_option(self, selector, value):
        """As if a user had chosen it in the list."""
        self.evaluate(f"(() => {{ const s = document.querySelector({json.dumps(selector)}); s.value = "
                      f"{json.dumps(value)}; s.dispatchEvent(new Event('change', {{bubbles: true}})); }})()")

    def screenshot(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
