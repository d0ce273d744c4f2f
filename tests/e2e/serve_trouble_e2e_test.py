"""`nexus serve` in trouble: clients that leave, time that runs out. The real program
on real weights.
"""

import json
import socket
import threading
import time
import unittest

from serve_e2e_test import MODEL, Server

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


if __name__ == "__main__":
    unittest.main(verbosity=2)
