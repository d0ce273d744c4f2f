"""`nexus serve --backend` before two real llama-server processes.

Needs what scripts/fetch_llama_server builds; skipped where it hasn't been run.
"""

import http.client
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).parents[2]
found = subprocess.run([ROOT / "scripts" / "fetch_llama_server", "--where"],
                       stdout=subprocess.PIPE, text=True)
if found.returncode != 0:
    print("skipped: no llama-server here; scripts/fetch_llama_server builds it")
    sys.exit(77)
LLAMA_SERVER = found.stdout.strip()

from serve_e2e_test import BIN, MODEL, TOOLS, Server, free_port


class LlamaServer:
    def __init__(self, weights):
        self.port = free_port()
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [LLAMA_SERVER, "-m", weights, "--port", str(self.port), "--host",
             "127.0.0.1", "-c", "2048", "-np", "1", "-t", "1", "--jinja"],
            stdout=self.log, stderr=subprocess.STDOUT)
        self.url = f"http://127.0.0.1:{self.port}"

    def await_ready(self):
        deadline = time.monotonic() + 180
        while True:
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port,
                                                        timeout=10)
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    return
            except OSError:
                pass
            finally:
                connection.close()
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.log.seek(0)
                raise AssertionError(self.log.read().decode(errors="replace"))
            time.sleep(0.2)

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.log.close()


class LlamaServerBackendTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        weights = subprocess.run([BIN, "pull", MODEL], stdout=subprocess.PIPE,
                                 check=True, text=True).stdout.strip()
        cls.remotes = [LlamaServer(weights), LlamaServer(weights)]
        for remote in cls.remotes:
            remote.await_ready()
        cls.server = Server("--backend", ",".join(r.url for r in cls.remotes),
                            "--backend-probe", "1")

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0
        for remote in cls.remotes:
            remote.stop()

    def requests_of(self):
        _, _, text = self.server.request("GET", "/metrics")
        return [int(n) for n in re.findall(
            r"^nexus_backend_requests_total\{.*\} (\d+)$", text, re.M)]

    def test_1_words_whole_and_as_a_stream(self):
        answer = self.server.chat(max_tokens=8, temperature=0)
        self.assertTrue(answer["choices"][0]["message"]["content"])
        text = "".join(choice["delta"].get("content") or ""
                       for event in self.server.stream(max_tokens=8, temperature=0)
                       for choice in event["choices"])
        self.assertEqual(text, answer["choices"][0]["message"]["content"])

    def test_2_a_routed_call(self):
        for stream in (False, True):
            with self.subTest(stream=stream):
                if stream:
                    events = self.server.stream(tools=TOOLS, nexus=True, max_tokens=32,
                                                temperature=0)
                    report = [e["nexus"] for e in events if "nexus" in e][-1]
                    self.assertTrue(any("tool_calls" in choice["delta"]
                                        for e in events for choice in e["choices"]))
                else:
                    answer = self.server.chat(tools=TOOLS, nexus=True, max_tokens=32,
                                              temperature=0)
                    report = answer["nexus"]
                    (call,) = answer["choices"][0]["message"]["tool_calls"]
                    self.assertIn("city", json.loads(call["function"]["arguments"]))
                self.assertEqual(report["tools"], {"given": 3, "sent": 1,
                                                   "schema": "full"})
                self.assertEqual(report["call"]["tool"], "get_weather")
                self.assertTrue(report["call"]["valid"], report)

    def test_3_the_next_turn_finds_its_prefix_cached(self):
        first = [{"role": "system", "content": "You answer in one word. " * 12},
                 {"role": "user", "content": "Name a colour."}]
        before = self.requests_of()
        answer = self.server.chat(messages=first, max_tokens=4, temperature=0)
        second = self.server.chat(
            messages=[*first, answer["choices"][0]["message"],
                      {"role": "user", "content": "Another."}],
            max_tokens=4, temperature=0)
        # Both went to one replica, whose own cache had the beginning.
        self.assertIn(2, [b - a for a, b in zip(before, self.requests_of())])
        cached = second["usage"]["prompt_tokens_details"]["cached_tokens"]
        self.assertGreater(cached, answer["usage"]["prompt_tokens"] // 2)

    def test_4_the_other_replica_takes_over(self):
        self.remotes[0].stop()
        for i in range(4):
            self.server.chat(messages=[{"role": "user", "content": f"Say {i}."}],
                             max_tokens=2)
        deadline = time.monotonic() + 60
        while True:
            body = json.loads(self.server.request("GET", "/health")[2])
            if body["backends"]["up"] == 1:
                break
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
