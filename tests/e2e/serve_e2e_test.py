"""`nexus serve` on real weights, as its clients see it: the real program on a free
port, driven over HTTP.

Run by ctest with NEXUS_BIN set to the program. Only the standard library is used.
"""

import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

BIN = os.environ["NEXUS_BIN"]
# A developer's own settings must not decide what is tested.
for _name in ("MODEL", "STORE", "MCP", "TOOLS", "ENCODER", "CTX", "THREADS", "HOST",
              "PORT", "API_KEY"):
    os.environ.pop("NEXUS_" + _name, None)
os.environ["NEXUS_CONFIG"] = os.devnull
MODEL = "smollm2-135m"
HTTP_API = pathlib.Path(__file__).resolve().parents[2] / "docs" / "http_api.md"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def tool(name, description, **properties):
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {
                "type": "object",
                "properties": {key: {"type": kind} for key, kind in properties.items()},
                "required": list(properties),
            },
        },
    }


TOOLS = [
    tool("get_weather", "Get the current weather in a city", city="string"),
    tool("send_email", "Send an email message to a person", to="string", body="string"),
    tool("convert_currency", "Convert an amount of money between currencies",
         amount="number", to="string"),
]
WEATHER = [{"role": "user", "content": "What is the weather in Paris right now?"}]


class Server:
    """A running `nexus serve`; its folder goes away with it."""

    def __init__(self, *flags, env=None, store=None):
        self.dir = tempfile.TemporaryDirectory(prefix="nexus-serve-")
        self.log = open(pathlib.Path(self.dir.name) / "stderr", "w+")
        self.process = subprocess.Popen(
            [BIN, "serve", "--port", "0", "--model", MODEL, "--threads", "1", "--ctx",
             "1024", "--store", store or self.dir.name + "/store", *flags],
            stdout=subprocess.PIPE, stderr=self.log, text=True,
            env={**os.environ, **(env or {})},
        )
        line = self.process.stdout.readline()
        if "listening on" not in line:
            self.process.wait(timeout=10)
            self.log.seek(0)
            raise AssertionError("no server: " + line + self.log.read())
        self.port = int(line.rsplit(":", 1)[1])

    def request(self, method, path, body=None, headers=None, timeout=120):
        """(status, headers, body as text)"""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            if isinstance(body, (dict, list)):
                body = json.dumps(body)
            connection.request(method, path, body,
                               {"Content-Type": "application/json", **(headers or {})})
            response = connection.getresponse()
            return response.status, response.headers, response.read().decode()
        finally:
            connection.close()

    def chat(self, code=200, headers=None, **fields):
        body = {"model": MODEL, "messages": WEATHER, "max_tokens": 64, **fields}
        status, _, text = self.request("POST", "/v1/chat/completions", body, headers)
        assert status == code, (status, text)
        return json.loads(text)

    def stream(self, **fields):
        """The data of every event, the end mark left out."""
        body = {"model": MODEL, "messages": WEATHER, "max_tokens": 64, "stream": True,
                **fields}
        status, headers, text = self.request("POST", "/v1/chat/completions", body)
        assert status == 200, (status, text)
        assert headers["Content-Type"].startswith("text/event-stream")
        events = [line[len("data: "):] for line in text.split("\n\n") if line]
        assert events[-1] == "[DONE]", events
        return [json.loads(event) for event in events[:-1]]

    def metric(self, name):
        _, _, text = self.request("GET", "/metrics")
        for line in text.splitlines():
            if line.startswith(name + " "):
                return float(line.split()[1])
        raise AssertionError(f"no {name} in\n{text}")

    def await_metric(self, name, at_least, seconds=30):
        deadline = time.monotonic() + seconds
        while self.metric(name) < at_least:
            assert time.monotonic() < deadline, f"{name} stays under {at_least}"
            time.sleep(0.05)

    def kill(self):
        """As kill -9 and the out-of-memory killer do."""
        self.process.kill()
        self.process.wait()
        self._clean_up()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=60)
        self._clean_up()
        return code

    def _clean_up(self):
        self.process.stdout.close()
        self.log.close()
        self.dir.cleanup()


class ServeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def error(self, status, param=None, code=None, body=None, path="/v1/chat/completions",
              method="POST", **fields):
        if body is None and method == "POST":
            body = {"model": MODEL, "messages": WEATHER, **fields}
        got, _, text = self.server.request(method, path, body)
        self.assertEqual(got, status, text)
        error = json.loads(text)["error"]
        self.assertTrue(error["message"])
        self.assertTrue(error["type"])
        if param is not None:
            self.assertEqual(error["param"], param)
        if code is not None:
            self.assertEqual(error["code"], code)

    def test_health_and_models(self):
        status, _, text = self.server.request("GET", "/health")
        self.assertEqual((status, json.loads(text)), (200, {"status": "ok"}))
        _, _, text = self.server.request("GET", "/v1/models")
        self.assertIn(MODEL, [model["id"] for model in json.loads(text)["data"]])

    def test_answers_in_words(self):
        answer = self.server.chat(messages=[{"role": "user", "content": "Say hello."}],
                                  max_tokens=8)
        choice = answer["choices"][0]
        self.assertEqual(answer["object"], "chat.completion")
        self.assertTrue(choice["message"]["content"])
        self.assertIn(choice["finish_reason"], ("stop", "length"))
        self.assertLessEqual(answer["usage"]["completion_tokens"], 8)
        self.assertNotIn("nexus", answer)

    def test_a_stream_says_the_same(self):
        question = {"messages": [{"role": "user", "content": "Say hello."}],
                    "max_tokens": 8}
        whole = self.server.chat(**question)
        chunks = self.server.stream(**question, stream_options={"include_usage": True})
        text = "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks
                       if c["choices"])
        self.assertEqual(text, whole["choices"][0]["message"]["content"])
        self.assertEqual(chunks[0]["choices"][0]["delta"]["role"], "assistant")
        self.assertEqual(chunks[-1]["choices"], [])
        self.assertEqual(chunks[-1]["usage"]["completion_tokens"],
                         whole["usage"]["completion_tokens"])

    def test_calls_the_routed_tool_then_answers_from_its_result(self):
        called = self.server.chat(tools=TOOLS, nexus=True)
        message = called["choices"][0]["message"]
        call = message["tool_calls"][0]
        self.assertEqual(called["choices"][0]["finish_reason"], "tool_calls")
        self.assertEqual(call["function"]["name"], "get_weather")
        self.assertEqual(list(json.loads(call["function"]["arguments"])), ["city"])
        report = called["nexus"]
        self.assertEqual(report["route"]["tool"], "get_weather")
        self.assertTrue(report["call"]["valid"])
        self.assertIn("ttft", report["ms"])

        # The other tools were never in the context.
        self.assertLess(called["usage"]["prompt_tokens"], 300)
        messages = WEATHER + [
            message,
            {"role": "tool", "tool_call_id": call["id"], "content": "18 degrees, rain"},
        ]
        answer = self.server.chat(messages=messages, tools=TOOLS, max_tokens=12)
        self.assertTrue(answer["choices"][0]["message"]["content"])
        cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
        self.assertGreater(cached, 0)

    def test_an_agent_of_two_steps_goes_on_to_the_second(self):
        messages = [{"role": "user", "content":
                     "Get the current weather in Paris, then send an email message "
                     "with it to Ann."}]
        called = []
        while len(called) < 5:
            answer = self.server.chat(messages=messages, tools=TOOLS, nexus=True,
                                      max_tokens=96)
            message = answer["choices"][0]["message"]
            if "tool_calls" not in message:
                break
            call = message["tool_calls"][0]
            self.assertTrue(answer["nexus"]["call"]["valid"])
            called.append(call["function"]["name"])
            messages += [message, {"role": "tool", "tool_call_id": call["id"],
                                   "content": "18 degrees" if len(called) == 1 else "ok"}]
        # Each once, and then words.
        self.assertEqual(sorted(called), ["get_weather", "send_email"])
        self.assertTrue(message["content"])

    def test_a_streamed_call_comes_in_fragments(self):
        chunks = self.server.stream(tools=TOOLS)
        deltas = [c["choices"][0]["delta"] for c in chunks]
        fragments = [d["tool_calls"][0] for d in deltas if "tool_calls" in d]
        self.assertEqual(fragments[0]["function"]["name"], "get_weather")
        self.assertTrue(fragments[0]["id"])
        self.assertGreater(len(fragments), 3)
        arguments = "".join(f["function"]["arguments"] for f in fragments)
        self.assertIn("city", json.loads(arguments))
        self.assertEqual(chunks[-1]["choices"][0]["finish_reason"], "tool_calls")

    def test_a_schema_is_learned_between_requests(self):
        tiers = []
        deadline = time.monotonic() + 60
        while "splice" not in tiers and time.monotonic() < deadline:
            answer = self.server.chat(tools=TOOLS[2:], tool_choice="required",
                                      headers={"X-Nexus": "1"})
            tiers.append(answer["nexus"]["tier"])
            time.sleep(0.5)
        self.assertEqual((tiers[0], tiers[-1]), ("prefill", "splice"))

    def test_a_response_is_streamed_in_openais_events(self):
        status, headers, text = self.server.request("POST", "/v1/responses", {
            "model": MODEL, "input": WEATHER, "max_output_tokens": 64, "stream": True,
            "nexus": True, "tools": [{"type": "function", **t["function"]} for t in TOOLS]})
        self.assertEqual(status, 200, text)
        self.assertTrue(headers["Content-Type"].startswith("text/event-stream"))
        events = []
        for block in text.strip().split("\n\n"):
            name, data = block.split("\n")
            events.append(json.loads(data[len("data: "):]))
            self.assertEqual(name, "event: " + events[-1]["type"])
        kinds = [event["type"] for event in events]
        self.assertEqual(kinds[:3], ["response.created", "response.in_progress",
                                     "response.output_item.added"])
        self.assertEqual(kinds[-3:], ["response.function_call_arguments.done",
                                      "response.output_item.done", "response.completed"])
        pieces = "".join(event["delta"] for event in events if "delta" in event)
        done = events[-1]["response"]
        self.assertEqual(done["output"][0]["arguments"], pieces)
        self.assertEqual(done["output"][0]["name"], "get_weather")
        self.assertEqual(done["nexus"]["route"]["tool"], "get_weather")
        self.error(404, param="model", path="/v1/responses",
                   body={"model": "gpt-4o", "input": "hi"})
        self.error(400, param="input", path="/v1/responses", body={"model": MODEL})

    def test_tool_choice(self):
        none = self.server.chat(tools=TOOLS, tool_choice="none", max_tokens=4)
        self.assertNotIn("tool_calls", none["choices"][0]["message"])
        named = self.server.chat(
            tools=TOOLS, max_tokens=200,
            tool_choice={"type": "function", "function": {"name": "send_email"}})
        call = named["choices"][0]["message"]["tool_calls"][0]
        self.assertEqual(call["function"]["name"], "send_email")

    def test_pinned_tools_are_held_from_turn_to_turn(self):
        pinned = {"tools": TOOLS, "nexus": {"tools": "pin"}, "tool_choice": "required"}
        first = self.server.chat(**pinned)
        message = first["choices"][0]["message"]
        call = message["tool_calls"][0]
        self.assertIn(call["function"]["name"], [t["function"]["name"] for t in TOOLS])
        self.assertTrue(first["nexus"]["call"]["valid"])
        messages = WEATHER + [
            message,
            {"role": "tool", "tool_call_id": call["id"], "content": "18 degrees, rain"},
        ]
        # In another order: the same list all the same.
        pinned["tools"] = TOOLS[::-1]
        second = self.server.chat(messages=messages, **pinned)
        self.assertEqual(second["nexus"]["tier"], "exact-prefix")
        self.assertTrue(second["choices"][0]["message"]["tool_calls"])

    def test_a_hybrid_list_shows_the_best_tools_and_a_finder(self):
        more = TOOLS + [tool(f"plant_tree_{i}", f"Plant a tree in garden {i}", n="integer")
                        for i in range(6)]
        answer = self.server.chat(tools=more, tool_choice="required", max_tokens=128,
                                  nexus={"tools": "hybrid"})
        call = answer["choices"][0]["message"]["tool_calls"][0]["function"]
        self.assertIn(call["name"], [t["function"]["name"] for t in more])
        self.assertIsInstance(json.loads(call["arguments"]), dict)
        report = answer["nexus"]
        self.assertEqual(report["mode"], "hybrid")
        self.assertIsInstance(report["searches"], list)
        self.assertEqual(report["route"]["tool"], "get_weather")
        # Four of nine and the finder, not all of them.
        whole = self.server.chat(tools=more, tool_choice="required", max_tokens=128,
                                 nexus={"tools": "pin"})
        self.assertLess(answer["usage"]["prompt_tokens"], whole["usage"]["prompt_tokens"])

    def test_documents_are_ranked(self):
        documents = ["a recipe for bread", {"text": "the weather in Paris"}, "sheep"]
        status, _, text = self.server.request(
            "POST", "/v1/rerank", {"query": "is it raining in Paris?", "top_n": 2,
                                   "documents": documents, "return_documents": True})
        self.assertEqual(status, 200, text)
        results = json.loads(text)["results"]
        self.assertEqual([len(results), results[0]["index"]], [2, 1])
        self.assertEqual(results[0]["document"], documents[1])
        self.assertGreater(results[0]["relevance_score"], results[1]["relevance_score"])
        self.error(400, param="documents", path="/v1/rerank", body={"query": "x"})

    def test_what_the_page_asks(self):
        def get(path):
            status, headers, text = self.server.request("GET", path)
            self.assertEqual(status, 200, text)
            return headers["Content-Type"], text

        kind, text = get("/")
        self.assertTrue(kind.startswith("text/html"))
        self.assertIn("<html", text)
        about = json.loads(get("/v1/nexus/server")[1])
        self.assertEqual([about["model"], about["context_tokens"], about["splicing"]],
                         [MODEL, 1024, None])
        self.assertEqual(json.loads(get("/v1/nexus/tools")[1])["tools"], [])
        self.assertIn("blocks", json.loads(get("/v1/nexus/store")[1]))
        self.assertIn("profile", json.loads(get("/v1/nexus/profile")[1]))
        kind, text = get("/metrics")
        self.assertTrue(kind.startswith("text/plain"))
        names = re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)
        self.assertGreater(len(names), 15)
        documented = re.findall(r"`(nexus_\w+)", HTTP_API.read_text())
        self.assertEqual([name for name in names if name not in documented], [])

    def test_response_format_and_stop(self):
        schema = {"type": "object", "properties": {"n": {"type": "integer"}},
                  "required": ["n"], "additionalProperties": False}
        answer = self.server.chat(
            response_format={"type": "json_schema",
                             "json_schema": {"name": "n", "schema": schema}})
        content = json.loads(answer["choices"][0]["message"]["content"])
        self.assertIsInstance(content["n"], int)
        whole = self.server.chat(max_tokens=24)["choices"][0]["message"]["content"]
        stop = whole.split()[2]
        short = self.server.chat(max_tokens=24, stop=[stop])["choices"][0]
        self.assertEqual(short["message"]["content"], whole[:whole.index(stop)])
        self.assertEqual(short["finish_reason"], "stop")

    def test_wrong_requests_are_named(self):
        self.error(400, body="{not json")
        self.error(400, body=b"\xff\xfe{}")
        self.error(400, body="[1, 2]")
        self.error(400, param="model", model=7)
        self.error(400, param="messages", messages=[])
        self.error(400, param="messages[0].role", messages=[{"role": 1}])
        self.error(400, param="temperature", temperature="hot")
        self.error(400, param="tools[0]", tools=[{"type": "function"}])
        self.error(400, param="n", n=3)
        self.error(404, param="model", code="model_not_found", model="gpt-4o")
        self.error(404, path="/v1/nothing")
        self.error(405, method="GET")
        self.error(400, code="context_length_exceeded",
                   messages=[{"role": "user", "content": "word " * 5000}])

    def test_a_body_over_the_limit_is_refused(self):
        self.error(413, body="[" + "1," * (3 << 20) + "1]")

    def test_a_half_sent_request_hurts_nobody(self):
        with socket.create_connection(("127.0.0.1", self.server.port)) as half:
            half.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 50")
            self.assertEqual(self.server.request("GET", "/health")[0], 200)

    def test_a_client_that_leaves_ends_its_request(self):
        before = self.server.metric("nexus_requests_cancelled_total")
        body = json.dumps({"model": MODEL, "stream": True, "max_tokens": 900, "messages": [
            {"role": "user", "content": "Count from one to one thousand, in words."}]})
        with socket.create_connection(("127.0.0.1", self.server.port)) as client:
            client.sendall((f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
                            f"Content-Length: {len(body)}\r\n\r\n{body}").encode())
            seen = b""
            while seen.count(b"data: ") < 3:
                seen += client.recv(4096)
        self.server.await_metric("nexus_requests_cancelled_total", before + 1)
        self.server.chat(max_tokens=2)

    def test_embeddings_and_routes(self):
        _, _, text = self.server.request("GET", "/v1/models")
        encoder = json.loads(text)["data"][1]["id"]
        status, _, text = self.server.request(
            "POST", "/v1/embeddings", {"model": encoder, "input": ["a", "b"]})
        self.assertEqual(status, 200, text)
        first, second = (item["embedding"] for item in json.loads(text)["data"])
        self.assertEqual(len(first), len(second))
        self.assertAlmostEqual(sum(x * x for x in first), 1, places=3)
        status, _, text = self.server.request(
            "POST", "/v1/nexus/route",
            {"query": "convert 5 euros to dollars", "tools": TOOLS, "top_k": 2})
        self.assertEqual(status, 200, text)
        self.assertEqual(json.loads(text)["tool"], "convert_currency")
        self.error(400, param="tools", path="/v1/nexus/route", body={"query": "x"})


class ServeStartTest(unittest.TestCase):
    def run_serve(self, *flags, env=None):
        return subprocess.run([BIN, "serve", "--model", MODEL, *flags], timeout=60,
                              capture_output=True, text=True,
                              env={**os.environ, **(env or {})})

    def test_no_public_address_without_a_key(self):
        done = self.run_serve("--host", "0.0.0.0", "--port", "0")
        self.assertEqual(done.returncode, 2)
        self.assertIn("NEXUS_API_KEY", done.stderr)

    def test_wants_the_key(self):
        server = Server(env={"NEXUS_API_KEY": "s3cret"})
        try:
            self.assertEqual(server.request("GET", "/health")[0], 200)
            self.assertEqual(server.request("GET", "/v1/models")[0], 401)
            key = {"Authorization": "Bearer s3cret"}
            self.assertEqual(server.request("GET", "/v1/models", None, key)[0], 200)
            server.log.seek(0)
            self.assertNotIn("s3cret", server.log.read())
        finally:
            self.assertEqual(server.stop(), 0)

    def test_pages_of_its_own_host_and_of_listed_origins_may_ask(self):
        app = "https://app.example"
        server = Server("--allow-origin", app, env={"NEXUS_API_KEY": "s3cret"})

        def ask(origin, host, method="POST", **headers):
            status, answered, _ = server.request(
                method, "/v1/nexus/route", {"query": "convert", "tools": TOOLS},
                {"Origin": origin, "Host": host, "Authorization": "Bearer s3cret",
                 **headers})
            return status, answered["Access-Control-Allow-Origin"]

        try:
            # The server's page on a phone in the network, and behind a TLS proxy.
            self.assertEqual(ask("http://192.168.1.7:8080", "192.168.1.7:8080"),
                             (200, None))
            self.assertEqual(ask("https://nexus.example", "nexus.example"), (200, None))
            self.assertEqual(ask("https://evil.example", "nexus.example"), (403, None))
            self.assertEqual(ask(app, "nexus.example"), (200, app))
            self.assertEqual(
                ask(app, "nexus.example", "OPTIONS", **{
                    "Access-Control-Request-Method": "POST", "Authorization": ""}),
                (204, app))
        finally:
            self.assertEqual(server.stop(), 0)
        wrong = self.run_serve("--allow-origin", "*")
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("--allow-origin", wrong.stderr)

    def test_sigterm_lets_requests_end(self):
        server = Server()
        answers = []
        client = threading.Thread(
            target=lambda: answers.append(server.chat(max_tokens=48)))
        client.start()
        server.await_metric("nexus_requests_running", 1)
        self.assertEqual(server.stop(), 0)
        client.join()
        self.assertIn(answers[0]["choices"][0]["finish_reason"], ("stop", "length"))

    def test_sessions_survive_a_restart_where_asked(self):
        with tempfile.TemporaryDirectory() as kept:
            question = [{"role": "user", "content": "Tell me about the sea. " * 20}]
            server = Server("--session-dir", kept)
            try:
                second = Server("--session-dir", kept)
            except AssertionError as refused:
                self.assertIn("another server", str(refused))
            else:
                second.stop()
                self.fail("two servers share a folder of sessions")
            first = server.chat(messages=question, max_tokens=8)
            self.assertEqual(server.stop(), 0)
            again = Server("--session-dir", kept)
            try:
                turn = [*question, first["choices"][0]["message"],
                        {"role": "user", "content": "And the sky?"}]
                usage = again.chat(messages=turn, max_tokens=4)["usage"]
                self.assertGreater(usage["prompt_tokens_details"]["cached_tokens"],
                                   first["usage"]["prompt_tokens"] * 0.9)
            finally:
                self.assertEqual(again.stop(), 0)
            for name in os.listdir(kept):
                mode = os.stat(os.path.join(kept, name)).st_mode & 0o777
                self.assertEqual(mode, 0o600, name)

    def test_parallel_answers_are_decoded_together(self):
        server = Server("--parallel", "3")
        try:
            answers = [None] * 6

            def ask(i):
                if i % 2:
                    answers[i] = server.chat(tools=TOOLS, nexus=True, user=str(i))
                else:
                    answers[i] = server.chat(nexus=True, messages=[
                        {"role": "user", "content": f"Count to {i + 10}."}])

            clients = [threading.Thread(target=ask, args=[i]) for i in range(6)]
            for client in clients:
                client.start()
            for client in clients:
                client.join()
            for i, answer in enumerate(answers):
                message = answer["choices"][0]["message"]
                self.assertIs(answer["nexus"]["batched"], True)
                if i % 2:
                    call = message["tool_calls"][0]["function"]
                    self.assertEqual(call["name"], "get_weather")
                    self.assertIn("city", json.loads(call["arguments"]))
                else:
                    self.assertTrue(message["content"])
            decodes = server.metric("nexus_batched_decodes_total")
            self.assertGreater(server.metric("nexus_batched_tokens_total"), decodes * 1.2)
        finally:
            self.assertEqual(server.stop(), 0)

    def test_a_full_queue_says_when_to_come_again(self):
        server = Server("--queue", "1")
        try:
            question = [{"role": "user", "content": "Tell me a long story."}]
            clients = [
                threading.Thread(
                    target=lambda: server.request(
                        "POST", "/v1/chat/completions",
                        {"model": MODEL, "messages": question, "max_tokens": 100}))
                for _ in range(2)
            ]
            clients[0].start()
            server.await_metric("nexus_requests_running", 1)
            clients[1].start()
            server.await_metric("nexus_requests_waiting", 1)
            status, headers, text = server.request(
                "POST", "/v1/chat/completions",
                {"model": MODEL, "messages": question})
            self.assertEqual(status, 429, text)
            self.assertGreaterEqual(int(headers["Retry-After"]), 1)
            self.assertEqual(json.loads(text)["error"]["type"], "rate_limit_error")
            for client in clients:
                client.join()
        finally:
            self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
