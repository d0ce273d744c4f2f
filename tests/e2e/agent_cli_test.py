"""`llm`, an agent for the shell as PyPI has it, against `nexus serve`: it gets a question
and functions, calls the one that the server routes to, and prints the answer.

Run by ctest with NEXUS_BIN set to the program and NEXUS_AGENTS_PYTHON to what
scripts/fetch_agents prints; scripts/test brings it.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from serve_e2e_test import MODEL, WEATHER, Server

PYTHON = os.environ.get("NEXUS_AGENTS_PYTHON")
if not PYTHON:
    sys.exit("NEXUS_AGENTS_PYTHON isn't set: run scripts/test, or give it what "
             "scripts/fetch_agents prints")
QUESTION = WEATHER[0]["content"]
FUNCTIONS = '''
import json, os

def get_weather(city: str) -> str:
    "Get the current weather in a city"
    with open(os.environ["NEXUS_TEST_CALLS"], "a") as calls:
        calls.write(city + "\\n")
    return json.dumps({"city": city, "celsius": 18})

def send_email(to: str, body: str) -> str:
    "Send an email message to a person"
    raise ValueError("nobody asked for mail")

def convert_currency(amount: float, to: str) -> str:
    "Convert an amount of money between currencies"
    raise ValueError("nobody asked for money")
'''


class AgentTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(env={"NEXUS_API_KEY": "a key"})
        cls.dir = tempfile.TemporaryDirectory(prefix="nexus-agent-")
        cls.folder = pathlib.Path(cls.dir.name)
        url = f"http://127.0.0.1:{cls.server.port}/v1"
        # JSON is YAML. This is what the program's own manual tells its users to write.
        (cls.folder / "extra-openai-models.yaml").write_text(json.dumps([
            {"model_id": "chat", "model_name": MODEL, "api_base": url,
             "api_key_name": "nexus", "supports_tools": True, "supports_schema": True},
            {"model_id": "responses", "model_name": MODEL, "api_base": url,
             "api_key_name": "nexus", "supports_tools": True, "responses": True},
        ]))
        (cls.folder / "keys.json").write_text(json.dumps({"nexus": "a key"}))
        cls.calls = cls.folder / "calls"

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0
        cls.dir.cleanup()

    def llm(self, *args, code=0):
        self.calls.write_text("")
        done = subprocess.run(
            [PYTHON, "-m", "llm", *args], capture_output=True, text=True, timeout=300,
            stdin=subprocess.DEVNULL, cwd=self.folder, check=False,
            env={**os.environ, "LLM_USER_PATH": str(self.folder),
                 "NEXUS_TEST_CALLS": str(self.calls)})
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def ask(self, model, *more):
        """A whole loop: one call of the tool, then words."""
        done = self.llm("-m", model, "--functions", FUNCTIONS, "--tools-debug",
                        "-o", "max_tokens", "32", *more, QUESTION)
        self.assertEqual(len(self.calls.read_text().splitlines()), 1, done.stderr)
        self.assertIn("get_weather", done.stderr)
        self.assertTrue(done.stdout.strip())

    def test_a_loop_over_chat(self):
        self.ask("chat", "--no-stream")

    def test_a_streamed_loop_over_chat(self):
        self.ask("chat")
        [first, second] = json.loads(self.llm("logs", "-n", "2", "--json").stdout)
        self.assertEqual(first["tool_calls"][0]["name"], "get_weather")
        self.assertIn("celsius", second["tool_results"][0]["output"])

    def test_a_loop_over_responses(self):
        self.ask("responses", "--no-stream")

    def test_a_streamed_loop_over_responses(self):
        self.ask("responses")

    def test_an_answer_under_a_schema(self):
        done = self.llm("-m", "chat", "--schema", "name, age int", "Ann is 34 years old.")
        self.assertIsInstance(json.loads(done.stdout)["age"], int)

    def test_an_unknown_model_is_named(self):
        done = self.llm("openai", "endpoint", f"http://127.0.0.1:{self.server.port}/v1",
                        "-m", "gpt-4o", "--key", "a key", "hello", code=1)
        self.assertIn("gpt-4o", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
