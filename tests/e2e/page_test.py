"""The page at / of `nexus serve`, in a headless Chromium, as somebody at the keyboard
uses it.

Run by ctest with NEXUS_BIN set to the program. Skipped, with a message, where there
is no Chromium: Debian's takes 300 MB, too much for scripts/test to install unasked.
NEXUS_SCREENSHOTS names a folder for pictures of every view.
"""

import json
import os
import pathlib
import re
import sys
import tempfile
import unittest

import chromium
from serve_e2e_test import TOOLS, Server

PROGRAM = chromium.find()
VIEWS = ("ask", "tools", "store", "metrics", "calibration")
SHAPES = ((1240, 900, "light"), (1240, 900, "dark"), (390, 844, "light"),
          (390, 844, "dark"))
ENTER = ("Enter", 13, "\r")

# The least contrast of any text with what it stands on.
CONTRAST = """(() => {
  const light = (rgb) => rgb.map((v) => v / 255).map((v) =>
    v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const parse = (color) => color.match(/[\\d.]+/g).map(Number);
  const ground = (node) => {
    for (; node; node = node.parentElement) {
      const color = parse(getComputedStyle(node).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color.slice(0, 3);
    }
    return [255, 255, 255];
  };
  let least = 21;
  for (const node of document.querySelectorAll("body *")) {
    if (!node.checkVisibility() || node.closest(":disabled, .skip")) continue;
    const style = getComputedStyle(node);
    const isText = [...node.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    if (!isText) continue;
    const ink = light(parse(node instanceof SVGElement ? style.fill : style.color));
    const paper = light(ground(node));
    least = Math.min(least, (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05));
  }
  return least;
})()"""


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--tools", str(cls.tools_file()))
        cls.origin = f"http://127.0.0.1:{cls.server.port}"
        cls.browser = chromium.Chromium(PROGRAM)

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        assert cls.server.stop() == 0

    @classmethod
    def tools_file(cls):
        cls.dir = tempfile.TemporaryDirectory()
        path = pathlib.Path(cls.dir.name) / "tools.jsonl"
        path.write_text("".join(json.dumps(tool) + "\n" for tool in TOOLS))
        return path

    def setUp(self):
        self.browser.events.clear()
        self.browser.look()

    def tearDown(self):
        self.assertEqual(self.browser.complaints(), [])
        for url in self.browser.requested():
            self.assertTrue(url.startswith((self.origin, "data:")), url)

    def open(self, view):
        self.browser.open("about:blank")
        self.browser.open(f"{self.origin}/#/{view}")
        self.browser.wait("document.querySelector('#server').textContent.includes('mode')")

    def text(self, selector):
        return self.browser.evaluate(f"document.querySelector('{selector}').innerText")

    def picture(self, name):
        if folder := os.environ.get("NEXUS_SCREENSHOTS"):
            self.browser.screenshot(pathlib.Path(folder) / (name + ".png"))

    def test_a_question_and_its_result_from_the_keyboard(self):
        self.open("ask")
        self.browser.wait("document.querySelector('#source').innerText.includes('(3)')")
        self.browser.wait("document.activeElement.id === 'question'")
        self.browser.type("What is the weather in Paris right now?")
        self.browser.press(*ENTER, ctrl=True)
        self.browser.wait("document.querySelector('#report table')")
        self.assertIn("city", json.loads(self.text(".turn.call pre")))
        self.assertIn("get_weather", self.text("#report tr.best"))
        report = self.text("#report")
        for word in ("Tier", "margin", "cosine"):
            self.assertIn(word, report)
        steps = self.browser.evaluate(
            "[...document.querySelectorAll('#report svg text.strong')].map((t) => t.textContent)")
        self.assertEqual(steps, ["route", "plan", "queue", "map", "rotate", "repair",
                                 "prefill", "first token"])
        self.assertEqual(self.text("#question-label"), "Result of get_weather")
        self.browser.evaluate("document.querySelector('#limit').value = 8")
        self.browser.type("18 degrees, rain")
        self.browser.press(*ENTER, ctrl=True)
        self.browser.wait("document.querySelectorAll('.turn').length === 4 && "
                          "document.querySelector('#stop').hidden")
        self.assertEqual(self.text("#question-label"), "Question")
        for width, height, scheme in SHAPES:
            self.browser.look(width, height, scheme)
            self.picture(f"asked-{width}-{scheme}")
            self.assertGreaterEqual(self.browser.evaluate(CONTRAST), 4.5, (width, scheme))

    def test_pasted_tools_and_what_is_wrong_with_them(self):
        self.open("ask")
        self.browser.evaluate("""{
          const source = document.querySelector('#source');
          source.value = 'pasted';
          source.dispatchEvent(new Event('change'));
          document.querySelector('#question').value = 'hi';
          document.querySelector('#pasted').value = '{not json';
          document.querySelector('#pasted').focus();
        }""")
        self.browser.press(*ENTER, ctrl=True)
        self.browser.wait("!document.querySelector('#ask-error').hidden")
        self.assertIn("JSON", self.text("#ask-error"))
        self.browser.evaluate("document.querySelector('#pasted').value = "
                              + json.dumps(json.dumps([TOOLS[1]])))
        self.browser.evaluate("document.querySelector('#question').value = "
                              "'Send an email message to Ann, a person'")
        self.browser.press(*ENTER, ctrl=True)
        self.browser.wait("document.querySelector('#report h2')")
        self.assertNotIn("get_weather", self.text("#report"))

    def test_tabs_from_the_keyboard(self):
        self.open("ask")
        self.browser.evaluate("document.querySelector('#tab-ask').focus()")
        for view in VIEWS[1:]:
            self.browser.press("ArrowRight", 39)
            self.browser.wait(f"location.hash === '#/{view}'")
            self.assertEqual(self.browser.evaluate("document.activeElement.id"), "tab-" + view)
            self.assertTrue(self.browser.evaluate(f"!document.querySelector('#{view}').hidden"))
        self.browser.press("Home", 36)
        self.browser.wait("location.hash === '#/ask'")

    def test_the_registry_is_searched_by_the_router(self):
        self.open("tools")
        self.browser.wait("document.querySelectorAll('#tools tbody tr').length === 3")
        self.assertRegex(self.text("#tool-summary"), r"3 of 3 tools, \d+ tokens")
        self.browser.evaluate("document.querySelector('#tool-query').focus()")
        self.browser.type("how many dollars are five euros, convert the money")
        self.browser.wait("document.querySelector('#tool-summary').innerText.includes('router')")
        self.assertIn("convert_currency", self.text("#tools tbody tr"))

    def test_every_view_in_every_shape(self):
        self.server.chat(tools=TOOLS)
        self.server.await_metric("nexus_idle_runs_total", 1)
        marks = {"ask": "#question", "tools": "#tools tbody tr", "store": "#store-summary",
                 "metrics": "#plots svg", "calibration": "#profile-note"}
        for view in VIEWS:
            self.open(view)
            self.browser.wait(f"document.querySelector('{marks[view]}')")
            self.browser.wait(f"document.querySelector('#{view}').innerText.trim()")
            for width, height, scheme in SHAPES:
                self.browser.look(width, height, scheme)
                self.picture(f"{view}-{width}-{scheme}")
                wide = self.browser.evaluate(
                    "document.documentElement.scrollWidth - innerWidth")
                self.assertLessEqual(wide, 0, (view, width))
                self.assertGreaterEqual(self.browser.evaluate(CONTRAST), 4.5,
                                        (view, width, scheme))


class PageHeadersTest(unittest.TestCase):
    def test_the_page_is_open_the_rest_wants_the_key(self):
        server = Server(env={"NEXUS_API_KEY": "s3cret"})
        browser = chromium.Chromium(PROGRAM)
        try:
            status, headers, html = server.request("GET", "/")
            self.assertEqual(status, 200)
            policy = headers["Content-Security-Policy"]
            self.assertIn("default-src 'none'", policy)
            self.assertIn("frame-ancestors 'none'", policy)
            self.assertNotIn("unsafe", policy)
            self.assertIsNone(re.search(r"<script(?![^>]*src=)|\son\w+=|\sstyle=", html))
            for path in ("server", "tools", "store", "profile"):
                self.assertEqual(server.request("GET", "/v1/nexus/" + path)[0], 401)
            self.assertEqual(server.request("POST", "/")[0], 404)
            browser.look()
            browser.open(f"http://127.0.0.1:{server.port}/")
            browser.wait("!document.querySelector('#key-form').hidden")
            browser.evaluate("document.querySelector('#key').focus()")
            browser.type("s3cret")
            browser.press(*ENTER)
            browser.wait("document.querySelector('#server').textContent.includes('mode')")
            self.assertNotIn("s3cret", browser.evaluate("location.href"))
        finally:
            browser.close()
            self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    if PROGRAM is None:
        print("skipped: no chromium on the PATH, so the page isn't tested; "
              "on Debian, apt-get install chromium")
        sys.exit(77)
    unittest.main(verbosity=2)
