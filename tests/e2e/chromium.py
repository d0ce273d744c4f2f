"""A headless Chromium, driven over its debugging pipe: enough of the DevTools
protocol to press keys, read the page and take pictures of it. Only the standard
library is used.
"""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time


def find():
    """The program, or None."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser",
                                                 "google-chrome"))), None)


class Chromium:
    def __init__(self, program):
        self.dir = tempfile.TemporaryDirectory(prefix="nexus-chromium-")
        commands, self.to = os.pipe()
        self.back, answers = os.pipe()
        # Chromium reads commands from descriptor 3 and answers on 4. The shell puts
        # them there, whatever their numbers are here.
        self.process = subprocess.Popen(
            ["sh", "-c", f'exec "$0" "$@" 3<&{commands} 4>&{answers}', program,
             "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--no-first-run", "--hide-scrollbars", "--remote-debugging-pipe",
             "--user-data-dir=" + self.dir.name, "about:blank"],
            pass_fds=(commands, answers), stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        os.close(commands)
        os.close(answers)
        self.count = 0
        self.rest = b""
        self.events = []
        self.session = None
        targets = self.send("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        self.session = self.send("Target.attachToTarget", targetId=page["targetId"],
                                 flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(domain + ".enable")

    def close(self):
        self.process.terminate()
        self.process.wait(timeout=30)
        os.close(self.to)
        os.close(self.back)
        for _ in range(50):  # its children write to the folder a little longer
            try:
                self.dir.cleanup()
                return
            except OSError:
                time.sleep(0.1)

    def send(self, method, **parameters):
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self.count:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def _read(self):
        while b"\0" not in self.rest:
            piece = os.read(self.back, 1 << 16)
            if not piece:
                raise AssertionError("Chromium has ended")
            self.rest += piece
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def evaluate(self, script):
        result = self.send("Runtime.evaluate", expression=script, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in result:
            raise AssertionError(f"{script}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, script, seconds=180):
        """Until the expression is true."""
        deadline = time.monotonic() + seconds
        while not self.evaluate(f"!!({script})"):
            if time.monotonic() > deadline:
                raise AssertionError(f"never true: {script}; the page says\n"
                                     + self.evaluate("document.body.innerText"))
            time.sleep(0.1)

    def open(self, url):
        self.send("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def look(self, width=1240, height=900, scheme="light"):
        """Size of the window, and which of the two themes the user prefers."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=width < 600)
        self.send("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": scheme}])

    def press(self, key, code=0, text="", ctrl=False):
        common = {"key": key, "windowsVirtualKeyCode": code, "modifiers": 2 if ctrl else 0}
        self.send("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.send("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text):
        self.send("Input.insertText", text=text)

    def screenshot(self, path):
        data = self.send("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def complaints(self):
        """What the console says went wrong: exceptions, refused loads."""
        found = []
        for event in self.events:
            params = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(json.dumps(params["exceptionDetails"])[:500])
            elif event.get("method") == "Log.entryAdded":
                if params["entry"]["level"] in ("error", "warning"):
                    found.append(params["entry"]["text"])
        return found

    def requested(self):
        return [event["params"]["request"]["url"] for event in self.events
                if event.get("method") == "Network.requestWillBeSent"]
