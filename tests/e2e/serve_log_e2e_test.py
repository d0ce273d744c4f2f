"""What `nexus serve` writes to its log, and how it starts without any argument.

Run by ctest with NEXUS_BIN set to the program.
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import unittest

from serve_e2e_test import BIN, MODEL, TOOLS, Server

SECRET = "sk-do-not-log-me"
PHRASE = "quinquagesima"  # stands in a prompt and nowhere else


class LogTest(unittest.TestCase):
    def test_json_has_a_line_for_each_request_and_no_secret_or_prompt(self):
        server = Server("--log-format", "json", "--log-level", "debug",
                        env={"NEXUS_API_KEY": SECRET})
        key = {"Authorization": "Bearer " + SECRET}
        body = {"model": MODEL, "max_tokens": 8, "tools": TOOLS, "messages": [
            {"role": "user", "content": f"What is the weather in {PHRASE}?"}]}
        status, headers, _ = server.request("POST", "/v1/chat/completions?k=" + SECRET,
                                            body, key)
        self.assertEqual(status, 200)
        _, streamed, _ = server.request("POST", "/v1/chat/completions",
                                        {**body, "stream": True}, key)
        wrong, _, _ = server.request("GET", "/v1/models", None,
                                     {"Authorization": "Bearer " + PHRASE})
        self.assertEqual(wrong, 401)
        server.request("GET", "/health")
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(timeout=60)
        text = (pathlib.Path(server.dir.name) / "stderr").read_text()
        server.stop()

        lines = [json.loads(line) for line in text.splitlines()]
        for line in lines:
            self.assertRegex(line["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
            self.assertIn(line["level"], ("error", "warn", "info", "debug"))
            self.assertIsInstance(line["message"], str)
        requests = {line["request_id"]: line for line in lines if "request_id" in line}
        self.assertEqual(len(requests), 4)
        for answered in (headers, streamed):
            line = requests[answered["X-Request-Id"]]
            self.assertEqual((line["method"], line["path"], line["status"]),
                             ("POST", "/v1/chat/completions", 200))
            self.assertGreater(line["prompt_tokens"], 0)
            self.assertGreater(line["completion_tokens"], 0)
            self.assertGreaterEqual(line["duration_ms"], line["ttft_ms"])
            self.assertTrue(line["tier"])
        others = sorted((line["path"], line["status"]) for line in requests.values()
                        if "tier" not in line)
        self.assertEqual(others, [("/health", 200), ("/v1/models", 401)])
        self.assertTrue(any(line.get("source") == "engine" for line in lines))
        for private in (SECRET, PHRASE, "get_weather"):
            self.assertNotIn(private, text)

    def test_text_has_one_line_for_a_request_whatever_its_path(self):
        server = Server()
        # A line end in the path must not begin a line of the log.
        server.request("GET", "/no%0Anexus:%20forged")
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(timeout=60)
        text = (pathlib.Path(server.dir.name) / "stderr").read_text()
        server.stop()
        self.assertEqual(len([line for line in text.splitlines() if " 404 " in line]), 1,
                         text)
        self.assertNotIn("\nnexus: forged", text)


class StartTest(unittest.TestCase):
    def test_without_any_argument_the_default_model_is_served(self):
        env = {k: v for k, v in os.environ.items() if not k.startswith("NEXUS_")}
        env.update(NEXUS_CONFIG=os.devnull, NEXUS_PORT="0")
        for name in ("NEXUS_CACHE_DIR", "NEXUS_MODELS_DIR"):
            if name in os.environ:
                env[name] = os.environ[name]
        with subprocess.Popen([BIN, "serve"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, env=env) as server:
            line = server.stdout.readline()
            server.send_signal(signal.SIGTERM)
            _, err = server.communicate(timeout=120)
        self.assertRegex(line, r"^qwen2.5-coder-0.5b listening on http://127.0.0.1:\d+",
                         err)
        self.assertEqual(server.returncode, 0)

    def test_weights_that_can_not_be_had_are_named_with_what_brings_them(self):
        with tempfile.TemporaryDirectory() as empty:
            env = {**os.environ, "NEXUS_MODELS_DIR": empty, "NEXUS_PYTHON": "/bin/false"}
            for flags, code in (([], None), (["--no-pull"], 3)):
                done = subprocess.run([BIN, "serve", "--port", "0", *flags], env=env,
                                      capture_output=True, text=True, timeout=60)
                self.assertNotEqual(done.returncode, 0)
                if code is not None:
                    self.assertEqual(done.returncode, code)
                self.assertTrue(re.search(r"nexus pull", done.stderr.splitlines()[-1]),
                                done.stderr)


if __name__ == "__main__":
    unittest.main()
