"""One streamed chat request, timed as its client sees it."""

import http.client
import json
import time


class Failed(Exception):
    """The server answered with an error, or not at all."""


def chat(port, model, body, timeout=1800):
    """Sends `body` for `model` as a stream. Returns {first_s, total_s, text, calls,
    usage, report, timings}: first_s is None where nothing came, else the time to the
    first chunk that carries text or a part of a call (the chunk that only says
    `role: assistant` is none). `report` is Nexus's, `timings` llama-server's own."""
    body = {"model": model, **body, "stream": True,
            "stream_options": {"include_usage": True}}
    data = json.dumps(body).encode()
    answer = {"first_s": None, "text": "", "calls": [], "usage": None,
              "report": None, "timings": None, "finish": None}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    began = time.monotonic()
    try:
        connection.request("POST", "/v1/chat/completions", data, {
            "Content-Type": "application/json", "X-Nexus": "1"})
        response = connection.getresponse()
        if response.status != 200:
            text = response.read(2000).decode(errors="replace")
            raise Failed(f"status {response.status}: {text}")
        for line in response:
            if not line.startswith(b"data:"):
                continue
            payload = line[5:].strip()
            if payload == b"[DONE]":
                break
            take(json.loads(payload), answer, time.monotonic() - began)
    except (OSError, http.client.HTTPException) as problem:
        raise Failed(f"{type(problem).__name__}: {problem}") from problem
    finally:
        connection.close()
    answer["total_s"] = time.monotonic() - began
    if answer["finish"] is None:
        raise Failed("the stream ended early")
    return answer


def take(chunk, answer, now):
    """Folds one chunk into the answer."""
    if "error" in chunk:
        raise Failed(json.dumps(chunk["error"])[:2000])
    for ours, theirs in (("usage", "usage"), ("report", "nexus"),
                         ("timings", "timings")):
        answer[ours] = chunk.get(theirs) or answer[ours]
    for choice in chunk.get("choices", []):
        delta = choice.get("delta", {})
        answer["finish"] = choice.get("finish_reason") or answer["finish"]
        if not (delta.get("content") or delta.get("tool_calls")):
            continue
        if answer["first_s"] is None:
            answer["first_s"] = now
        answer["text"] += delta.get("content") or ""
        for part in delta.get("tool_calls") or []:
            while len(answer["calls"]) <= part["index"]:
                answer["calls"].append({"name": "", "arguments": ""})
            call = answer["calls"][part["index"]]
            function = part.get("function", {})
            call["name"] += function.get("name") or ""
            call["arguments"] += function.get("arguments") or ""


def ttft(arm_kind, answer):
    """Seconds to the first generated token.

    Each server's figure is the one that is worse for Nexus. Nexus knows a routed
    call's name before its model has generated anything and sends it, so its own
    report of the first sampled token counts where that is later. llama-server holds
    the beginning of a call back until it can be parsed, so its own time of the
    prompt and of one token counts where that is shorter.
    """
    first = answer["first_s"]
    if first is None:
        first = answer["total_s"]
    if arm_kind == "nexus" and answer["report"]:
        first = max(first, answer["report"]["ms"]["ttft"] / 1000)
    if arm_kind == "llama-server" and answer["timings"]:
        own = answer["timings"]
        spent = own["prompt_ms"] + own.get("predicted_per_token_ms", 0)
        first = min(first, max(spent, 0) / 1000)
    return first
