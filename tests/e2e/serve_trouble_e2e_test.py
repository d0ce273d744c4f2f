"""`nexus serve` in trouble: clients that leave, time that runs out, signals, two servers
on one store, lists and schemas of absurd size. The real program on real weights.
"""

import json
import pathlib
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest
import uuid

from serve_e2e_test import BIN, MODEL, TOOLS, Server, tool

# 900 tokens: many seconds.
LONG = {"model": MODEL, "max_tokens": 900,
        "messages": [{"role": "user", "content": "Tell me a long story."}]}


def post(server, fields):
    """A socket with the request on its way."""
    body = json.dumps(fields)
    client = socket.create_connection(("127.0.0.1", server.port), 60)
    client.sendall((f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
                    f"Content-Length: {len(body)}\r\n\r\n{body}").encode())
    return client


class DeadlineTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--deadline", "2", "--no-idle")

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def test_a_whole_answer_that_takes_too_long_is_408(self):
        start = time.monotonic()
        status, _, text = self.server.request("POST", "/v1/chat/completions", LONG)
        self.assertEqual(status, 408, text)
        self.assertIn("took too long", json.loads(text)["error"]["message"])
        self.assertLess(time.monotonic() - start, 8)

    def test_a_stream_that_takes_too_long_ends_with_an_error_event(self):
        start = time.monotonic()
        status, _, text = self.server.request("POST", "/v1/chat/completions",
                                              {**LONG, "stream": True})
        self.assertEqual(status, 200, text)
        events = [line for line in text.split("\n\n") if line]
        self.assertGreater(len(events), 2)
        self.assertNotIn("[DONE]", text)
        error = json.loads(events[-1].split("data: ", 1)[1])["error"]
        self.assertIn("took too long", error["message"])
        self.assertLess(time.monotonic() - start, 8)

    def test_who_waits_in_the_queue_too_long_gets_408(self):
        clients = [post(self.server, LONG) for _ in range(2)]
        try:
            for client in clients:
                self.assertIn(b" 408 ", client.recv(4096).split(b"\r\n")[0])
        finally:
            for client in clients:
                client.close()


    def test_thousands_of_new_tools_are_routed_or_given_up_in_time(self):
        # Names that no cache of embeddings has seen.
        new = uuid.uuid4().hex[:6]
        tools = [tool(f"tool_{i}_{new}", f"Does {i} of {new}", x="string")
                 for i in range(4000)]
        start = time.monotonic()
        status, _, text = self.server.request("POST", "/v1/chat/completions",
                                              {**LONG, "tools": tools})
        self.assertEqual(status, 408, text)
        self.assertLess(time.monotonic() - start, 15)

    def test_lists_and_schemas_of_absurd_size_are_refused_or_end_in_time(self):
        named = {"type": "function", "function": {"name": "bomb"}}

        def ask(body, statuses, says):
            start = time.monotonic()
            status, _, text = self.server.request("POST", "/v1/chat/completions", body)
            self.assertIn(status, statuses, text[:500])
            if status == 400:
                self.assertIn(says, json.loads(text)["error"]["message"])
            self.assertLess(time.monotonic() - start, 15)

        def bomb(**schema):
            entry = tool("bomb", "Explodes")
            entry["function"]["parameters"] = {"type": "object", **schema}
            return {**LONG, "tools": [entry], "tool_choice": named}

        many = [tool(f"tool_{i}", f"Does {i}", x="string") for i in range(4097)]
        ask({**LONG, "tools": many}, [400], "at most 4096")
        ask({**LONG, "tools": many[:4000], "nexus": {"tools": "pin"}}, [400], "context")
        deep = {}
        for _ in range(400):
            deep = {"properties": {"x": deep}}
        ask(bomb(**deep), [400], "nested")
        # 2^30 integers, written out.
        doubled = {f"d{i}": {"type": "object", "required": ["a", "b"], "properties": {
            key: {"$ref": f"#/$defs/d{i + 1}"} for key in "ab"}} for i in range(30)}
        doubled["d30"] = {"type": "integer"}
        ask(bomb(properties={"x": {"$ref": "#/$defs/d0"}}, **{"$defs": doubled}),
            [400, 408], "context")
        for never_ends in (
                {"$ref": "#"},
                {"type": "string", "pattern": "^((a{1,1000}){1,1000}){1,1000}$"},
                {"type": "array", "minItems": 10**5, "items": {
                    "type": "array", "minItems": 10**5, "items": {"type": "integer"}}}):
            ask(bomb(properties={"x": never_ends}, required=["x"]), [200, 400, 408], "")
        # It has taken no harm.
        self.assertEqual(self.server.request("GET", "/health")[0], 200)


class LeavingTest(unittest.TestCase):
    """A client that closes its connection ends its request, wherever that is."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server("--no-idle")

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def cancelled(self):
        return self.server.metric("nexus_requests_cancelled_total")

    def await_cancelled(self, count):
        # Long before the answer's end.
        self.server.await_metric("nexus_requests_cancelled_total", count, seconds=10)

    def test_while_a_whole_answer_is_written(self):
        before = self.cancelled()
        client = post(self.server, LONG)
        self.server.await_metric("nexus_requests_running", 1)
        time.sleep(0.3)
        client.close()
        self.await_cancelled(before + 1)
        self.server.chat(max_tokens=2)

    def test_while_the_request_waits(self):
        before = self.cancelled()
        answers = []
        running = threading.Thread(
            target=lambda: answers.append(
                self.server.chat(**{**LONG, "max_tokens": 40})))
        running.start()
        self.server.await_metric("nexus_requests_running", 1)
        other = {**LONG, "messages": [{"role": "user", "content": "Another one."}]}
        waiting = post(self.server, other)
        self.server.await_metric("nexus_requests_waiting", 1)
        waiting.close()
        running.join()
        self.await_cancelled(before + 1)
        # The other's leaving is nothing to it.
        self.assertTrue(answers[0]["choices"][0]["message"]["content"])


class SignalTest(unittest.TestCase):
    def test_sigterm_lets_what_runs_waits_and_streams_end(self):
        server = Server("--parallel", "2", "--no-idle")
        answers = {}

        def ask(name, stream):
            messages = [{"role": "user", "content": f"Tell me a story, {name}."}]
            answers[name] = server.request(
                "POST", "/v1/chat/completions",
                {"model": MODEL, "messages": messages, "max_tokens": 60,
                 "stream": stream})

        clients = [threading.Thread(target=ask, args=each) for each in (
            ("stream", True), ("whole", False), ("waiting", False))]
        for client in clients[:2]:
            client.start()
        server.await_metric("nexus_requests_running", 2)
        clients[2].start()
        server.await_metric("nexus_requests_waiting", 1)
        server.process.send_signal(signal.SIGTERM)
        statuses = []
        while 503 not in statuses and server.process.poll() is None:
            try:
                statuses.append(server.request("GET", "/health")[0])
            except OSError:
                pass  # between two states, or gone
            time.sleep(0.02)
        self.assertIn(503, statuses)
        for client in clients:
            client.join()
        server.process.wait(timeout=60)  # a second SIGTERM would end it at once
        self.assertEqual(server.stop(), 0)
        for name, (status, _, text) in answers.items():
            self.assertEqual(status, 200, (name, text))
        self.assertTrue(answers["stream"][2].endswith("data: [DONE]\n\n"))
        for name in ("whole", "waiting"):
            choice = json.loads(answers[name][2])["choices"][0]
            self.assertIn(choice["finish_reason"], ("stop", "length"))


class StoreTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="nexus-store-")
        self.addCleanup(folder.cleanup)
        self.store = folder.name

    def call(self, server):
        answer = server.chat(tools=TOOLS[2:], tool_choice="required", nexus=True)
        report = answer["nexus"]
        self.assertTrue(report["call"]["valid"], report)
        return report["tier"]

    def learn(self, server):
        """Until the store has the schema's cells."""
        deadline = time.monotonic() + 90
        while self.call(server) != "splice":
            self.assertLess(time.monotonic(), deadline, "nothing was learned")
            time.sleep(0.3)

    def check_store(self):
        """Every block opens, with every checksum right."""
        blocks = sorted(pathlib.Path(self.store).rglob("*.nxb"))
        self.assertTrue(blocks)
        for block in blocks:
            done = subprocess.run(
                [BIN, "inspect", block, "--model", MODEL, "--store", self.store],
                capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_kill_9_leaves_a_whole_store(self):
        server = Server(store=self.store)
        self.learn(server)
        # In the middle of a request; then while it learns from one.
        for wait in (True, False):
            client = post(server, LONG if wait else {
                **LONG, "tools": TOOLS[:1], "tool_choice": "required",
                "max_tokens": 64})
            if wait:
                server.await_metric("nexus_requests_running", 1)
            else:
                client.recv(4096)
            server.kill()
            client.close()
            self.check_store()
            server = Server(store=self.store)
            # What was learned before is there.
            self.assertEqual(self.call(server), "splice")
        self.assertEqual(server.stop(), 0)

    def test_two_servers_share_a_store(self):
        servers = [Server(store=self.store) for _ in range(2)]
        try:
            failures = []

            def learn(server):
                try:
                    self.learn(server)
                except AssertionError as failure:
                    failures.append(failure)

            clients = [threading.Thread(target=learn, args=[server])
                       for server in servers]
            for client in clients:
                client.start()
            for client in clients:
                client.join()
            self.assertEqual(failures, [])
            self.check_store()
        finally:
            codes = [server.stop() for server in servers]
        self.assertEqual(codes, [0, 0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
