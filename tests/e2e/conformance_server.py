"""An MCP server over stdio with the tools, prompts and resources that the official
conformance suite asks its servers for. mcp_conformance_test.py puts `nexus mcp` in front.

Two of its tools ask the client for something. Only the standard library is used.
"""

import base64
import json
import struct
import sys
import time
import zlib


def chunk(kind, data):
    whole = kind + data
    return struct.pack(">I", len(data)) + whole + struct.pack(">I", zlib.crc32(whole))


# One red pixel, and no sound at all.
PNG = base64.b64encode(
    b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
    + chunk(b"IDAT", zlib.compress(b"\0\xff\0\0")) + chunk(b"IEND", b"")).decode()
WAV = base64.b64encode(
    b"RIFF" + struct.pack("<I", 36) + b"WAVEfmt "
    + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 8000, 1, 8)
    + b"data" + struct.pack("<I", 0)).decode()


def text(words):
    return {"type": "text", "text": words}


def embedded(uri, kind="text/plain", words="Embedded words."):
    return {"type": "resource",
            "resource": {"uri": uri, "mimeType": kind, "text": words}}


IMAGE = {"type": "image", "data": PNG, "mimeType": "image/png"}
CONTENT = {
    "test_simple_text": [text("Simple words.")],
    "test_image_content": [IMAGE],
    "test_audio_content": [{"type": "audio", "data": WAV, "mimeType": "audio/wav"}],
    "test_embedded_resource": [embedded("test://embedded-resource")],
    "test_multiple_content_types": [
        text("Several kinds:"), IMAGE,
        embedded("test://mixed-content-resource", "application/json", '{"value":123}')],
    "test_tool_with_logging": [text("Logged.")],
    "test_tool_with_progress": [text("Done.")],
    "test_error_handling": [text("This tool always fails.")],
    "json_schema_2020_12_tool": [text("It has a schema.")],
    "test_logging_tool": [text("Logged.")],
    "test_marked_parameter": [text("It has a header.")],
    "test_trigger_tool_change": [text("Another tool.")],
    "test_trigger_prompt_change": [text("Another prompt.")],
    "test_missing_capability": [],
}
LOGGING = ("test_tool_with_logging", "test_logging_tool")
# tool: what it asks the client for
ASKS = {
    "test_sampling": ("sampling/createMessage", {"maxTokens": 100, "messages": [
        {"role": "user", "content": text("Say something.")}]}),
    "test_elicitation": ("elicitation/create", {
        "message": "Who are you?",
        "requestedSchema": {"type": "object", "properties": {
            "username": {"type": "string"}, "email": {"type": "string"}}}}),
}
ASKS["test_streaming_elicitation"] = ASKS["test_elicitation"]
SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {
        "street": {"type": "string"}, "city": {"type": "string"}}}},
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"},
                   "contactMethod": {"enum": ["phone", "email"]},
                   "phone": {"type": "string"}, "email": {"type": "string"}},
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}},
           "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
MARKED = {"type": "object", "properties": {
    "region": {"type": "string", "x-mcp-header": "Region"}}}
SCHEMAS = {"json_schema_2020_12_tool": SCHEMA, "test_marked_parameter": MARKED}
PROMPTS = {
    "test_simple_prompt": [],
    "test_prompt_with_arguments": ["arg1", "arg2"],
    "test_prompt_with_embedded_resource": ["resourceUri"],
    "test_prompt_with_image": [],
}
more = {"tool": 0, "prompt": 0}  # that came later


class Refused(Exception):
    """An error of JSON-RPC: code, message, data."""


TEMPLATE = "test://template/{id}/data"


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def notify(method, **params):
    send({"method": method, "params": params})


def ask(method, params):
    """What the client answers; None when it refuses."""
    send({"id": "asked", "method": method, "params": params})
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("id") == "asked" and "method" not in message:
            return message.get("result")
        handle(message)
    return None


def call(params):
    name = params["name"]
    if name in ASKS:
        answered = ask(*ASKS[name])
        return {"content": [text(json.dumps(answered))], "isError": answered is None}
    token = params.get("_meta", {}).get("progressToken")
    if name == "test_missing_capability":
        raise Refused(-32021, "it takes sampling",
                      {"requiredCapabilities": {"sampling": {}}})
    if name in ("test_trigger_tool_change", "test_trigger_prompt_change"):
        kind = name.split("_")[2]
        more[kind] += 1
        notify(f"notifications/{kind}s/list_changed")
    if name in LOGGING:
        for words in ("started", "at work", "done"):
            notify("notifications/message", level="info", data=words)
            time.sleep(0.05)
    if name == "test_tool_with_progress" and token is not None:
        for progress in (0, 50, 100):
            notify("notifications/progress", progressToken=token, progress=progress,
                   total=100)
            time.sleep(0.05)
    return {"content": CONTENT[name], "isError": name == "test_error_handling"}


def prompt(params):
    given = params.get("arguments", {})
    parts = {
        "test_simple_prompt": [text("Simple words.")],
        "test_prompt_with_arguments": [text(f"Given: {given}")],
        "test_prompt_with_embedded_resource": [embedded(given.get("resourceUri", ""))],
        "test_prompt_with_image": [IMAGE, text("What is it?")],
    }[params["name"]]
    return {"messages": [{"role": "user", "content": part} for part in parts]}


def read(params):
    uri = params["uri"]
    if uri == "test://static-binary":
        body = {"mimeType": "image/png", "blob": PNG}
    elif uri == "test://static-text":
        body = {"mimeType": "text/plain", "text": "Words that stay."}
    elif not uri.startswith("test://template/"):
        raise Refused(-32002, "there is no such resource", {"uri": uri})
    else:
        number = uri.removeprefix("test://template/").removesuffix("/data")
        body = {"mimeType": "application/json", "text": json.dumps({"id": number})}
    return {"contents": [{"uri": uri, **body}]}


def names_of_more(kind):
    return [f"another_{kind}_{number}" for number in range(more[kind])]


def answer(method, params):
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}, "prompts": {}, "resources": {},
                                 "logging": {}, "completions": {}},
                "serverInfo": {"name": "suite", "version": "1"}}
    if method == "tools/list":
        return {"tools": [
            {"name": name, "description": f"For the suite: {name}",
             "inputSchema": SCHEMAS.get(name, {"type": "object"})}
            for name in (*CONTENT, *ASKS, *names_of_more("tool"))]}
    if method == "prompts/list":
        return {"prompts": [
            {"name": name, "description": f"For the suite: {name}",
             "arguments": [{"name": one, "required": True} for one in needed]}
            for name, needed in (*PROMPTS.items(),
                                 *((one, []) for one in names_of_more("prompt")))]}
    if method == "resources/list":
        return {"resources": [{"uri": "test://static-text", "name": "words"},
                              {"uri": "test://static-binary", "name": "picture"}]}
    if method == "resources/templates/list":
        return {"resourceTemplates": [{"uriTemplate": TEMPLATE, "name": "data"}]}
    if method == "completion/complete":
        return {"completion": {"values": ["test one", "test two"], "hasMore": False}}
    known = {"tools/call": call, "prompts/get": prompt, "resources/read": read,
             "logging/setLevel": lambda _: {}, "ping": lambda _: {}}
    return known[method](params)


def handle(message):
    if "id" not in message or "method" not in message:
        return
    try:
        result = answer(message["method"], message.get("params", {}))
        send({"id": message["id"], "result": result})
    except Refused as refused:
        code, words, data = refused.args
        send({"id": message["id"],
              "error": {"code": code, "message": words, "data": data}})
    except KeyError as unknown:
        send({"id": message["id"],
              "error": {"code": -32602, "message": f"unknown: {unknown}"}})


for one in sys.stdin:
    handle(json.loads(one))
