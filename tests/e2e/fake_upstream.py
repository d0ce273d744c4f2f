"""An OpenAI-compatible server that does what a test tells it to, and keeps what it
was asked: 429, 500, garbage, half a stream, slowness, cut connections. Every answer
is decided by the test, so every run is the same."""

import http.server
import json
import threading
import time


def completion(content=None, calls=None, model="theirs"):
    message = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = [
            {"id": f"call_{i}", "type": "function",
             "function": {"name": name, "arguments": arguments}}
            for i, (name, arguments) in enumerate(calls)]
    return {
        "id": "theirs", "object": "chat.completion", "created": 1, "model": model,
        "choices": [{"index": 0, "message": message, "logprobs": None,
                     "finish_reason": "tool_calls" if calls else "stop"}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
    }


def chunks(whole):
    """The same answer as a stream's chunks, in small pieces."""
    message = whole["choices"][0]["message"]

    def chunk(delta, reason=None):
        return {"id": "theirs", "object": "chat.completion.chunk", "created": 1,
                "model": "theirs",
                "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    yield chunk({"role": "assistant", "content": None})
    for word in (message["content"] or "").split(" "):
        if word:
            yield chunk({"content": word + " "})
    for i, call in enumerate(message.get("tool_calls", [])):
        arguments = call["function"]["arguments"]
        yield chunk({"tool_calls": [{
            "index": i, "id": call["id"], "type": "function",
            "function": {"name": call["function"]["name"], "arguments": ""}}]})
        for at in range(0, len(arguments), 5):
            yield chunk({"tool_calls": [{
                "index": i, "function": {"arguments": arguments[at:at + 5]}}]})
    yield chunk({}, whole["choices"][0]["finish_reason"])


class FakeUpstream:
    """Each request takes the next of `steps`; when they are used up, `default`.

    A step is (kind, value): ("words", text), ("calls", [(name, arguments)]),
    ("status", code or (code, headers)), ("raw", (content type, bytes)),
    ("half", text), ("slow", seconds), ("cut", None).
    """

    def __init__(self):
        self.default = ("words", "Hello from afar.")
        self.steps = []
        self.requests = []
        self.keys = []
        self.healthy = True
        self.lock = threading.Lock()
        upstream = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                if self.path == "/health":
                    code = 200 if upstream.healthy else 503
                    return self.send(code, b'{"status": "ok"}')
                self.send(200, json.dumps(
                    {"object": "list", "data": [{"id": "theirs"}]}).encode())

            def do_POST(self):
                length = int(self.headers["Content-Length"])
                body = json.loads(self.rfile.read(length))
                with upstream.lock:
                    upstream.requests.append(body)
                    upstream.keys.append(self.headers.get("Authorization"))
                    kind, value = (upstream.steps.pop(0) if upstream.steps
                                   else upstream.default)
                getattr(self, "answer_" + kind)(body, value)

            def send(self, code, body, content_type="application/json", headers=None):
                self.send_response(code)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(body)))
                for name, text in (headers or {}).items():
                    self.send_header(name, text)
                self.end_headers()
                self.wfile.write(body)

            def answer(self, body, whole):
                if not body.get("stream"):
                    return self.send(200, json.dumps(whole).encode())
                events = [json.dumps(chunk) for chunk in chunks(whole)]
                if (body.get("stream_options") or {}).get("include_usage"):
                    last = json.loads(events[-1])
                    events.append(json.dumps(
                        {**last, "choices": [], "usage": whole["usage"]}))
                self.send_events(events + ["[DONE]"])

            def send_events(self, events):
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Connection", "close")
                self.end_headers()
                for event in events:
                    self.wfile.write(f"data: {event}\n\n".encode())
                    self.wfile.flush()
                self.close_connection = True

            def answer_words(self, body, text):
                self.answer(body, completion(text))

            def answer_calls(self, body, calls):
                self.answer(body, completion(None, calls))

            def answer_status(self, body, value):
                code, headers = value if isinstance(value, tuple) else (value, {})
                self.send(code, json.dumps(
                    {"error": {"message": f"told to say {code}"}}).encode(),
                    headers=headers)

            def answer_raw(self, body, value):
                content_type, data = value
                self.send(200, data, content_type)

            def answer_half(self, body, text):
                events = [json.dumps(chunk) for chunk in chunks(completion(text))]
                self.send_events(events[:2])

            def answer_slow(self, body, seconds):
                time.sleep(seconds)
                self.answer(body, completion("late"))

            def answer_cut(self, body, _):
                self.close_connection = True
                self.connection.close()

        class Quiet(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass  # clients of these tests leave early on purpose

        self.server = Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def script(self, *steps):
        with self.lock:
            self.steps = list(steps)
            self.requests.clear()
            self.keys.clear()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
