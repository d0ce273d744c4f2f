"""`nexus serve --backend` before remotes that misbehave as told, with OpenAI's own
Python client, as its users write it.

Run by ctest with NEXUS_BIN set to the program and NEXUS_OPENAI_PYTHON to what
scripts/fetch_openai_client prints; scripts/test brings it.
"""

import json
import os
import pathlib
import re
import shlex
import socket
import subprocess
import sys
import time
import unittest

try:
    import openai
except ImportError:
    # ctest runs this with any Python: change over to the one with the client.
    python = os.environ.get("NEXUS_OPENAI_PYTHON")
    if not python:
        sys.exit("NEXUS_OPENAI_PYTHON isn't set: run scripts/test, or give it what "
                 "scripts/fetch_openai_client prints")
    os.execv(python, [python, *sys.argv])

from fake_upstream import FakeUpstream
from serve_e2e_test import BIN, TOOLS, WEATHER, Server

KEY = "key-of-the-backend"
GOOD_CALL = ("calls", [("get_weather", '{"city": "Paris"}')])


class RemoteBackendTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.upstreams = [FakeUpstream(), FakeUpstream()]
        # Off: probes would change which replica a test finds well.
        cls.server = Server(
            "--backend", ",".join(each.url for each in cls.upstreams),
            "--backend-probe", "0", "--deadline", "20",
            env={"NEXUS_BACKEND_KEY": KEY})
        cls.client = openai.OpenAI(
            base_url=f"http://127.0.0.1:{cls.server.port}/v1", api_key="none",
            max_retries=0)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.server.log.seek(0)
        log = cls.server.log.read()
        assert KEY not in log, "the backend's key is in the log"
        assert cls.server.stop() == 0
        for each in cls.upstreams:
            each.close()

    def setUp(self):
        # All replicas well, and nothing left over from another test.
        for each in self.upstreams:
            each.default = ("words", "Hello from afar.")
            each.script()
        deadline = time.monotonic() + 90
        while not all(self.up()):
            self.assertLess(time.monotonic(), deadline)
            self.chat(messages=[{"role": "user", "content": str(time.monotonic())}])
            time.sleep(0.1)
        for each in self.upstreams:
            each.script()

    def up(self):
        _, _, text = self.server.request("GET", "/metrics")
        values = re.findall(r'^nexus_backend_circuit\{.*\} (\d)$', text, re.M)
        self.assertEqual(len(values), 2)
        return [value == "0" for value in values]

    def chat(self, **fields):
        return self.client.chat.completions.create(
            **{"model": "theirs", "messages": WEATHER, **fields})

    def script_all(self, *steps, default=None):
        """Both replicas, since it isn't said which one a request prefers."""
        for each in self.upstreams:
            each.script(*steps)
            if default:
                each.default = default

    def asked(self):
        return [body for each in self.upstreams for body in each.requests]

    def test_words_and_their_usage(self):
        answer = self.chat()
        self.assertEqual(answer.choices[0].message.content, "Hello from afar.")
        self.assertEqual(answer.usage.total_tokens, 18)
        self.assertEqual(answer.model, "theirs")
        self.assertTrue(answer.id.startswith("chatcmpl-"))
        keys = [key for each in self.upstreams for key in each.keys]
        self.assertEqual(keys, ["Bearer " + KEY])

    def test_a_stream_of_words(self):
        text = ""
        usage = None
        for chunk in self.chat(stream=True, stream_options={"include_usage": True}):
            usage = chunk.usage or usage
            for choice in chunk.choices:
                text += choice.delta.content or ""
        self.assertEqual(text, "Hello from afar. ")
        self.assertEqual(usage.total_tokens, 18)

    def test_only_the_routed_tool_goes_out(self):
        self.script_all(default=GOOD_CALL)
        answer = self.chat(tools=TOOLS, extra_body={"nexus": True})
        call = answer.choices[0].message.tool_calls[0]
        self.assertEqual(json.loads(call.function.arguments), {"city": "Paris"})
        (body,) = self.asked()
        self.assertEqual(body["tools"], [TOOLS[0]])
        self.assertEqual(body["tool_choice"], "required")
        self.assertNotIn("nexus", body)
        report = answer.model_extra["nexus"]
        self.assertEqual(report["tier"], "remote")
        self.assertEqual(report["route"]["tool"], "get_weather")
        self.assertTrue(report["call"]["valid"])

    def test_pin_sends_all_tools(self):
        self.chat(tools=TOOLS, extra_body={"nexus": {"tools": "pin"}})
        (body,) = self.asked()
        self.assertEqual(body["tools"], TOOLS)
        self.assertNotIn("tool_choice", body)

    def test_a_wrong_call_is_repaired_before_it_goes_out(self):
        wrong = ("calls", [("get_weather", '{"town": 3}')])
        for stream in (False, True):
            with self.subTest(stream=stream):
                self.script_all(wrong, default=GOOD_CALL)
                if stream:
                    with self.client.chat.completions.stream(
                            model="theirs", messages=WEATHER, tools=TOOLS) as events:
                        for _ in events:
                            pass
                        answer = events.get_final_completion()
                else:
                    answer = self.chat(tools=TOOLS)
                (call,) = answer.choices[0].message.tool_calls
                self.assertEqual(json.loads(call.function.arguments),
                                 {"city": "Paris"})
                first, second = self.asked()
                self.assertEqual(second["messages"][-1]["role"], "tool")
                self.assertIn("city", second["messages"][-1]["content"])

    def test_an_agents_loop_over_a_stream(self):
        self.script_all(default=GOOD_CALL)
        with self.client.chat.completions.stream(
                model="theirs", messages=WEATHER, tools=TOOLS) as events:
            for _ in events:
                pass
            message = events.get_final_completion().choices[0].message
        call = message.tool_calls[0]
        self.script_all(default=("words", "It is warm."))
        answer = self.chat(tools=TOOLS, messages=[
            *WEATHER,
            {"role": "assistant", "content": None, "tool_calls": [
                {"id": call.id, "type": "function",
                 "function": {"name": call.function.name,
                              "arguments": call.function.arguments}}]},
            {"role": "tool", "tool_call_id": call.id, "content": "18"}])
        self.assertEqual(answer.choices[0].message.content, "It is warm.")
        (body,) = self.asked()
        self.assertIn(TOOLS[0], body["tools"])
        self.assertNotIn("tool_choice", body)

    def test_trouble_that_goes_away_is_not_seen(self):
        for step in (("status", 500), ("status", 502), ("status", 503), ("cut", None),
                     ("status", (429, {"Retry-After": "0.2"})),
                     ("raw", ("text/html", b"<html>"))):
            for stream in (False, True):
                with self.subTest(step=step, stream=stream):
                    self.script_all(step)
                    answer = self.chat(stream=stream)
                    if stream:
                        self.assertTrue(list(answer)[-1].choices[0].finish_reason)
                    else:
                        self.assertTrue(answer.choices[0].message.content)

    def test_trouble_that_stays_is_an_error_of_openais_shape(self):
        for step, kind, code in (
                (("status", 500), openai.InternalServerError, "backend_error"),
                (("cut", None), openai.InternalServerError, "backend_unreachable"),
                (("raw", ("application/json", b'{"choices": [')),
                 openai.InternalServerError, "backend_bad_answer"),
                (("raw", ("text/event-stream", b"\x00\xff" * 2000)),
                 openai.InternalServerError, "backend_bad_answer"),
                (("status", 401), openai.InternalServerError, "backend_refused_key"),
                (("status", 422), openai.UnprocessableEntityError, None)):
            for stream in (False, True):
                with self.subTest(step=step, stream=stream):
                    self.script_all(default=step)
                    with self.assertRaises(kind) as caught:
                        self.chat(stream=stream)
                    self.assertEqual(caught.exception.code, code)
                    self.assertNotIn(KEY, str(caught.exception))

    def test_half_a_stream_ends_with_an_error(self):
        self.script_all(default=("half", "Hello from afar."))
        with self.assertRaises(openai.APIError) as caught:
            list(self.chat(stream=True))
        self.assertIn("ended before", str(caught.exception))
        # What has begun to go out is never asked for again.
        self.assertEqual(len(self.asked()), 1)

    def test_turns_of_a_conversation_go_to_the_same_replica(self):
        homes = set()
        for i in range(8):
            first = [{"role": "user", "content": f"conversation {i}"}]
            self.script_all()
            self.chat(messages=first)
            self.chat(messages=[*first, {"role": "assistant", "content": "Yes?"},
                                {"role": "user", "content": "go on"}])
            asked = [len(each.requests) for each in self.upstreams]
            self.assertIn(asked, ([2, 0], [0, 2]))
            homes.add(asked[0])
        self.assertEqual(homes, {0, 2})

    def test_a_client_that_leaves_ends_the_work(self):
        self.script_all(default=("slow", 15))
        body = json.dumps({"model": "theirs", "messages": WEATHER}).encode()
        with socket.create_connection(("127.0.0.1", self.server.port)) as connection:
            connection.sendall(
                b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
                b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                % len(body) + body)
            self.await_in_flight(1)
            # The one that waits and the one that asks.
            self.assertGreaterEqual(self.gauge("nexus_connections"), 2)
        self.await_in_flight(0)

    def gauge(self, name):
        _, _, text = self.server.request("GET", "/metrics")
        (value,) = re.findall(rf"^{name} (\d+)$", text, re.M)
        return int(value)

    def await_in_flight(self, count):
        deadline = time.monotonic() + 12
        while True:
            _, _, text = self.server.request("GET", "/metrics")
            values = re.findall(r'^nexus_backend_in_flight\{.*\} (\d+)$', text, re.M)
            if (sum(map(int, values)) == count
                    and self.gauge("nexus_requests_running") == count):
                return
            self.assertLess(time.monotonic(), deadline, text)
            time.sleep(0.05)

    def test_requests_that_are_none_never_go_out(self):
        for fields in ({"messages": []}, {"tools": [{"type": "function"}]},
                       {"tool_choice": "sometimes"}):
            with self.assertRaises(openai.BadRequestError):
                self.chat(**fields)
        self.assertEqual(self.asked(), [])


class HealthTest(unittest.TestCase):
    def test_probes_take_a_replica_out_and_in_again(self):
        upstream = FakeUpstream()
        server = Server("--backend", upstream.url, "--backend-probe", "1")
        try:
            deadline = time.monotonic() + 30
            while '"theirs"' not in server.request("GET", "/v1/models")[2]:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.1)
            for healthy, status in ((True, 200), (False, 503), (True, 200)):
                upstream.healthy = healthy
                deadline = time.monotonic() + 30
                while server.request("GET", "/health")[0] != status:
                    self.assertLess(time.monotonic(), deadline)
                    time.sleep(0.1)
        finally:
            self.assertEqual(server.stop(), 0)
            upstream.close()


class ReadmeTest(unittest.TestCase):
    def test_the_readmes_commands_run_as_written(self):
        readme = pathlib.Path(__file__).parents[2] / "README.md"
        command = re.search(r"^nexus (serve --backend .*?)(?:\s+#.*)?$",
                            readme.read_text(), re.M).group(1)
        upstreams = [FakeUpstream(), FakeUpstream()]
        for upstream in upstreams:
            command = re.sub(r"http://gpu\d:\d+(/v1)?", upstream.url, command, count=1)
        self.assertNotIn("gpu", command)
        process = subprocess.Popen([BIN, *shlex.split(command), "--port", "0"],
                                   stdout=subprocess.PIPE, text=True)
        try:
            line = process.stdout.readline()
            self.assertIn("listening on", line)
            with openai.OpenAI(base_url=line.split()[-1] + "/v1",
                               api_key="none") as client:
                answer = client.chat.completions.create(
                    model="theirs", messages=WEATHER)
            self.assertEqual(answer.choices[0].message.content, "Hello from afar.")
        finally:
            process.terminate()
            self.assertEqual(process.wait(timeout=60), 0)
            process.stdout.close()
            for upstream in upstreams:
                upstream.close()


if __name__ == "__main__":
    unittest.main(verbosity=2)
